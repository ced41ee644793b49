"""The assessment of timeouts, Allman and Paxson (1999) section 2.2, over made-up connections; times in microseconds."""

from math import ceil

from common import samples
from rto import MS, STD, Mean

ESTIMATORS = {"ap-min-1000": (*STD, 4, 1, 1000), "ap-min-0": (*STD, 4, 1, 0), "ap-take-last": (1, 1, 4, 1, 0)}


def connection(seed):
    """Stop and wait: (sent, [sent again after a timeout ...], acknowledged) for each segment."""
    numbers = samples(seed, 10_000, 0, 1000)
    at = 1_000_000
    for _ in range(60):
        sent, again = at, []
        if next(numbers) < 120:
            again.append(sent + 3_000_000)
            if next(numbers) < 300:
                again.append(again[-1] + 6_000_000)
        rtt = 40_000 + 50 * next(numbers)
        if next(numbers) < 80:
            rtt *= 12
        acknowledged = (again[-1] if again else sent) + rtt
        yield sent, again, acknowledged
        at = acknowledged + 1000 + next(numbers)


def events():
    """0: sent, 1: sent again for a timeout, 2: acknowledged; with the segment's number."""
    for seed in range(70, 80):
        for number, (sent, again, acknowledged) in enumerate(connection(seed)):
            yield seed, 0, sent, number
            for time in again:
                yield seed, 1, time, number
            yield seed, 2, acknowledged, number


def assessed(seed, parameters):
    estimator, backoff = Mean(*parameters), 0
    waited = good = repeated = bad = 0
    costs, latest = [], None

    def rto():
        return min(estimator.rto() << backoff, 64_000 * MS)

    def expiry(now):
        """The clock ticks on its own: the timer began at the tick before."""
        return now // estimator.g * estimator.g + rto()

    for sent, again, acknowledged in connection(seed):
        expires = expiry(sent * 1000)
        for number, time in enumerate(again):
            if number == 0:
                good, waited = good + 1, waited + rto()
                if latest:
                    costs.append(rto() / latest)
            else:
                repeated += 1
            backoff += 1
            expires = expiry(time * 1000)
        while expires < acknowledged * 1000:
            bad, backoff = bad + 1, backoff + 1
            expires = expiry(expires)
        # Only what was sent last can have been answered. Its round trip is observed, if not measured.
        latest = (acknowledged - (again[-1] if again else sent)) * 1000
        if not again:
            # What a clock that runs on its own shows.
            estimator.sample((acknowledged * 1000 // estimator.g - sent * 1000 // estimator.g) * estimator.g)
            backoff = 0
    cost = sum(costs) / len(costs) if costs else 0
    return waited // 1000, good, repeated, bad, ceil(cost * 1000)


def assessments():
    """The mean cost in thousandths of a round trip, rounded up."""
    for seed in range(70, 80):
        for name, parameters in ESTIMATORS.items():
            yield seed, name, *assessed(seed, parameters)


FILES = {
    "assess_events.csv": ("trace,kind,time_us,segment", events),
    "assess_timeouts.csv": ("trace,preset,waited_us,good,repeated,bad,cost_thousandths", assessments),
}
