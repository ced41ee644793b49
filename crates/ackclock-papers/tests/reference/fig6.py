"""The network of fig. 6 of Brakmo and Peterson, and Reno as released (Net/2).

Every segment is acknowledged. The handshake's round trip is timed, as BSD does. A transfer lasts from its SYN to its last byte.
Times are in microseconds, windows in segments.
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

    def __init__(self, net, start, total=TOTAL):
        self.net, self.start, self.total, self.end = net, start, total, 0
        self.una = self.nxt = self.max = self.again = 0
        self.cwnd, self.threshold, self.dups, self.last_out = 1.0, OFFERED * 2.0, 0, 0
        self.srtt = self.var = self.rtt = self.timed = self.shift = self.timeouts = 0
        self.timer, self.expected, self.held, self.sent_at = 0, 0, set(), {}
        net.at(TICK, self.tick)
        net.at(start, self.syn)

    def syn(self):
        self.rtt = 1
        self.net.at(self.net.now + 2 * (DELAY + self.net.ack_service), self.established)

    def established(self):
        self.sample(self.rtt - 1)
        self.output()

    def output(self):
        while self.nxt < min(self.una + min(OFFERED, int(self.cwnd)), self.total):
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
        self.end = self.end or self.net.now * (self.expected == self.total)
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

    def kb_s(self):
        return self.total * (PACKET - HEADERS) * 1e3 / (self.end - self.start)

    def kb_again(self):
        return self.again * (PACKET - HEADERS) / 1000
