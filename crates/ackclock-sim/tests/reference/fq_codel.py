"""FQ-CoDel: RFC 8290 §4.1 and §4.2, sentence by sentence, over the CoDel of this reference."""

from collections import deque

import codel
from link import HEADER, Fates, recorded, serve

QUANTUM = 1514
LIMIT = 40
BATCH = 64


class FlowQueue(codel.Queue):
    credits = 0


class Scheduler:
    def __init__(self, fates, queues):
        self.fates = fates
        self.queues = [FlowQueue(fates, False) for _ in range(queues)]
        self.new, self.old = deque(), deque()

    def total(self):
        return sum(len(queue.packets) for queue in self.queues)

    def enqueue(self, packet, now):
        queue = self.queues[packet.flow % len(self.queues)]
        queue.enqueue(packet, now)
        if queue not in self.new and queue not in self.old:
            self.new.append(queue)
            queue.credits = QUANTUM
        if self.total() > LIMIT:
            # "the queue with the largest current byte count is selected and half the number of packets from this queue (up to
            # a maximum of 64 packets) are dropped from the head": of an odd number the larger half, so that one is enough.
            largest = max(self.queues, key=lambda queue: queue.bytes)
            for _ in range(min(BATCH, (len(largest.packets) + 1) // 2)):
                self.fates.ends(largest.pop(), "overflow", now)

    def dequeue(self, now):
        while self.new or self.old:
            from_new = bool(self.new)
            queues = self.new if from_new else self.old
            queue = queues[0]
            # "a negative number of credits (i.e., it has already dequeued at least a quantum of bytes)": none left, too.
            if queue.credits <= 0:
                queue.credits += QUANTUM
                self.old.append(queues.popleft())
                continue
            packet = queue.dequeue(now)
            if packet is not None:
                queue.credits -= packet.bytes
                return packet
            queues.popleft()
            if from_new:
                self.old.append(queue)
        return None


def fates(queues):
    def rows():
        arrivals = recorded()
        all_ = Fates(len(arrivals))
        return serve(Scheduler(all_, queues), arrivals, all_)

    return rows


# One queue has packets of all sizes: half of its packets are not half of its bytes.
FILES = {"fq_codel.csv": (HEADER, fates(4)), "fq_codel_one.csv": (HEADER, fates(1))}
