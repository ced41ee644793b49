"""A link that serves a queue: it takes the next packet when it has sent the one before, or when one arrives at an idle link.

`arrivals.csv` is an input: the packets that arrived at the 4 Mbit/s link of `tests/sim/arrivals.toml`. Here they meet a slower
link, so queues grow, and pauses, so queues become empty.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

RATE_BPS = 3_000_000
HEADER = "fate,at_ns,marked"
INPUT = Path(__file__).resolve().parent.parent / "vectors/arrivals.csv"


@dataclass
class Arrival:
    at: int
    bytes: int
    flow: int
    capable: int
    number: int = 0


def recorded():
    """The recorded arrivals."""
    with open(INPUT) as file:
        return [Arrival(*map(int, row)) for row in list(csv.reader(file))[1:]]


class Fates:
    """What became of each packet, and when."""

    def __init__(self, count):
        self.rows = [None] * count
        self.marked = [0] * count

    def ends(self, packet, fate, now):
        assert self.rows[packet.number] is None, "a packet has one fate"
        self.rows[packet.number] = (fate, now)

    def mark(self, packet):
        self.marked[packet.number] = 1


def serve(queue, arrivals, fates):
    """Runs all arrivals through `queue.enqueue(packet, now)` and `queue.dequeue(now)`. At one time arrivals come first."""
    free_at = None
    for number, packet in enumerate(arrivals):
        packet.number = number

    def take(now):
        packet = queue.dequeue(now)
        if packet is None:
            return None
        fates.ends(packet, "sent", now)
        # Whole nanoseconds, as the simulator counts them: a bit more would be late.
        return now + packet.bytes * 8 * 10**9 // RATE_BPS

    for packet in arrivals:
        while free_at is not None and free_at < packet.at:
            free_at = take(free_at)
        queue.enqueue(packet, packet.at)
        if free_at is None:
            free_at = take(packet.at)
    while free_at is not None:
        free_at = take(free_at)
    return [(*row, marked) for row, marked in zip(fates.rows, fates.marked)]
