"""4.3BSD's TCP of 1986 and of September 1987 over figure 7's link, by the deltas of sys/netinet that the profiles name.

Times are in microseconds. Only full segments of data move: no connection is opened or closed.
"""

import heapq
from random import Random

SEGMENT, WINDOW = 512, 32  # bytes; segments, which is 16 KB of buffer at either end
TICK, FAST_TICK = 500_000, 200_000
SERVICE, DELAY, BUFFERS = 20_480, 50_000, 50  # a packet of 512 bytes at 25 KB/s; one way; packets
BACKOFF = [1, 2, 4, 6, 8, 10, 15, 20] + [30] * 9


class Network:
    def __init__(self, seed):
        self.now, self.events, self.number, self.draws, self.departures = 0, [], 0, Random(seed), []

    def at(self, when, what, *arguments):
        self.number += 1
        heapq.heappush(self.events, (when, self.number, what, arguments))

    def run(self, until):
        while self.events and self.events[0][0] <= until:
            self.now, _, what, arguments = heapq.heappop(self.events)
            what(*arguments)

    def send(self, deliver, segment):
        """A packet meets the queue before the link."""
        self.departures = [at for at in self.departures if at > self.now]
        if len(self.departures) < BUFFERS:
            self.departures.append((self.departures or [self.now])[-1] + SERVICE)
            self.at(self.departures[-1] + DELAY, deliver, segment)


class Conversation:
    """A sender, `old` (1986) or not (1987), and a receiver that is `lazy` (35 % of the window, or the tick) or not."""

    def __init__(self, net, start, total, old, lazy):
        self.net, self.total, self.old, self.lazy = net, total, old, lazy
        self.una = self.nxt = self.max = self.again = self.last_out = self.last_back = 0
        self.cwnd, self.threshold = (WINDOW if old else 1), 4 * WINDOW
        self.srtt = self.var = self.rtt = self.timed = self.timer = self.shift = 0
        self.expected, self.held, self.acked, self.owes = 0, set(), 0, False
        self.acks, self.sends = [], []
        net.at(start, self.output)
        net.at(net.draws.randrange(TICK), self.slow_tick)
        net.at(net.draws.randrange(FAST_TICK), self.fast_tick)

    def timeout(self):
        if self.old:
            return min(max(int(2 * (self.srtt or 6)) * BACKOFF[max(self.shift - 1, 0)], 2), 60)
        return min(max(((self.srtt >> 3) + self.var or 6) << self.shift, 2), 128)

    def output(self):
        while self.nxt - self.una < min(WINDOW, int(self.cwnd), self.total - self.una):
            self.sends.append(self.net.now)
            self.again += self.nxt < self.max
            if self.nxt >= self.max and not self.rtt:
                self.rtt, self.timed = 1, self.nxt
            self.last_out = max(self.last_out, self.net.now) + self.net.draws.randrange(1000)
            self.net.at(self.last_out, self.net.send, self.receive, self.nxt)
            self.nxt += 1
            self.max = max(self.max, self.nxt)
            if not self.timer:
                self.shift = 0 if self.old else self.shift
                self.timer = self.timeout()
            if self.shift and self.old:
                return

    def slow_tick(self):
        self.net.at(self.net.now + TICK, self.slow_tick)
        self.rtt += self.rtt > 0
        self.timer = max(self.timer - 1, 0) if self.timer != 1 else self.expire()

    def expire(self):
        self.shift, self.nxt = self.shift + 1, self.una
        self.timer = self.timeout()
        if not self.old:
            self.threshold, self.cwnd = max(min(WINDOW, int(self.cwnd)) // 2, 2), 1
        self.rtt = 0 if self.srtt else self.rtt
        self.output()
        return self.timer

    def on_ack(self, ack):
        if ack <= self.una or ack > self.max:
            return
        if self.rtt and ack > self.timed:
            self.sample(self.rtt)
        self.una, self.nxt = ack, max(self.nxt, ack)
        self.acks.append((self.net.now, ack))
        self.shift = 0 if self.old else self.shift
        self.cwnd = min(self.cwnd + (1 if self.cwnd < self.threshold else 1 / self.cwnd), 127)
        self.timer = 0 if ack == self.max else self.timeout()
        self.output()

    def sample(self, ticks):
        self.rtt = 0
        if self.old:
            self.srtt = 0.9 * self.srtt + 0.1 * ticks if self.srtt else ticks
        elif not self.srtt:
            self.srtt, self.var, self.shift = ticks << 3, ticks << 1, 0
        else:
            error = ticks - 1 - (self.srtt >> 3)
            self.srtt, self.shift = max(self.srtt + error, 1), 0
            self.var = max(self.var + abs(error) - (self.var >> 2), 1)

    def receive(self, segment):
        told, late = segment < self.expected, segment > self.expected
        self.held.add(segment)
        while self.expected in self.held:
            self.held.discard(self.expected)
            self.expected += 1
        moved = self.expected - self.acked
        self.owes = True
        if told or (moved * 100 >= 35 * WINDOW if self.lazy else late or moved >= 2):
            self.acknowledge()

    def acknowledge(self):
        self.acked, self.owes = self.expected, False
        self.last_back = max(self.last_back, self.net.now + DELAY) + self.net.draws.randrange(1000)
        self.net.at(self.last_back, self.on_ack, self.expected)

    def fast_tick(self):
        self.net.at(self.net.now + FAST_TICK, self.fast_tick)
        if self.owes:
            self.acknowledge()


def conversations(seed, old):
    """Figures 8 and 9: four transfers of 1 MB, begun three seconds apart; the receivers of 2 and 4 are lazy."""
    net = Network(seed)
    starts = [3_000_000 * number + seed * TICK // 20 for number in range(4)]
    each = [Conversation(net, start, 2048, old, old or number % 2 == 1) for number, start in enumerate(starts)]
    net.run(200_000_000)
    begin, end = 25_000_000, min([c.acks[-1][0] for c in each if c.una == c.total] + [200_000_000])
    acked = [[max((ack for when, ack in c.acks if when <= at), default=0) for at in (begin, end)] for c in each]
    rates = [(after - before) * SEGMENT * 1000 / (end - begin) for before, after in acked]
    offered = sum(begin <= at < end for c in each for at in c.sends) * SEGMENT * 40 / (end - begin)
    again, sent = sum(c.again for c in each), sum(len(c.sends) for c in each)
    return [again, again / sent, sum(rates) / 25, offered, end / 1e6, *rates]


def runs():
    for sender, seed in ((sender, seed) for sender in ("bsd43-1986", "bsd43-plus-1987") for seed in range(20)):
        yield sender, seed, *(f"{value:.4f}" for value in conversations(seed, sender == "bsd43-1986"))


HEAD = "sender,run,again,share_again,delivered,offered,first_end_s,kb_s_1,kb_s_2,kb_s_3,kb_s_4"
FILES = {"conversations.csv": (HEAD, runs)}
