"""Estimators of the timeout, from RFC 6298, the 1988 paper and the tables of Allman and Paxson (1999), in exact fractions."""

from fractions import Fraction
from math import ceil

from common import nearest, samples

MS = 1_000_000

# The rows of tables 1 to 4 as printed: alpha_1, alpha_2, k, G in ms, RTO_min in ms. `fast` as its text says.
STD = (Fraction(1, 8), Fraction(1, 4))
TABLES = {
    **{f"ap-min-{low}": (*STD, 4, 1, low) for low in (1000, 750, 500, 250, 0)},
    **{f"ap-g-{g}": (*STD, 4, g, 1000) for g in (500, 250, 100, 50, 20, 10, 1)},
    "ap-take-first-1000": (0, 0, 4, 1, 1000),
    "ap-take-first": (0, 0, 4, 1, 0),
    "ap-very-slow": (Fraction(1, 80), Fraction(1, 40), 4, 1, 0),
    "ap-slow-every": (Fraction(1, 32), Fraction(1, 16), 4, 1, 0),
    "ap-slow": (Fraction(1, 16), Fraction(1, 8), 4, 1, 0),
    "ap-std": (*STD, 4, 1, 0),
    "ap-std-every": (*STD, 4, 1, 0),
    "ap-fast": (Fraction(1, 4), Fraction(1, 2), 4, 1, 0),
    "ap-take-last": (1, 1, 4, 1, 0),
    "ap-take-last-every": (1, 1, 4, 1, 0),
    "ap-take-last-1000": (1, 1, 4, 1, 1000),
    **{f"ap-k-{k}": (*STD, k, 1, 0) for k in (16, 12, 8, 6, 4, 3, 2)},
    "ap-adapt": (*STD, 4, 1, 0),
    "ap-min-750-k-6": (*STD, 6, 1, 750),
    "ap-take-first-250-k-6": (0, 0, 6, 1, 250),
    "ap-min-500-k-6": (*STD, 6, 1, 500),
    "ap-min-250-k-6": (*STD, 6, 1, 250),
}
STATIC = {"ap-static-2000": 2000, "ap-static-1000": 1000, "ap-static-500": 500}
# In whole ticks of 500 ms: the factor of v.
TICKS = {"ap-ws95": 4, "ap-ws95-every": 4, "jacobson-1992": 4, "jacobson-1988": 2}


