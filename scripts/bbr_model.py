#!/usr/bin/env python3
"""What draft-ietf-ccwg-bbr-05 predicts of its own goodput where packets are lost by chance, as a share of the bandwidth.

    scripts/bbr_model.py PACKETS RTT_MS LOSS [SECONDS]     of a path that holds PACKETS, as in 167 20 0.01 4

The draft's rules (§5.3.1.3, §5.3.3, §5.5.10) over a path that loses each packet with the same probability and has a
queue of one bandwidth-delay product, round trip by round trip. What takes part of a round trip takes a whole one,
losses are seen a round trip later, and nothing but the sender and the dice is on the path.
"""

import math
import random
import statistics
import sys

LOSS_THRESH, BETA, HEADROOM, MIN_PIPE = 0.02, 0.7, 0.15, 4
STARTUP_LOSSES, STARTUP_GAIN, INITIAL = 6, 2.0, 10


class Flow:
    """One flow; windows and rates in packets a round trip."""

    def __init__(self, holds: float, rtt: float, loss: float, seed: int):
        self.holds, self.rtt, self.loss, self.dice = holds, rtt, loss, random.Random(seed)
        self.max_bw, self.older_bw = 0.0, 0.0
        self.long = self.short_bw = self.short = math.inf
        self.before = []  # losses of the round trip before, as places in it from 0 to 1

    def round(self, window: float) -> tuple[float, float, float]:
        """Sends `window` packets: what is delivered, the best that a round trip delivers and the most that one loses,
        wherever it begins between the last round trip and this one."""
        window = max(MIN_PIPE, min(window, 2 * self.holds))
        places, at = [], self.gap()
        while at < window:
            places.append(at / window)
            at += self.gap()
        both = [place - 1 for place in self.before] + places
        # A round trip that ends at a loss has the most of them, one that ends right before it the fewest.
        counts = [sum(1 for other in both if end - 1 < other <= end) for end in [*places, 1]]
        self.before = places
        arrives = min(window, self.holds)
        share = lambda losses: arrives * (1 - min(losses / window, 1))
        fewest = max(0, min(count - 1 for count in [*counts[:-1], counts[-1] + 1]))
        return share(len(places)), share(fewest), max(counts)

    def gap(self) -> float:
        return 1 - math.log(1 - self.dice.random()) / -math.log1p(-self.loss) if self.loss > 0 else math.inf

    def bandwidth(self) -> float:
        return max(self.max_bw, self.older_bw)

    def run(self, seconds: float) -> float:
        """The goodput as a share of the bandwidth."""
        self.left, self.delivered = max(1, round(seconds / self.rtt)), 0.0
        total = self.left
        self.startup()
        while self.left > 0:
            self.cruise()
            self.probe()
        return self.delivered / (total * self.holds)

    def spend(self, window: float) -> tuple[float, float]:
        delivered, best, most_lost = self.round(window)
        if self.left > 0:
            self.delivered += delivered
        self.left -= 1
        return best, most_lost

    def startup(self):
        window, lossy_rounds, stale = float(INITIAL), 0, 0
        while self.left > 0:
            best, lost = self.spend(window)
            lossy_rounds = lossy_rounds + 1 if lost else 0
            stale = 0 if best >= 1.25 * self.max_bw else stale + 1
            self.max_bw = max(self.max_bw, best)
            if lossy_rounds > 1 and lost > LOSS_THRESH * window and lost >= STARTUP_LOSSES:
                self.long = max(self.max_bw, best)
                return
            if stale >= 3:
                return
            window *= STARTUP_GAIN

    def cruise(self):
        """DOWN and CRUISE: the short-term model falls with each round trip that lost something."""
        self.older_bw, self.max_bw = self.max_bw, 0.0
        rounds = min(self.bandwidth(), 62 + self.dice.randint(0, 1))
        until = self.left - min(rounds, (2 + self.dice.random()) / self.rtt)
        gain = 0.9
        while self.left > max(0, until):
            bw = min(self.bandwidth(), self.short_bw)
            window = min(gain * bw, self.short, (1 - HEADROOM) * self.long)
            best, lost = self.spend(window)
            gain = 1.0
            if lost:
                self.short_bw = max(best, BETA * min(self.short_bw, self.bandwidth()))
                self.short = max(best, BETA * min(self.short, 2 * self.bandwidth()))

    def probe(self):
        """REFILL and UP: the short-term model is forgotten, and the bandwidth measured again."""
        self.short_bw = self.short = math.inf
        stale, growth, full, window = 0, 1, 0.0, min(self.bandwidth(), self.long)
        while self.left > 0:
            best, lost = self.spend(window)
            self.max_bw = max(self.max_bw, best)
            if lost > LOSS_THRESH * max(window, MIN_PIPE):
                self.long = max(window, BETA * self.bandwidth())
                return
            limited = window >= self.long
            stale = 0 if limited or best >= 1.25 * full else stale + 1
            full = best if limited else max(full, best)
            if stale >= 3:
                return
            if limited:
                self.long += growth
                growth *= 2
            window = min(1.25 * self.bandwidth(), self.long)


def predict(holds: float, rtt: float, loss: float, seconds: float = 4, seeds: int = 20) -> float:
    """The median share of the bandwidth over some seeds."""
    return statistics.median(Flow(holds, rtt, loss, seed).run(seconds) for seed in range(seeds))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    packets, rtt_ms, chance, *rest = map(float, sys.argv[1:])
    print(f"{predict(packets, rtt_ms / 1000, chance, *rest):.2f}")
