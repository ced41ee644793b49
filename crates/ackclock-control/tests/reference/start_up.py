"""The bandwidth estimators of Allman and Paxson (1999), section 3, over made-up arrivals, and their regions.

Times are in microseconds. A trace of acknowledgements is a list of (time, bytes); RTT 100 ms, segments of 1000 bytes.
"""

from fractions import Fraction

from common import samples

SMSS, RTT = 1000, 100_000
N, NU = 3, Fraction(1, 10)


def ack_trace(seed):
    """Flights of slow start with acknowledgements of two segments, single ones after a delay, and noise in the spacing."""
    noise = samples(seed, 10_000, 0, 1000)
    spacing, start, flight = 1000 + 800 * (seed % 5), 0, 2
    for _ in range(7):
        at, acked, acks = start, 0, 0
        while acked < flight:
            size = 2 if flight - acked > 1 else 1
            jitter = next(noise)
            at += spacing * size + jitter * (seed % 4) + (0 if jitter % 13 else 30_000) + (40_000 if size == 1 else 0)
            yield at, size * SMSS
            acked, acks = acked + size, acks + 1
        start, flight = max(start + RTT, at), flight + acks


def rate(size, interval):
    return size * 1_000_000 // interval if interval > 0 and size * 1_000_000 // interval > 0 else None


def csa_samples(acks, n=N, nu=NU):
    """Each time that n acknowledgements came within nu RTT of their predecessors; the last begins the next group."""
    group = []
    for at, size in acks:
        if group and at - group[-1][0] > nu * RTT:
            group = []
        group.append((at, size))
        if len(group) == n:
            sample = rate(sum(size for _, size in group[1:]), at - group[0][0])
            if sample is not None:
                yield sample
            group = [(at, 0)]


def csa(acks, n=N, nu=NU):
    return next(csa_samples(acks, n, nu), None)


def tcsa(acks):
    smallest = None
    for sample in csa_samples(acks):
        if smallest is not None and abs(sample - smallest) <= smallest // 10:
            return min(sample, smallest)
        smallest = sample if smallest is None else min(smallest, sample)
    return smallest


def tcsa_prime(acks):
    previous = None
    for sample in csa_samples(acks):
        if previous is not None and abs(sample - previous) <= previous // 10:
            return (sample + previous) // 2
        previous = sample
    return None


def tssf(acks, window=2):
    """Section 3.3.1, in segments: the first flight is the initial window."""
    start, flight, count, acked = 0, window, 0, 0
    used = []
    for at, size in acks:
        acked += size // SMSS
        if acked > start + flight:
            start, flight, count, used = start + flight, flight + count, 0, []
        count += 1
        if not used or size > SMSS:
            used.append((at, size))
        if len(used) == N:
            return rate(sum(size for _, size in used[1:]), at - used[0][0])
    return None


def packet_pair(acks):
    """Two by two; the time per byte moves by an eighth. In fractions, so that only the last digits may differ."""
    mean = None
    acks = list(acks)
    for (first, _), (second, size) in zip(acks[::2], acks[1::2]):
        sample = Fraction(second - first, size)
        mean = sample if mean is None else mean + (sample - mean) / 8
    return int(1_000_000 / mean) if mean else None


def acknowledgements():
    for seed in range(20, 40):
        for at, size in ack_trace(seed):
            yield seed, at, size


ESTIMATORS = {
    "csa-2-0.05": lambda acks: csa(acks, 2, Fraction(5, 100)),
    "csa-2-0.1": lambda acks: csa(acks, 2),
    "csa-3-0.1": csa,
    "csa-2-0.2": lambda acks: csa(acks, 2, Fraction(2, 10)),
    "tcsa": tcsa,
    "tcsa-prime": tcsa_prime,
    "tssf": tssf,
    "packet-pair": packet_pair,
}


def estimates():
    """Zero: no estimate."""
    for seed in range(20, 40):
        for name, estimator in ESTIMATORS.items():
            yield seed, name, estimator(list(ack_trace(seed))) or 0


def data_trace(seed):
    """Bursts as the receiver's acknowledgements of every second segment allow them, their segments spaced by noise."""
    noise = samples(seed, 10_000, 0, 3000)
    at = 0
    for number in range(60):
        at += RTT if number in (1, 3, 7, 15, 31) else 500 + next(noise)
        yield at


def receiver_samples(times, k):
    """Section 3.4, in segments: D_0 = 1; D_(j+1) = D_j + A_(j+1) - A_j + 1; every second arrival is acknowledged."""
    allowed, acked, result = [1], 0, []
    arrival = dict(enumerate(times, start=1))
    burst = 0
    for number in arrival:
        while burst < len(allowed) and number >= allowed[burst]:
            first = 1 if burst == 0 else allowed[burst - 1] + 1
            if allowed[burst] > first and allowed[burst] <= number:
                sample = rate((allowed[burst] - first) * SMSS, arrival[allowed[burst]] - arrival[first])
                if sample is not None and len(result) < k:
                    result.append(sample)
            burst += 1
        if number % 2 == 0 or number == 1:
            allowed.append(allowed[-1] + number - acked + 1)
            acked = number
    return result


def receivers():
    for seed in range(50, 60):
        for k in (1, 5, 10, 50):
            found = receiver_samples(data_trace(seed), k)
            ordered = sorted(found)
            yield seed, k, min(found), sum(found) // len(found), ordered[len(ordered) // 2], max(found)


def arrivals():
    for seed in range(50, 60):
        for at in data_trace(seed):
            yield seed, at


def bunch_mode(times):
    """Packet bunches of two to five; the densest fifth; its median."""
    found = sorted(
        rate((size - 1) * SMSS, times[at + size - 1] - times[at])
        for size in range(2, 6)
        for at in range(len(times) - size + 1)
        if rate((size - 1) * SMSS, times[at + size - 1] - times[at])
    )
    best = []
    for at, low in enumerate(found):
        run = [value for value in found[at:] if value <= low + low // 5]
        if len(run) > len(best):
            best = run
    return best[len(best) // 2] if len(best) >= 2 else 0


def bunches():
    """PBM over all arrivals, PBM' over the first twenty."""
    for seed in range(50, 60):
        times = list(data_trace(seed))
        yield seed, bunch_mode(times), bunch_mode(times[:20])


def regions():
    """Section 3.1.1 and 3.1.2, in order, as numbers from 0; gamma 3/2, segments of 1000 bytes, RTT 100 ms."""
    numbers = samples(11, 4000, 1, 1_000_000)
    for e, loss, b in zip(numbers, numbers, numbers):
        segment_rate = Fraction(SMSS * 10)
        fills = Fraction(e) / segment_rate >= Fraction(b) / segment_rate - 1
        with_loss = (
            1 if e >= Fraction(3, 2) * loss
            else 2 if loss <= e
            else 3 if Fraction(loss, 2) <= e
            else 4 if fills
            else 5
        )
        without = 1 if e >= loss else 2 if fills else 3
        yield e, loss, b, with_loss, without


FILES = {
    "start_up_acks.csv": ("trace,time_us,bytes", acknowledgements),
    "start_up_estimates.csv": ("trace,estimator,bytes_per_second", estimates),
    "start_up_arrivals.csv": ("trace,time_us", arrivals),
    "start_up_receiver.csv": ("trace,k,min,avg,med,max", receivers),
    "start_up_pbm.csv": ("trace,pbm,pbm_prime", bunches),
    "start_up_regions.csv": ("estimate,loss_point,bottleneck,with_loss,without_loss", regions),
}
