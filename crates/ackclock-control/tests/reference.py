#!/usr/bin/env python3
"""Reference vectors from the formulas of the papers and RFCs, computed without the code under test.

Writes vectors/*.csv beside this file; `cargo test -p ackclock-control --test vectors` compares. Exact fractions are
used wherever a formula is rational; the samples are from a fixed generator, so that the files never change by themselves.
"""

from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).parent / "vectors"


def samples(seed, count, low, high):
    """A linear congruential generator (Numerical Recipes), for numbers that every machine agrees on."""
    for _ in range(count):
        seed = (seed * 1664525 + 1013904223) % 2**32
        yield low + seed % (high - low)


def write(name, header, rows):
    HERE.mkdir(exist_ok=True)
    lines = [header] + [",".join(str(cell) for cell in row) for row in rows]
    (HERE / name).write_text("\n".join(lines) + "\n")


def nearest(value):
    return int(value + Fraction(1, 2))


def rto_rfc6298():
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


def rto_jacobson1988():
    """Appendix A.2 of the 1988 paper, statement by statement, in clock ticks."""
    sa = sv = None
    for tick in samples(2, 200, 0, 40):
        if sa is None:
            sa, sv = tick * 8, tick * 2
        else:
            m = tick - (sa >> 3)
            sa += m
            if m < 0:
                m = -m
            m -= sv >> 2
            sv += m
        yield tick, (sa >> 3) + (sv >> 1), (sa >> 3) + sv


def cubic_curve():
    """RFC 9438 section 4.2: the window in bytes, t milliseconds after congestion avoidance began at 0.7 W_max."""
    for segments in (10, 100, 1000, 10_000, 100_000):
        k = (segments * 0.3 / 0.4) ** (1 / 3)
        for t in range(0, 20_001, 500):
            window = 0.4 * (t / 1000 - k) ** 3 + segments
            yield segments, t, round(max(window, 0) * 1000)


def vegas_decisions():
    """Section III-B: what a round trip of rtt does to a window of w segments, with alpha 1, beta 3 and BaseRTT 100 ms."""
    for window in (5, 10, 20, 50, 100):
        for rtt in range(100, 200, 3):
            diff = Fraction(window, 100) - Fraction(window, rtt)
            extra = diff * 100
            change = 1 if extra < 1 else -1 if extra > 3 else 0
            yield window, rtt, change


def bfa_srv():
    """Section 3.2: srv in microseconds for samples that are whole ticks of 10 ms, alpha_srv 1/2, mean with gain 1/8."""
    srtt, srv, flag = None, Fraction(0), 0
    for sample in samples(3, 200, 5, 60):
        rtt = Fraction(sample * 10_000)
        if srtt is None:
            srtt = rtt
        else:
            delta = rtt - srtt
            srv = srv / 2 + delta / 2
            srtt += delta / 8
            flag = int(srv > -10_000) if flag else int(srv > 10_000)
        yield sample * 10, nearest(srv) if srv >= 0 else -nearest(-srv), flag


def dctcp_alpha():
    """RFC 8257 section 3.3: alpha in millionths after round trips of which a percentage was marked."""
    alpha = Fraction(1)
    for percent in samples(4, 150, 0, 101):
        alpha = alpha * Fraction(15, 16) + Fraction(percent, 100) * Fraction(1, 16)
        yield percent, nearest(alpha * 1_000_000)


def reno_rounds():
    """RFC 5681 with RFC 3465: the window in segments after each round trip; a loss when it reaches 40, a timeout at 90."""
    cwnd, ssthresh = 10, None
    for number in range(60):
        if number == 30:
            ssthresh, cwnd = max(cwnd // 2, 2), 1
        elif cwnd >= 40:
            ssthresh = cwnd = max(cwnd // 2, 2)
        elif ssthresh is None or cwnd < ssthresh:
            cwnd = cwnd * 2 if ssthresh is None else min(cwnd * 2, ssthresh)
        else:
            cwnd += 1
        yield number, cwnd


def slow_start_rounds():
    """Section 1 of the 1988 paper: a window of W segments is reached in log2 W round trips, from one segment."""
    for rounds in range(1, 13):
        yield rounds, 2**rounds


if __name__ == "__main__":
    write("rto_rfc6298.csv", "rtt_ns,srtt_ns,rttvar_ns,rto_ns", rto_rfc6298())
    write("rto_jacobson1988.csv", "ticks,a_plus_2v,a_plus_4v", rto_jacobson1988())
    write("cubic_curve.csv", "w_max_segments,t_ms,window_bytes", cubic_curve())
    write("vegas_decisions.csv", "window_segments,rtt_ms,change_segments", vegas_decisions())
    write("bfa_srv.csv", "rtt_ms,srv_us,flag", bfa_srv())
    write("dctcp_alpha.csv", "marked_percent,alpha_ppm", dctcp_alpha())
    write("reno_rounds.csv", "round,cwnd_segments", reno_rounds())
    write("slow_start_rounds.csv", "rounds,window_segments", slow_start_rounds())
