"""One source, or two, over fig. 3 of Awadallah and Rai: Reno by ns' tcp.cc and tcp-reno.cc of 1997, with BFA by the paper's §3.

Every packet is acknowledged. Times are in seconds, windows in packets. By ns-default.tcl one packet of a window is timed, a tick is
100 ms, the first timeout 6 s, and duplicates after a timeout retransmit nothing (bugFix_). BFA's timeout has ticks of 500 ms (§3.1).
"""

import heapq

SERVICE, ACCESS, DELAY = 0.125, 0.0008 + 0.001, 0.1  # 1000 bytes at 64 kbit/s; at 10 Mbit/s, with 1 ms; one way
ACK_BACK = 2 * 0.001 + 2 * 0.000032 + 0.005 + 0.1  # 40 bytes over the three links, which no queue delays
BUFFERS = (5, *range(10, 101, 10))


class Network:
    def __init__(self, buffers):
        self.now, self.events, self.number, self.dropped, self.buffers, self.departures = 0.0, [], 0, 0, buffers, []

    def at(self, when, what, *arguments):
        self.number += 1
        heapq.heappush(self.events, (when, self.number, what, arguments))

    def run(self, until):
        while self.events[0][0] < until:
            self.now, _, what, arguments = heapq.heappop(self.events)
            what(*arguments)

    def send(self, deliver, packet):
        """A packet meets the router; the one being sent holds no buffer."""
        self.departures = [at for at in self.departures if at > self.now]
        if len(self.departures) <= self.buffers:
            self.departures.append((self.departures or [self.now])[-1] + SERVICE)
            return self.at(self.departures[-1] + DELAY + ACCESS, deliver, packet)
        self.dropped += 1


class Reno:
    TICK = 0.1

    def __init__(self, net, start):
        self.net, self.nxt, self.max, self.una = net, 0, 0, 0  # una: the first packet that is not acknowledged
        self.cwnd, self.threshold, self.dups, self.inflation, self.recover = 1.0, 1e9, 0, 0, 0
        self.srtt = self.var = self.last_out = self.expected = 0
        self.backoff, self.timed, self.timed_at, self.deadline = 1, None, 0.0, None
        self.held, self.times = set(), []
        net.at(start, self.output)

    def output(self):
        while self.nxt < self.una + int(self.cwnd) + self.inflation:
            self.transmit(self.nxt)
            self.nxt += 1

    def transmit(self, packet):
        if packet >= self.max and self.timed is None:
            self.timed, self.timed_at = packet, self.net.now
        self.max = max(self.max, packet + 1)
        self.last_out = max(self.last_out, self.net.now) + 0.0008
        self.net.at(self.last_out + 0.001, self.net.send, self.receive, packet)
        if self.deadline is None:
            self.restart()

    def receive(self, packet):
        self.held.add(packet)
        while self.expected in self.held:
            self.expected += 1
        self.net.at(self.net.now + ACK_BACK, self.on_ack, self.expected)

    def restart(self):
        ticks = (self.srtt >> 3) + self.var if self.srtt else 6 / self.TICK
        self.deadline = self.net.now + max(ticks * self.backoff, 2) * self.TICK
        self.net.at(self.deadline, self.expire, self.deadline)

    def expire(self, deadline):
        if deadline != self.deadline:
            return
        self.recover, self.dups, self.inflation, self.timed = self.max, 0, 0, None
        self.reduce()
        self.cwnd, self.nxt, self.backoff = 1.0, self.una, min(2 * self.backoff, 64)
        self.restart()
        self.output()

    def reduce(self):
        self.threshold = max(int(self.cwnd + self.inflation) // 2, 2)

    def on_ack(self, ack):
        if ack <= self.una:
            self.dups += ack == self.una
            if self.dups == 3:
                if self.una > self.recover:
                    self.reduce()
                    self.cwnd, self.timed = float(self.threshold), None
                    self.restart()
                    self.transmit(self.una)
            self.inflation = self.dups if self.dups > 2 else 0
            return self.output() if self.dups > 2 else None
        self.una, self.nxt, self.dups, self.inflation = ack, max(self.nxt, ack), 0, 0
        self.deadline = None
        if self.una < self.max:
            self.restart()
        if self.timed is not None and ack > self.timed:
            rtt, self.timed, self.backoff = self.net.now - self.timed_at, None, 1
            self.times.append(rtt)
            self.sample(rtt)
        self.grow()
        self.output()

    def sample(self, rtt):
        ticks = max(int(self.net.now / self.TICK) - int(self.timed_at / self.TICK), 1)
        error, first = ticks - (self.srtt >> 3), (ticks << 3, ticks << 1)
        then = max(self.srtt + error, 1), max(self.var + abs(error) - (self.var >> 2), 1)
        self.srtt, self.var = then if self.srtt else first

    def grow(self):
        self.cwnd += 1 if self.cwnd < self.threshold else 1 / self.cwnd


class Bfa(Reno):
    TICK, mean, srv, avoiding = 0.5, None, 0.0, False

    def sample(self, rtt):
        super().sample(rtt)
        fine = round(rtt * 100) / 100
        delta = fine - (self.mean or fine)
        self.mean = fine - delta * 7 / 8
        self.srv = (self.srv + delta) / 2
        self.avoiding = self.srv > (-0.010 if self.avoiding else 0.010)

    def reduce(self):
        super().reduce()
        self.avoiding = False

    def grow(self):
        if not self.avoiding:
            super().grow()


def runs():
    for kinds in (Reno,), (Bfa,), (Bfa, Bfa), (Bfa, Reno), (Reno, Reno):
        seconds = 400 if len(kinds) == 1 else 1000
        for buffers in BUFFERS:
            for run in range(5):
                net = Network(buffers)
                sources = [kind(net, run / 10) for kind in kinds]
                net.run(seconds + run / 10)
                rates = [source.expected / seconds for source in sources]
                powers = [rate / (sum(one.times) / len(one.times)) for rate, one in zip(rates, sources)]
                cells = [f"{value:.3f}" for pair in zip(rates, powers) for value in pair] + ["", ""]
                yield ["+".join(kind.__name__.lower() for kind in kinds), buffers, run, net.dropped, *cells[:4]]


FILES = {"bfa.csv": ("sources,buffers,run,dropped,packets_s,power,packets_s_2,power_2", runs)}
