"""Congestion controllers, from their papers and RFCs: windows in segments of 1000 bytes or in bytes, times as said."""

from fractions import Fraction

from common import nearest, samples

SMSS = 1000


def slow_start_rounds():
    """Section 1 of the 1988 paper: a window of W segments is reached in log2 W round trips, from one segment."""
    for rounds in range(1, 13):
        yield rounds, 2**rounds


def rounds(after_loss):
    """AIMD by round trip: a loss when the window reaches 40 segments, a timeout in the thirtieth round trip."""
    cwnd, ssthresh = 10, None
    for number in range(60):
        if number == 30:
            ssthresh, cwnd = max(cwnd // 2, 2), 1
        elif cwnd >= 40:
            ssthresh = max(cwnd // 2, 2)
            cwnd = after_loss(ssthresh)
        elif ssthresh is None or cwnd < ssthresh:
            cwnd = cwnd * 2 if ssthresh is None else min(cwnd * 2, ssthresh)
        else:
            cwnd += 1
        yield number, cwnd


def reno_rounds():
    """RFC 5681: the window becomes ssthresh."""
    return rounds(lambda ssthresh: ssthresh)


def tahoe_rounds():
    """Appendix B of the 1988 paper: the window becomes one segment after any loss."""
    return rounds(lambda _: 1)


def newreno_end():
    """RFC 6582 section 3.2 (3): min (ssthresh, max(FlightSize, SMSS) + SMSS), after a loss in a window of 20 segments."""
    for flight in range(0, 15_000, 500):
        yield flight, min(10 * SMSS, max(flight, SMSS) + SMSS)


def cubic_curve():
    """RFC 9438 section 4.2: the window in bytes, t milliseconds after congestion avoidance began at 0.7 W_max."""
    for segments in (10, 100, 1000, 10_000, 100_000):
        k = (segments * 0.3 / 0.4) ** (1 / 3)
        for t in range(0, 20_001, 500):
            window = 0.4 * (t / 1000 - k) ** 3 + segments
            yield segments, t, round(max(window, 0) * 1000)


def cubic_reductions():
    """RFC 9438 sections 4.6 and 4.7: cwnd and W_max in bytes after losses one after the other."""
    for segments in (4, 10, 33, 100, 1001):
        cwnd, w_max = Fraction(segments * SMSS), Fraction(0)
        for number in range(6):
            w_max = cwnd * Fraction(17, 20) if cwnd < w_max else cwnd
            cwnd = max(int(cwnd * Fraction(7, 10)), 2 * SMSS)
            yield segments, number, cwnd, int(w_max)


def cubic_reno_friendly():
    """RFC 9438 section 4.3: W_est in bytes after each round trip, from 0.7 of 10 segments, until it is 10 again."""
    alpha = Fraction(3 * 3, 17)
    for number in range(1, 6):
        yield number, nearest((7 + number * alpha) * SMSS)


def hystart_threshold():
    """RFC 9406 section 4.2: the growth in ns that begins CSS, for a smallest round trip in ms of the round before."""
    for rtt in (1, 8, 31, 32, 33, 40, 64, 100, 127, 128, 129, 500):
        yield rtt, max(4_000_000, min(rtt * 1_000_000 // 8, 16_000_000))


def vegas_decisions():
    """Section III-B: what a round trip of rtt does to a window of w segments, with alpha 1, beta 3 and BaseRTT 100 ms."""
    for window in (5, 10, 20, 50, 100):
        for rtt in range(100, 200, 3):
            diff = Fraction(window, 100) - Fraction(window, rtt)
            extra = diff * 100
            change = 1 if extra < 1 else -1 if extra > 3 else 0
            yield window, rtt, change


def vegas_star_threshold():
    """Section III-C: four acknowledgements spaced by s microseconds, BaseRTT in ms: the threshold window in bytes."""
    for spacing in (500, 1000, 3333, 5000, 7001):
        for rtt in (40, 100, 250):
            yield spacing, rtt, max(SMSS * 1_000_000 * 3 // (3 * spacing) * rtt // 1000, 4 * SMSS)


def bfa_srv(memory):
    """Section 3.2: srv in microseconds for samples that are whole ticks of 10 ms, mean with gain 1/8; the flag of 3.3."""
    srtt, srv, flag = None, Fraction(0), 0
    for sample in samples(3, 200, 5, 60):
        rtt = Fraction(sample * 10_000)
        if srtt is None:
            srtt = rtt
        else:
            delta = rtt - srtt
            srv = memory * srv + (1 - memory) * delta
            srtt += delta / 8
            flag = int(not srv <= -10_000) if flag else int(srv > 10_000)
        yield sample * 10, nearest(srv), flag


def eighth_less(window):
    return max(window - window // 8, 2 * SMSS)


def card_rounds():
    """Brakmo and Peterson III-B on CARD, from ten segments: every two round trips by the sign of dW * dRTT."""
    window, old = 10 * SMSS, None
    for number, rtt in enumerate(samples(8, 200, 100, 130), start=1):
        if number % 2 == 0:
            if old is not None:
                product = (window - old[0]) * (rtt - old[1])
                new = eighth_less(window) if product > 0 else window + SMSS
                old, window = (window, rtt), new
            else:
                old = (window, rtt)
        yield rtt, window


def dual_rounds():
    """The same on DUAL: Reno's segment a round trip, an eighth less every two if the delay is above its middle."""
    window, low, high = 10 * SMSS, None, None
    for number, rtt in enumerate(samples(9, 200, 100, 130), start=1):
        low, high = min(low or rtt, rtt), max(high or rtt, rtt)
        window += SMSS
        if number % 2 == 0 and 2 * rtt > low + high:
            window = eighth_less(window)
        yield rtt, window


def tri_s_rounds():
    """The same on Tri-S: a segment more a round trip, one less where it bought less than half of a lone segment's rate."""
    window, old, sent, base = 10 * SMSS, None, None, None
    for rtt in samples(10, 200, 100, 112):
        if sent is not None:
            outstanding, measured = sent
            base = min(base or measured, measured)
            throughput = Fraction(outstanding, measured)
            if old is not None:
                gained = throughput - old[1]
                if outstanding > old[0] and gained < Fraction(SMSS, base) / 2:
                    window = max(window - SMSS, 2 * SMSS)
                else:
                    window += SMSS
            old = (outstanding, throughput)
        sent = (window, rtt)
        yield rtt, window


def dctcp_alpha():
    """RFC 8257 section 3.3: alpha in millionths after round trips of which a percentage was marked."""
    alpha = Fraction(1)
    for percent in samples(4, 150, 0, 101):
        alpha = alpha * Fraction(15, 16) + Fraction(percent, 100) * Fraction(1, 16)
        yield percent, nearest(alpha * 1_000_000)


def dctcp_reduction():
    """RFC 8257 section 3.3 (9) after one round trip of 100 segments with a share marked: cwnd in bytes, from 100 segments."""
    for percent in range(0, 101, 5):
        alpha = Fraction(15, 16) + Fraction(percent, 1600)
        yield percent, nearest(100 * SMSS * (1 - alpha / 2))


def prague_growth():
    """Prague's reduced dependence on the round trip: windows acknowledged for a segment more, at a round trip in ms."""
    for rtt in (1, 2, 5, 10, 12, 20, 25, 50, 100):
        ratio = min(Fraction(rtt, 25), 1) ** 2
        yield rtt, -(-ratio.denominator // ratio.numerator)


def htcp_rounds():
    """H-TCP: alpha = 2 (1 - beta) (1 + 10 d + d² / 4) for d seconds beyond the first since the last loss; beta is RTTmin / RTTmax
    in 0.5 to 0.8, but 0.5 after the throughput changed by more than a fifth. A loss at 200 segments, each third time at 300."""
    window, now, since, losses = Fraction(100), Fraction(0), Fraction(0), 0
    beta, low, high, throughput, before = Fraction(1, 2), None, Fraction(0), Fraction(0), Fraction(0)
    for rtt in samples(12, 400, 100, 130):
        lost = window >= (300 if losses % 3 == 2 else 200)
        if lost:
            steady = abs(throughput - before) <= before / 5
            beta = min(max(low / high, Fraction(1, 2)), Fraction(4, 5)) if steady else Fraction(1, 2)
            window, since, losses = window * beta, now, losses + 1
            high, before, throughput = high - (high - low) / 20, throughput, Fraction(0)
        else:
            now += Fraction(rtt, 1000)
            low, high = min(low or rtt, rtt), max(high, Fraction(rtt))
            throughput = max(throughput, window / rtt)
            beyond = max(now - since - 1, 0)
            alpha = 2 * (1 - beta) * (1 + 10 * beyond + beyond**2 / 4)
            window += min(alpha, window)
        yield rtt, int(lost), nearest(window * SMSS), nearest(beta * 1000)


def illinois_rounds():
    """TCP-Illinois: alpha = kappa_1 / (kappa_2 + d) above d_1, beta = kappa_3 + kappa_4 d between d_2 and d_3, where both curves meet
    their bounds; alpha is largest again after five round trips below d_1; Reno below 15 segments. A loss at 120 segments."""
    low, high = Fraction(3, 10), Fraction(10)
    least, most = Fraction(1, 8), Fraction(1, 2)
    window, base, longest, alpha, above, below = Fraction(10), None, 0, high, False, 0
    for number, rtt in enumerate(samples(13, 400, 100, 200)):
        rtt = 100 if number % 40 < 12 else rtt
        lost = window >= 120
        if lost:
            window *= 1 - beta
        else:
            base, longest = min(base or rtt, rtt), max(longest, rtt)
            delay, largest = Fraction(rtt - base), Fraction(longest - base)
            d_1, d_2, d_3 = largest / 100, largest / 10, largest * 4 / 5
            if window < 15:
                alpha, beta = Fraction(1), most
            else:
                if delay > d_1:
                    kappa_1 = (largest - d_1) * low * high / (high - low)
                    kappa_2 = (largest - d_1) * low / (high - low) - d_1
                    alpha, above, below = kappa_1 / (kappa_2 + delay), True, 0
                else:
                    below += 1
                    if not above or below == 5:
                        alpha, above, below = high, False, 0
                if delay <= d_2:
                    beta = least
                elif delay >= d_3:
                    beta = most
                else:
                    kappa_4 = (most - least) / (d_3 - d_2)
                    beta = least - kappa_4 * d_2 + kappa_4 * delay
            window += alpha
        yield rtt, int(lost), nearest(window * SMSS), nearest(beta * 1000)


def ledbat_plus_plus_rounds():
    """LEDBAT++ at a target of 60 ms: GAIN = 1 / min (16, ceil (2 target / base)) segments a round trip, less W (delay / target - 1)
    above the target, half of W at most; the delay is the smallest of four. Two round trips after slow start and nine times as long
    as the last slowdown took: two segments for two round trips, then slow start, times 1 + GAIN, to the window before."""
    now, window, goal, phase, since, until = 0, Fraction(50), Fraction(0), "first", 0, 0
    base, recent = None, []
    for number, rtt in enumerate(samples(14, 600, 40, 140)):
        rtt = 40 + rtt % 8 if number % 60 < 40 else rtt
        now += rtt
        base, recent = min(base or rtt, rtt), [*recent[-3:], rtt]
        delay, gain = min(recent) - base, Fraction(1, min(16, -(-120 // base)))
        half, growing = window / 2, window < goal
        if phase == "first":
            phase, until = "waits", now + 2 * rtt
        elif phase == "waits" and now >= until:
            goal, window = (goal if growing else window), Fraction(2)
            phase, since, until = "frozen", now, now + 2 * rtt
        elif phase == "frozen" and now >= until:
            phase = "recovers"
        elif phase == "recovers" and not growing:
            phase, until = "waits", now + 9 * (now - since)
        if phase != "frozen":
            if window < goal:
                window = min(window + min(gain * window, 2), goal)
            else:
                change = gain - max(window * (Fraction(delay, 60) - 1), 0)
                window = max(window + change, half, 2) if change < 0 else window + change
                goal = min(goal, window)
        yield rtt, nearest(window * SMSS)


def bbr_startup():
    """The BBR draft, Startup: pacing rate in bytes a second for a sample of bytes in ms: 2.77 times less 1 %."""
    for size in (20_000, 100_000, 1_000_000):
        for interval in (10, 33, 100, 250):
            bandwidth = size * 1000 // interval
            yield size, interval, nearest(bandwidth * Fraction(277, 100) * Fraction(99, 100))


def bbr1_rounds():
    """BBR's first draft, one acknowledgement a round trip: the largest rate of ten round trips that the application did not limit,
    times the smallest round trip of ten seconds, times 2.89 or 2, and three quanta of two segments. Full after three round trips
    without a quarter more; four segments once the round trip is ten seconds old, for 200 ms and a round trip."""
    now = delivered = limited_until = stamp = full = count = 0
    cwnd, state, filled, rates, least, done, round_done = 10 * SMSS, "startup", False, [], None, None, False
    bandwidth = 0
    for number in range(360):
        offered = min(100_000 << number, 1_600_000) if number < 60 else (800_000, 1_200_000, 2_000_000)[number // 60 % 3]
        rtt = 100 if number < 3 else 130 if number % 120 > 100 else 110
        rate = 4 * SMSS * 1000 // rtt if state == "probe-rtt" and cwnd == 4 * SMSS else offered
        acked = rate * rtt // 1000
        prior, delivered, now = delivered, delivered + acked, now + rtt
        in_flight = 4 * SMSS if state == "probe-rtt" else bandwidth * (least or 0) // 1000
        limited = prior < limited_until
        rate = Fraction(acked * 1000, rtt)
        rates.append(0 if limited and rate < bandwidth else rate)
        bandwidth = max(rates[-11:]) if rates[-1] else bandwidth
        if not filled and not limited:
            if bandwidth >= full * Fraction(5, 4):
                full, count = bandwidth, 0
            else:
                count += 1
                filled = count == 3
        target = lambda gain: bandwidth * least * gain / 1000 + 6 * SMSS
        if state == "startup" and filled:
            state = "drain"
        if state == "drain" and in_flight <= target(1):
            state = "probe-bw"
        expired = now > stamp + 10_000
        if least is None or rtt <= least or expired:
            least, stamp = rtt, now
        if state != "probe-rtt" and expired:
            state, saved, done = "probe-rtt", cwnd, None
        if state == "probe-rtt":
            limited_until = delivered + in_flight
            if done is None:
                if in_flight <= 4 * SMSS:
                    done, round_done = now + 200, False
            else:
                round_done = True
                if now > done:
                    state, stamp, cwnd = "probe-bw", now, max(cwnd, saved)
        gain = {"startup": Fraction(289, 100), "drain": Fraction(289, 100), "probe-bw": 2, "probe-rtt": 1}[state]
        if filled:
            cwnd = min(cwnd + acked, target(gain))
        elif cwnd < target(gain) or delivered < 10 * SMSS:
            cwnd += acked
        cwnd = max(cwnd, 4 * SMSS)
        if state == "probe-rtt":
            cwnd = 4 * SMSS
        yield rtt, acked, in_flight // 1, nearest(bandwidth), nearest(cwnd)


FILES = {
    "slow_start_rounds.csv": ("rounds,window_segments", slow_start_rounds),
    "reno_rounds.csv": ("round,cwnd_segments", reno_rounds),
    "tahoe_rounds.csv": ("round,cwnd_segments", tahoe_rounds),
    "newreno_end.csv": ("in_flight,cwnd", newreno_end),
    "cubic_curve.csv": ("w_max_segments,t_ms,window_bytes", cubic_curve),
    "cubic_reductions.csv": ("start_segments,loss,cwnd,w_max", cubic_reductions),
    "cubic_reno_friendly.csv": ("round,w_est", cubic_reno_friendly),
    "hystart_threshold.csv": ("last_round_min_rtt_ms,growth_ns", hystart_threshold),
    "vegas_decisions.csv": ("window_segments,rtt_ms,change_segments", vegas_decisions),
    "vegas_star_threshold.csv": ("spacing_us,base_rtt_ms,ssthresh", vegas_star_threshold),
    "bfa_srv.csv": ("rtt_ms,srv_us,flag", lambda: bfa_srv(Fraction(1, 2))),
    "bfa_gentle_srv.csv": ("rtt_ms,srv_us,flag", lambda: bfa_srv(Fraction(3, 4))),
    "card_rounds.csv": ("rtt_ms,cwnd", card_rounds),
    "dual_rounds.csv": ("rtt_ms,cwnd", dual_rounds),
    "tri_s_rounds.csv": ("rtt_ms,cwnd", tri_s_rounds),
    "dctcp_alpha.csv": ("marked_percent,alpha_ppm", dctcp_alpha),
    "dctcp_reduction.csv": ("marked_percent,cwnd", dctcp_reduction),
    "prague_growth.csv": ("rtt_ms,windows", prague_growth),
    "htcp_rounds.csv": ("rtt_ms,lost,cwnd,beta_thousandths", htcp_rounds),
    "illinois_rounds.csv": ("rtt_ms,lost,cwnd,beta_thousandths", illinois_rounds),
    "ledbat_plus_plus_rounds.csv": ("rtt_ms,cwnd", ledbat_plus_plus_rounds),
    "bbr1_rounds.csv": ("rtt_ms,acked,in_flight,bw,cwnd", bbr1_rounds),
    "bbr_startup.csv": ("bytes,interval_ms,pacing_rate", bbr_startup),
}
