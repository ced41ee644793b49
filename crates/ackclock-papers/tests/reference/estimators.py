"""Timeout estimators of Allman and Paxson (1999) over recorded transfers: the steps 1 to 5 of section 2.2, with section 2.1's
recursion, clock and bounds. The transfers are the first of the simulated trace set; this file knows nothing else of it."""

import csv
from itertools import groupby
from math import ceil
from pathlib import Path

INPUT = Path(__file__).resolve().parent.parent / "vectors/trace_set.csv"
NEW, FAST, EXPIRED, AVOIDABLE, ACK = range(5)
MS = 1_000_000

# alpha_1, alpha_2, k, G and RTO_min in ms, whether every packet is timed.
ROWS = {
    **{f"ap-min-{low}": (1 / 8, 1 / 4, 4, 1, low, False) for low in (1000, 750, 500, 250, 0)},
    **{f"ap-g-{g}": (1 / 8, 1 / 4, 4, g, 1000, False) for g in (500, 250, 100, 10)},
    "ap-take-first": (0, 0, 4, 1, 0, False),
    "ap-very-slow": (1 / 80, 1 / 40, 4, 1, 0, False),
    "ap-slow": (1 / 16, 1 / 8, 4, 1, 0, False),
    "ap-std-every": (1 / 8, 1 / 4, 4, 1, 0, True),
    "ap-fast": (1 / 4, 1 / 2, 4, 1, 0, False),
    "ap-take-last": (1, 1, 4, 1, 0, False),
    **{f"ap-k-{k}": (1 / 8, 1 / 4, k, 1, 0, False) for k in (16, 8, 6, 2)},
    **{f"ap-static-{ms}": (None, None, ms, 1, 0, False) for ms in (2000, 1000, 500)},
}


class Timer:
    """The estimate, the backoff and the clock that ticks on its own (footnote 1)."""

    def __init__(self, alpha_1, alpha_2, k, g, low, every):
        self.alpha_1, self.alpha_2, self.k, self.g, self.low, self.every = alpha_1, alpha_2, k, g * MS, low * MS, every
        self.srtt = self.rttvar = None
        self.backoff = 0

    def rto(self):
        if self.alpha_1 is None:
            base = self.k * MS
        elif self.srtt is None:
            base = 3000 * MS
        else:
            # RTTVAR counts as G at least. The clock shows whole ticks; less than a nanosecond is rounding.
            raw = round(self.srtt) + round(self.k * max(self.rttvar, self.g))
            base = max(ceil(raw / self.g) * self.g, self.low)
        return min(base << self.backoff, 64_000 * MS)

    def expires(self, now):
        return now // self.g * self.g + ceil(self.rto() / self.g) * self.g

    def sample(self, sent, now):
        rtt = (now // self.g - sent // self.g) * self.g
        self.backoff = 0
        if self.alpha_1 is None:
            return
        if self.srtt is None:
            self.srtt, self.rttvar = rtt, rtt / 2
        else:
            self.rttvar += self.alpha_2 * (abs(self.srtt - rtt) - self.rttvar)
            self.srtt += self.alpha_1 * (rtt - self.srtt)


class Segment:
    def __init__(self, sent, first, last):
        self.sent, self.first, self.last = sent, first, last
        # How often it was sent again, and from when alone an answer can be.
        self.again, self.answered_from = 0, None


def assess(events, parameters):
    """Seconds waited for first timeouts, their number, repeated ones, bad ones, and their mean cost in round trips."""
    timer = Timer(*parameters)
    out, expires, timed, latest, acked, resending = [], None, None, None, 0, False
    waited = good = repeated = bad = 0
    costs = []
    for now, kind, first, last in events:
        if kind != ACK:
            begins, resending = kind != NEW and not resending, kind != NEW
            hit = [one for one in out if kind != NEW and one.first < last and first < one.last]
            was_again = any(one.again for one in hit)
            for one in hit:
                one.again += 1
                one.answered_from = now if kind == EXPIRED else None
            if kind == NEW:
                out.append(Segment(now, first, last))
                timed = now if timed is None else timed
            else:
                timed = None
            if kind == EXPIRED:  # Step 3.
                if was_again:
                    repeated += 1
                else:
                    good, waited = good + 1, waited + timer.rto()
                    if latest:
                        costs.append(timer.rto() / latest)
                timer.backoff += 1
            if expires is None or begins or kind in (EXPIRED, AVOIDABLE):  # Step 1.
                expires = timer.expires(now)
            continue
        if last <= acked:
            continue
        acked = last
        early = 0
        before = timer.backoff
        while expires is not None and expires < now:  # Step 5, with the backoff of each.
            early, timer.backoff = early + 1, timer.backoff + 1
            expires = timer.expires(expires)
        timer.backoff = before
        bad += early
        covered = [one for one in out if one.last <= acked]
        out = out[len(covered):]
        sampled = False
        if any(one.again for one in covered):
            # Karn: nothing to measure. What the trace shows is observed all the same.
            if covered[0].answered_from is not None:
                latest = now - covered[0].answered_from
            timed = None
        else:
            for one in covered:
                latest = now - one.sent
                if not sampled and (timer.every or timed is not None and one.sent >= timed):
                    timer.sample(one.sent if timer.every else timed, now)
                    sampled, timed = True, None
        if early and not sampled:
            timer.backoff, timed = timer.backoff + early, None
        expires = timer.expires(now) if out else None
    return waited / 1e9, good, repeated, bad, sum(costs) / len(costs) if costs else None


def assessments():
    with open(INPUT) as file:
        rows = [tuple(map(int, row)) for row in list(csv.reader(file))[1:]]
    transfers = [[row[1:] for row in rows] for _, rows in groupby(rows, key=lambda row: row[0])]
    for name, parameters in ROWS.items():
        for number, events in enumerate(transfers):
            waited, good, repeated, bad, cost = assess(events, parameters)
            share = bad / (bad + good) if bad else 0
            cells = f"{waited:.6f}", good, repeated, bad, f"{share:.6f}", "" if cost is None else f"{cost:.6f}"
            yield name, number, *cells


FILES = {"estimators.csv": ("estimator,transfer,waited_s,good,repeated,bad,bad_share,cost", assessments)}
