"""RED: Floyd and Jacobson 1993, figure 2, and the gentle variant (Floyd 2000), in floating point: the code uses fixed-point
numbers, and no decision here is so close that the difference counts.

The draws are SplitMix64 (Steele, Lea, Flood 2014, figure 17), whose upper 32 bits are compared with p_a.
"""

from collections import deque

from link import HEADER, RATE_BPS, Fates, recorded, serve

MIN_TH, MAX_TH, MAX_P = 5, 15, 0.1
WEIGHT = 2.0**-6
PACKET_TIME = 1000 * 8 * 10**9 // RATE_BPS
SEED = 7
MARGIN = 1e-6


class SplitMix64:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31


def less(a, b):
    assert abs(a - b) > MARGIN, f"too close to tell in fixed point: {a} and {b}"
    return a < b


class Queue:
    def __init__(self, fates, gentle, mark):
        self.fates, self.gentle, self.mark = fates, gentle, mark
        self.packets = deque()
        self.avg, self.count, self.q_time = 0.0, -1, 0
        self.draws = SplitMix64(SEED)
        self.averages = []

    def average(self, now):
        if self.packets:
            self.avg = (1 - WEIGHT) * self.avg + WEIGHT * len(self.packets)
        else:
            # "m <- f(time - q_time)": the packets of mean size that the link could have sent. A packet that is dropped leaves
            # the queue empty, and its time has been counted.
            for _ in range((now - self.q_time) // PACKET_TIME):
                self.avg *= 1 - WEIGHT
            self.q_time = now
        self.averages.append(self.avg)

    def enqueue(self, packet, now):
        self.average(now)
        p_b = self.probability()
        if p_b is None:
            self.count = -1
        elif p_b == 1:
            self.count = 0
            return self.fates.ends(packet, "forced", now)
        else:
            self.count += 1
            left = 1 - self.count * p_b
            p_a = min(1.0, p_b / left) if left > 0 else 1.0
            draw = (self.draws.next() >> 32) / 2**32
            if p_a == 1.0 or less(draw, p_a):
                self.count = 0
                if not self.mark or not packet.capable:
                    return self.fates.ends(packet, "early", now)
                self.fates.mark(packet)
        self.packets.append(packet)

    def probability(self):
        """p_b; `None` below min_th, 1 where every packet goes."""
        if self.avg == 0 or less(self.avg, MIN_TH):
            return None
        if less(self.avg, MAX_TH):
            return MAX_P * (self.avg - MIN_TH) / (MAX_TH - MIN_TH)
        if self.gentle and less(self.avg, 2 * MAX_TH):
            return MAX_P + (1 - MAX_P) * (self.avg - MAX_TH) / MAX_TH
        return 1

    def dequeue(self, now):
        packet = self.packets.popleft() if self.packets else None
        if packet is not None and not self.packets:
            self.q_time = now
        return packet


def rows(gentle, mark):
    def rows():
        arrivals = recorded()
        fates = Fates(len(arrivals))
        queue = Queue(fates, gentle, mark)
        served = serve(queue, arrivals, fates)
        return [(*row, round(avg * 10**6)) for row, avg in zip(served, queue.averages)]

    return rows


FILES = {
    "red.csv": (f"{HEADER},avg_millionths", rows(False, False)),
    "red_marking.csv": (f"{HEADER},avg_millionths", rows(False, True)),
    "red_gentle.csv": (f"{HEADER},avg_millionths", rows(True, False)),
}
