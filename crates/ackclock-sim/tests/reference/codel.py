"""CoDel: RFC 8289 §5, the annotated pseudocode, with its names."""

from collections import deque
from math import isqrt

from link import HEADER, Fates, recorded, serve

TARGET = 5_000_000
INTERVAL = 100_000_000
MAXPACKET = 1500


def control_law(t, count):
    """§5.6: t + INTERVAL / sqrt(count), with the square root in parts of 2^16, as the code documents; `law` bounds the error."""
    return t + (INTERVAL << 16) // isqrt(count << 32)


class Queue:
    """queue_t and codel_queue_t."""

    def __init__(self, fates, mark):
        self.fates, self.mark = fates, mark
        self.packets = deque()
        self.bytes = 0
        self.first_above_time = 0
        self.drop_next = 0
        self.count = 0
        self.lastcount = 0
        self.dropping = False

    def enqueue(self, packet, now):
        packet.tstamp = now
        self.packets.append(packet)
        self.bytes += packet.bytes

    def pop(self):
        if not self.packets:
            return None
        packet = self.packets.popleft()
        self.bytes -= packet.bytes
        return packet

    def dodequeue(self, now):
        packet, ok_to_drop = self.pop(), False
        if packet is None:
            self.first_above_time = 0
            return packet, ok_to_drop
        if now - packet.tstamp < TARGET or self.bytes <= MAXPACKET:
            self.first_above_time = 0
        elif self.first_above_time == 0:
            self.first_above_time = now + INTERVAL
        elif now >= self.first_above_time:
            ok_to_drop = True
        return packet, ok_to_drop

    def marks(self, packet):
        """§3: a marked packet is sent; the state changes as if it had been dropped."""
        if not self.mark or not packet.capable:
            return False
        self.fates.mark(packet)
        return True

    def dequeue(self, now):
        packet, ok_to_drop = self.dodequeue(now)
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                if self.marks(packet):
                    self.drop_next = control_law(self.drop_next, self.count)
                    break
                self.fates.ends(packet, "codel", now)
                packet, ok_to_drop = self.dodequeue(now)
                if not ok_to_drop:
                    self.dropping = False
                else:
                    self.drop_next = control_law(self.drop_next, self.count)
        elif ok_to_drop:
            if not self.marks(packet):
                self.fates.ends(packet, "codel", now)
                packet, ok_to_drop = self.dodequeue(now)
            self.dropping = True
            delta = self.count - self.lastcount
            self.count = 1
            if delta > 1 and now - self.drop_next < 16 * INTERVAL:
                self.count = delta
            self.drop_next = control_law(now, self.count)
            self.lastcount = self.count
        return packet


def fates(mark):
    def rows():
        arrivals = recorded()
        all_ = Fates(len(arrivals))
        return serve(Queue(all_, mark), arrivals, all_)

    return rows


def law():
    """The exact time to the next drop, rounded down: floor(sqrt(INTERVAL^2 / count))."""
    for count in [*range(1, 50), 99, 100, 101, 1000, 4095, 65_536, 1_000_003, 2**32 - 1]:
        yield count, isqrt(INTERVAL**2 // count)


FILES = {
    "codel.csv": (HEADER, fates(False)),
    "codel_marking.csv": (HEADER, fates(True)),
    "codel_law.csv": ("count,step_ns", law),
}
