"""A megabyte alone over fig. 6 of Brakmo and Peterson, by Reno as released (Net/2) and by Vegas as ns' tcp-vegas.cc has it.

Every segment is acknowledged. Times are in microseconds, windows in segments.
"""

import heapq

PACKET, HEADERS = 1400, 40  # bytes
TOTAL, OFFERED = -(-1_024_000 // (PACKET - HEADERS)), 50_000 // (PACKET - HEADERS)  # segments; the receiver's window
ETHERNET, DELAY, TICK = 1_120, 50_000, 500_000  # a packet at 10 Mbit/s; one way


class Network:
    def __init__(self, rate, buffers):
        self.now, self.events, self.number, self.dropped = 0, [], 0, 0
        self.service, self.ack_service = PACKET * 10**6 // rate, 64 + 40 * 10**6 // rate  # with 40 bytes on two Ethernets
        self.buffers, self.departures = buffers, []

    def at(self, when, what, *arguments):
        self.number += 1
        heapq.heappush(self.events, (when, self.number, what, arguments))

    def run(self, done):
        while not done() and self.now < 60_000_000:
            self.now, _, what, arguments = heapq.heappop(self.events)
            what(*arguments)

    def send(self, deliver, segment):
        """A packet meets the router's buffers; the one being sent holds one."""
        self.departures = [at for at in self.departures if at > self.now]
        if len(self.departures) < self.buffers:
            self.departures.append((self.departures or [self.now])[-1] + self.service)
            return self.at(self.departures[-1] + DELAY + ETHERNET, deliver, segment)
        self.dropped += 1


class Reno:
    """sys/netinet/tcp_input.c and tcp_timer.c of 28 June 1990; the first round trip counts no tick more."""

    def __init__(self, net, phase):
        self.net, self.una, self.nxt, self.max, self.again = net, 0, 0, 0, 0
        self.cwnd, self.threshold, self.dups, self.last_out = 1.0, OFFERED * 2.0, 0, 0
        self.srtt = self.var = self.rtt = self.timed = self.shift = self.timeouts = 0
        self.timer, self.expected, self.held, self.sent_at = 0, 0, set(), {}
        net.at(0, self.output)
        net.at(TICK - phase, self.tick)

    def output(self):
        while self.nxt < min(self.una + min(OFFERED, int(self.cwnd)), TOTAL):
            self.transmit(self.nxt)
            self.nxt, self.max = self.nxt + 1, max(self.max, self.nxt + 1)

    def transmit(self, segment):
        self.again += segment < self.max
        self.rtt, self.timed = (1, segment) if segment >= self.max and not self.rtt else (self.rtt, self.timed)
        self.sent_at[segment] = self.net.now
        self.last_out = max(self.last_out, self.net.now) + ETHERNET
        self.net.at(self.last_out, self.net.send, self.receive, segment)
        self.timer = self.timer or self.timeout()

    def receive(self, segment):
        self.held.add(segment)
        while self.expected in self.held:
            self.expected += 1
        self.net.at(self.net.now + DELAY + self.net.ack_service, self.on_ack, self.expected)

    def timeout(self):
        return min(max((self.srtt >> 3) + self.var, 2) if self.srtt else 6, 64) << self.shift

    def tick(self):
        self.net.at(self.net.now + TICK, self.tick)
        self.rtt += self.rtt > 0
        if self.timer != 1:
            self.timer = max(self.timer - 1, 0)
            return
        self.shift, self.timeouts, self.timer, self.threshold = self.shift + 1, self.timeouts + 1, 0, self.half()
        self.cwnd, self.nxt, self.rtt, self.dups = 1.0, self.una, 0, 0
        self.output()

    def half(self):
        return float(max(min(OFFERED, int(self.cwnd)) // 2, 2))

    def on_ack(self, ack):
        if ack == self.una:
            self.dups += ack < self.max
            if self.dups == 3:
                self.threshold, self.rtt = self.half(), 0
                self.transmit(self.una)
                self.cwnd = self.threshold + 3
            elif self.dups > 3:
                self.cwnd += 1
            return self.output()
        self.cwnd, self.dups = min(self.cwnd, self.threshold) if self.dups > 3 else self.cwnd, 0
        if self.rtt and ack > self.timed:
            self.sample(self.rtt - 1)
        self.newly_acked(ack)
        self.una, self.nxt, self.timer = ack, max(self.nxt, ack), 0 if ack == self.max else self.timeout()
        self.output()

    def sample(self, ticks):
        self.rtt = self.shift = 0
        error = ticks - (self.srtt >> 3)
        first, then = (max(ticks << 3, 1), ticks << 1), (max(self.srtt + error, 1), self.var + abs(error) - (self.var >> 2))
        self.srtt, self.var = then if self.srtt else first

    def newly_acked(self, _):
        self.cwnd = min(self.cwnd + (1 if self.cwnd <= self.threshold else 1 / self.cwnd), 65_535 // (PACKET - HEADERS))


class Vegas(Reno):
    """Congestion avoidance of tcp-vegas.cc. It loses nothing in fig. 7, and so what it does on a loss is Reno's here."""

    def __init__(self, net, phase):
        super().__init__(net, phase)
        self.base, self.begin, self.begun_at, self.times, self.grow, self.doubles = 10**9, 0, 0, [], 0.0, True

    def newly_acked(self, ack):
        out = self.nxt - ack + 1  # t_seqno_ - last_ack_: the newest acknowledged one counts, too
        if ack > self.begin:
            rtt = sum(self.times) / len(self.times) if self.times else self.net.now - self.begun_at
            self.round(rtt, self.nxt - self.begin, out)
            self.times, self.begin, self.begun_at = [], self.nxt, self.net.now
        if self.grow and self.cwnd - out <= 2:
            self.cwnd += self.grow
        self.times.append(self.net.now - self.sent_at[ack - 1])

    def round(self, rtt, sent, out):
        self.base = rtt if sent <= 1 else min(self.base, rtt)
        diff = int(out - sent / rtt * self.base + 0.5)
        if self.cwnd < self.threshold:
            self.doubles = not self.doubles
            self.grow = float(self.doubles and diff <= 1)
            if self.doubles and diff > 1:
                self.threshold, self.cwnd = 2.0, max(self.cwnd * 7 / 8, 2.0)
        elif diff > 3:
            self.cwnd, self.grow = max(self.cwnd - 1, 2.0), 0.0
        else:
            self.grow = 1 / self.cwnd if diff < 1 else 0.0


def runs():
    for name, sender in (("reno", Reno), ("vegas", Vegas)):
        for run in range(25):
            net = Network(200_000, 10)
            one = sender(net, run * TICK // 25)
            net.run(lambda: one.una == TOTAL)
            yield name, run, f"{1024e6 / net.now:.2f}", f"{one.again * (PACKET - HEADERS) / 1000:.2f}", one.timeouts, net.dropped


FILES = {"alone.csv": ("sender,run,kb_s,kb_again,timeouts,dropped", runs)}