class Mean:
    """Equations 1 and 2 of the 1999 paper, with its bounds and its clock."""

    def __init__(self, alpha_1, alpha_2, k, g, low):
        self.alpha_1, self.alpha_2, self.k = Fraction(alpha_1), Fraction(alpha_2), k
        self.g, self.low, self.high = g * MS, low * MS, 64_000 * MS
        self.srtt = self.rttvar = None

    def sample(self, rtt):
        rtt = Fraction((rtt + self.g // 2) // self.g * self.g)
        if self.srtt is None:
            self.srtt, self.rttvar = rtt, rtt / 2
            return
        self.rttvar += self.alpha_2 * (abs(self.srtt - rtt) - self.rttvar)
        self.srtt += self.alpha_1 * (rtt - self.srtt)

    def rto(self):
        if self.srtt is None:
            return 3000 * MS
        # Below a nanosecond is noise, which the clock's granularity must not turn into a tick.
        raw = nearest(self.srtt) + nearest(self.k * max(self.rttvar, self.g))
        return min(max(ceil(Fraction(raw, self.g)) * self.g, self.low), self.high)


def by_preset():
    """Each row of tables 1 to 4, after each of forty round trips, in microseconds."""
    series = [sample * (1 if index % 11 < 8 else 6) for index, sample in enumerate(samples(5, 40, 20_000, 400_000))]
    for name, parameters in TABLES.items():
        mean = Mean(*parameters)
        for rtt in series:
            mean.sample(rtt * 1000)
            yield name, rtt, mean.rto() // 1000
    for name, milliseconds in STATIC.items():
        for rtt in series:
            yield name, rtt, milliseconds * 1000
    for name, k in TICKS.items():
        low = 1_000_000
        for rtt, (_, plus_2v, plus_4v) in zip(series, ticks((rtt + 250_000) // 500_000 for rtt in series)):
            yield name, rtt, min(max((plus_2v if k == 2 else plus_4v) * 500_000, low), 64_000_000)


def rfc6298():
    """RFC 6298 section 2, in nanoseconds, with a floor of 200 ms and a ceiling of 60 s."""
    srtt = rttvar = None
    for index, sample in enumerate(samples(1, 200, 1_000_000, 900_000_000)):
        rtt = Fraction(sample if index % 50 < 40 else sample * 20)
        if srtt is None:
            srtt, rttvar = rtt, rtt / 2
        else:
            rttvar = Fraction(3, 4) * rttvar + Fraction(1, 4) * abs(srtt - rtt)
            srtt = Fraction(7, 8) * srtt + Fraction(1, 8) * rtt
        rto = min(max(srtt + 4 * rttvar, 200_000_000), 60_000_000_000)
        yield int(rtt), nearest(srtt), nearest(rttvar), nearest(rto)


def rfc793():
    """RFC 793 page 41 with the values of the 1988 paper: alpha 0.9, beta 2, from one second to sixty, in nanoseconds."""
    srtt = None
    for sample in samples(6, 100, 100_000_000, 3_000_000_000):
        srtt = Fraction(sample) if srtt is None else Fraction(9, 10) * srtt + Fraction(1, 10) * sample
        yield sample, nearest(srtt), nearest(min(max(2 * srtt, 1_000_000_000), 60_000_000_000))


def signed():
    """Section 6 of the 1998 paper: 4v, or 2v while the signed variance is negative; ticks of 500 ms, in nanoseconds."""
    srtt = rttvar = None
    srv, tick = Fraction(0), 500 * MS
    for sample in samples(7, 100, 100, 9000):
        rtt = Fraction((sample * MS + tick // 2) // tick * tick)
        if srtt is None:
            srtt, rttvar = rtt, rtt / 2
        else:
            srv = srv / 2 + (rtt - srtt) / 2
            rttvar += (abs(srtt - rtt) - rttvar) / 4
            srtt += (rtt - srtt) / 8
        raw = nearest(srtt) + max(nearest((2 if srv < 0 else 4) * rttvar), tick)
        yield sample, min(max(ceil(Fraction(raw, tick)) * tick, 1000 * MS), 60_000 * MS) // MS


def ticks(series):
    """Appendix A.2 of the 1988 paper, statement by statement: a + 2v and a + 4v in clock ticks. The appendix has a + 4v only; a + 2v
    is cut to ticks as 4.3BSD's tcp_timer.c did on 30 June 1987."""
    sa = sv = None
    for tick in series:
        if sa is None:
            sa, sv = tick * 8, tick * 2
        else:
            m = tick - (sa >> 3)
            sa += m
            if m < 0:
                m = -m
            m -= sv >> 2
            sv += m
        yield tick, ((sa >> 2) + sv) >> 1, (sa >> 3) + sv


def jacobson1988():
    return ticks(samples(2, 200, 0, 40))


def datagrams():
    """Footnote 13 of the 1988 paper, in nanoseconds: I <- alpha I / (alpha + I), with alpha 1 s; 2I on each tenth."""
    interval, alpha = Fraction(100 * MS), Fraction(1000 * MS)
    for number in range(100):
        lost = number % 10 == 9
        interval = 2 * interval if lost else alpha * interval / (alpha + interval)
        yield int(lost), nearest(interval)


FILES = {
    "rto_presets.csv": ("preset,rtt_us,rto_us", by_preset),
    "rto_rfc6298.csv": ("rtt_ns,srtt_ns,rttvar_ns,rto_ns", rfc6298),
    "rto_rfc793.csv": ("rtt_ns,srtt_ns,rto_ns", rfc793),
    "rto_bfa1998.csv": ("rtt_ms,rto_ms", signed),
    "rto_jacobson1988.csv": ("ticks,a_plus_2v,a_plus_4v", jacobson1988),
    "datagram_interval.csv": ("lost,interval_ns", datagrams),
}
