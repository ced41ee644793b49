"""Table III of Brakmo and Peterson: 300 KB within a megabyte over fig. 6, by the senders of fig6.py and alone.py.

Vegas' retransmission is added after section III-A and ns' tcp-vegas.cc: a clock for each segment, read at the first duplicate
and at the first two acknowledgements after a retransmission; a quarter less for a loss, once for each window.
"""

from alone import Vegas
from fig6 import HEADERS, PACKET, Network, Reno

PAYLOAD = PACKET - HEADERS
LARGE, SMALL = -(-1_024_000 // PAYLOAD), -(-300_000 // PAYLOAD)  # segments


class Clocked(Vegas):
    """Vegas that loses, too. The clock's estimator has the gains of 1/8 and 1/4, and a timeout of a + 2v and a sixteenth."""

    def __init__(self, net, start, total):
        super().__init__(net, start, total)
        self.mean = self.deviation = self.limit = 0.0
        self.changed_at, self.after, self.worried, self.transmissions = -1, 2.0, 0, {}

    def transmit(self, segment):
        self.transmissions[segment] = self.transmissions.get(segment, 0) + 1
        super().transmit(segment)

    def expired(self):
        return self.una < self.max and self.net.now - self.sent_at[self.una] >= self.limit

    def on_ack(self, ack):
        if ack > self.una:
            if self.dups > 3 and self.cwnd > self.after:
                self.cwnd, self.threshold = self.after, 2.0
            self.dups = 0
            if self.transmissions[ack - 1] == 1:
                self.clock(self.net.now - self.sent_at[ack - 1])
            super().on_ack(ack)
            if self.worried:
                self.worried -= 1
                if self.expired():
                    self.dups = 3
                    self.transmit(self.una)
                else:
                    self.worried = 0
            return
        self.dups += ack < self.max
        if self.dups == 3 or (self.dups and self.expired()):
            self.lost()
        elif self.dups > 3:
            self.cwnd += 1
        self.output()

    def lost(self):
        first, window = self.transmissions[self.una] == 1, min(int(self.cwnd), self.nxt - self.una)
        self.worried = min(2, self.nxt - self.una)
        self.limit *= 9 / 8 if first else 2
        if self.changed_at < self.sent_at[self.una]:
            self.after = 2.0 if window <= 3 else float(window - window // 4 if first else window // 2)
            self.cwnd, self.changed_at = self.after + self.dups, self.net.now
        self.rtt = 0
        self.transmit(self.una)
        self.dups = 3 if first else self.dups

    def clock(self, took):
        error = took - self.mean
        self.mean, self.deviation = (
            (self.mean + error / 8, self.deviation + (abs(error) - self.deviation) / 4) if self.mean else (took, took / 2)
        )
        self.limit = (self.mean + 2 * self.deviation) * 17 / 16

    def tick(self):
        before = self.timeouts
        super().tick()
        if self.timeouts > before:
            self.cwnd, self.changed_at = 2.0, self.net.now
            self.output()


def runs():
    kinds = {"reno": Reno, "vegas": Clocked}
    for small, large in ((small, large) for small in kinds for large in kinds):
        for buffers in (15, 20):
            for step in range(26):
                begin = 37 * step % 500
                net = Network(200_000, buffers)
                one = kinds[large](net, begin * 1000, LARGE)
                two = kinds[small](net, (begin + 2500 * step // 25) * 1000, SMALL)
                net.run(lambda: one.end and two.end)
                cells = [f"{number:.2f}" for each in (two, one) for number in (each.kb_s(), each.kb_again())]
                yield f"{small}/{large}", buffers, step, *cells


FILES = {"table3.csv": ("pair,buffers,step,small_kb_s,small_kb_again,large_kb_s,large_kb_again", runs)}
