"""A megabyte alone over fig. 6 of Brakmo and Peterson, by Reno and by Vegas as ns' tcp-vegas.cc has it."""

from fig6 import HEADERS, PACKET, TICK, TOTAL, Network, Reno


class Vegas(Reno):
    """Congestion avoidance of tcp-vegas.cc. It loses nothing in fig. 7, and so what it does on a loss is Reno's here."""

    def __init__(self, net, start, total=TOTAL):
        super().__init__(net, start, total)
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
            net.run(lambda: one.end)
            yield name, run, f"{one.kb_s():.2f}", f"{one.kb_again():.2f}", one.timeouts, net.dropped


FILES = {"alone.csv": ("sender,run,kb_s,kb_again,timeouts,dropped", runs)}
