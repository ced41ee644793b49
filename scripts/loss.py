#!/usr/bin/env python3
"""Measures this stack's sender beside the Linux kernel's over paths that lose packets, and makes the table of it.

    scripts/loss.py                        measures all that is missing in target/loss.jsonl (under two hours, as root)
    scripts/loss.py --rtt 20ms --loss 1%   only these cells; also --rate, --cc, --receiver, --rounds, --secs
    scripts/loss.py --write                writes what is measured into docs/benchmarks.md and benches/results/loss.md
    scripts/loss.py --check                three cells in under a minute, and what must hold of them; changes no file

What is measured is kept line by line, so a run that was interrupted goes on where it ended; `--fresh` begins again.
Rounds are the outer loop, and in each round both senders have their turn in each cell and lose the same packets.
"""

import argparse
import itertools
import json
import math
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import bbr_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
RTTS = ["0.1ms", "2ms", "20ms", "100ms"]
LOSSES = ["0%", "0.1%", "1%", "3%"]
RATES = ["unlimited", "100Mbit/s"]
CONTROLLERS = ["cubic", "bbr"]
RECEIVERS = ["linux", "ackclock"]
ROUNDS = 5
SECONDS = 4
# One flow of each at a bottleneck that loses nothing of itself.
FAIR = {"rtt": ["2ms", "20ms", "100ms"], "rate": "100Mbit/s", "rounds": 2, "secs": 30}
# One of each, and two of the kernel's to compare that with.
TOGETHER = ["both", "linux-twice"]
# RTT, loss, rate, controller, receiver, and the floor below which the median of the ratios must not fall. On a machine
# that does other things besides: the table's targets are for a quiet one.
CHECKED = [
    ("2ms", "1%", "100Mbit/s", "cubic", "linux", 0.7),
    ("20ms", "1%", "unlimited", "cubic", "ackclock", 0.8),
    ("20ms", "0.1%", "100Mbit/s", "bbr", "linux", 0.7),
]
CHECK_ROUNDS = 3
CHECK_SECONDS = 2.5
RATIO_MAX = 3.0
CLEAN_BYTES = 256_000_000
# What the machine carries without a limit, where nothing was measured of that; BBR's rules say nothing of smaller paths.
UNLIMITED_BPS = 2e9
PREDICTED_FROM = 10
# Retransmissions allowed, relative to losses; and these bytes besides, since a probe may be superfluous.
AGAIN_MAX = 1.3
AGAIN_BYTES = 10 * 1500

# The same packages as .ci/nightly builds, so that none is built twice, with other features.
BUILD_PLAIN = "cargo build --locked --quiet --profile plain -p tcplab -p ackclock-tests -p ackclock-benches --bins".split()
BUILD_RELEASE = "cargo build --locked --quiet --profile release -p ackclock-benches --bin loss".split()
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()
KEPT = ROOT / "target/loss.jsonl"
PAGE = ROOT / "docs/benchmarks.md"
DETAILS = ROOT / "benches/results/loss.md"


def main() -> int:
    args = arguments()
    if args.check:
        return check()
    store = Store(args.kept, args.fresh)
    if not args.write:
        measure(args, store)
    rows = summarize(store.lines)
    if args.write:
        write(rows, store.lines)
    else:
        print("\n".join(table(rows) + verdicts(rows) + fairness(store.lines)))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--rtt", type=words, default=RTTS)
    parser.add_argument("--loss", type=words, default=LOSSES)
    parser.add_argument("--rate", type=words, default=RATES)
    parser.add_argument("--cc", type=words, default=CONTROLLERS)
    parser.add_argument("--receiver", type=words, default=RECEIVERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--secs", type=float, default=SECONDS)
    parser.add_argument("--no-fair", action="store_true", help="leave out the flows beside each other")
    parser.add_argument("--kept", type=pathlib.Path, default=KEPT, help="where what is measured is kept")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--write", action="store_true", help="measure nothing, write the documents")
    parser.add_argument("--check", action="store_true", help="three cells, and what must hold of them")
    return parser.parse_args()


class Store:
    """What was measured, a line each, in the file and here."""

    def __init__(self, path: pathlib.Path, fresh: bool):
        self.path = path
        if fresh:
            path.unlink(missing_ok=True)
        texts = path.read_text().splitlines() if path.exists() else []
        # The last line may be half of one.
        self.lines = [line for line in map(parsed, texts) if line]
        self.there = {line["key"] for line in self.lines}

    def add(self, key: str, lines: list[dict]):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            for line in lines:
                line["key"] = key
                file.write(json.dumps(line) + "\n")
        self.lines += lines
        self.there.add(key)


def parsed(text: str) -> dict | None:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def measure(args: argparse.Namespace, store: Store):
    program = build("release")
    cells = list(itertools.product(args.cc, args.receiver, args.rate, args.rtt, args.loss))
    jobs = [
        (rtt, loss, rate, cc, receiver, "linux,ackclock", number, args.secs)
        for number in range(1, args.rounds + 1)
        for cc, receiver, rate, rtt, loss in cells
    ]
    if not args.no_fair:
        jobs += [
            (rtt, "0%", FAIR["rate"], cc, receiver, senders, number, FAIR["secs"])
            for number in range(1, FAIR["rounds"] + 1)
            for cc, receiver, rtt, senders in itertools.product(args.cc, args.receiver, FAIR["rtt"], TOGETHER)
        ]
    missing = [job for job in jobs if key(job) not in store.there]
    left = sum((1 if job[5] in TOGETHER else 2) * (job[7] + 0.3) for job in missing)
    say(f"{len(jobs) - len(missing)} of {len(jobs)} are there; the rest takes {left / 60:.0f} minutes")
    began = time.monotonic()
    for number, job in enumerate(missing, 1):
        lines = run(program, job)
        store.add(key(job), lines)
        took = time.monotonic() - began
        left = took / number * (len(missing) - number)
        say(f"{number}/{len(missing)}, {left / 60:.0f} min left: {' '.join(map(str, job))}: {told(lines)}")


def key(job: tuple) -> str:
    return " ".join(map(str, job))


def run(program: pathlib.Path, job: tuple) -> list[dict]:
    rtt, loss, rate, cc, receiver, senders, seed, secs = job
    flags = {"rtt": rtt, "loss": loss, "rate": rate, "cc": cc, "receiver": receiver, "sender": senders}
    command = [program, *itertools.chain(*((f"--{name}", value) for name, value in flags.items()))]
    command += ["--seed", str(seed), "--secs", str(secs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def told(lines: list[dict]) -> str:
    flows = {flow["party"]: flow["goodput_bps"] / 1e6 for line in lines for flow in line["flows"]}
    if "ackclock" not in flows:
        return f"{lines[0]['flows'][0]['goodput_bps'] / 1e6:.1f} beside {flows['linux']:.1f} Mbit/s"
    return f"{flows['ackclock']:.1f} of {flows['linux']:.1f} Mbit/s, {flows['ackclock'] / flows['linux']:.2f}"


class Row:
    """A cell of the table: the rounds of both senders."""

    def __init__(self, lines: list[dict]):
        self.cell = lines[0]["cell"]
        rounds = {}
        for line in lines:
            flow = line["flows"][0]
            rounds.setdefault(line["seed"], {})[flow["party"]] = (flow, line)
        self.rounds = [both for _, both in sorted(rounds.items()) if len(both) == 2]
        # That fit on the path: at its rate, or at what the kernel makes of it where nothing is lost (`summarize`).
        self.packets = (self.cell["rate_bps"] or UNLIMITED_BPS) * self.cell["rtt_us"] / 1e6 / 8 / 1500

    def flows(self, party: str) -> list[dict]:
        return [both[party][0] for both in self.rounds]

    def paths(self, party: str) -> list[dict]:
        return [both[party][1]["path"] for both in self.rounds]

    def ratios(self) -> list[float]:
        goodputs = zip(self.flows("ackclock"), self.flows("linux"))
        return [ours["goodput_bps"] / theirs["goodput_bps"] for ours, theirs in goodputs]

    def ratio(self) -> float:
        return statistics.median(self.ratios())

    def goodput(self, party: str) -> float:
        """Mbit/s."""
        return statistics.median(flow["goodput_bps"] for flow in self.flows(party)) / 1e6

    def controller(self) -> str:
        """The kernel's, as it was read back from its sockets."""
        return "/".join(sorted({flow["says"]["controller"] for flow in self.flows("linux")}))

    def predicted(self) -> float | None:
        """For BBR, what the draft's rules make of the path with its losses, beside what they make of it without."""
        cell, seconds = self.cell, self.rounds[0]["linux"][1]["seconds"]
        if cell["controller"] != "bbr" or not cell["loss"] or self.packets < PREDICTED_FROM:
            return None
        predict = lambda loss: bbr_model.predict(self.packets, cell["rtt_us"] / 1e6, loss, seconds)
        return predict(cell["loss"]) / predict(0)

    def again(self, party: str) -> float:
        """Bytes sent again, as a share of all."""
        seen = [flow["seen"] for flow in self.flows(party)]
        return sum(s["bytes_again"] for s in seen) / max(1, sum(s["data_bytes"] for s in seen))

    def paused(self, party: str) -> float:
        """The most seconds of ten in which it paused."""
        runs = (both[party] for both in self.rounds)
        return max(flow["seen"]["paused_ns"] / 1e9 * 10 / line["seconds"] for flow, line in runs)

    def lost(self, party: str) -> float:
        """Packets with data lost by chance or by a full queue, as a share of all."""
        there = [path["there"] for path in self.paths(party)]
        return sum(t["lost"] + t["queue_full"] for t in there) / max(1, sum(t["drawn"] for t in there))


def summarize(lines: list[dict]) -> list[Row]:
    cells = {}
    for line in lines:
        if len(line["flows"]) == 1:
            cell = line["cell"]
            place = (
                CONTROLLERS.index(cell["controller"]),
                RECEIVERS.index(cell["receiver"]),
                -(cell["rate_bps"] or math.inf),
                cell["rtt_us"],
                cell["loss"],
            )
            cells.setdefault(place, []).append(line)
    rows = [row for row in (Row(lines) for _, lines in sorted(cells.items())) if row.rounds]
    path = lambda row: (*(row.cell[name] for name in ("controller", "receiver", "rtt_us")), row.cell["rate_bps"] is None)
    without = {path(row): row.goodput("linux") for row in rows if row.cell["loss"] == 0}
    for row in rows:
        if row.cell["rate_bps"] is None and path(row) in without:
            row.packets *= without[path(row)] * 1e6 / UNLIMITED_BPS
    return rows


def table(rows: list[Row]) -> list[str]:
    """A line for each path, controller and receiver, a column for each loss."""
    losses = sorted({row.cell["loss"] for row in rows})
    paths = {}
    for row in rows:
        cell = row.cell
        path = (row.controller(), cell["receiver"], cell["rate_bps"], cell["rtt_us"])
        paths.setdefault(path, {})[cell["loss"]] = row
    text = [
        "| kernel's controller, ours | receiver | rate | RTT | " + " | ".join(f"{percent(loss)} lost" for loss in losses) + " |",
        "|---|---|---|---|" + "---|" * len(losses),
    ]
    for (controller, receiver, rate, rtt), by_loss in paths.items():
        ours = sorted({flow["says"]["controller"] for row in by_loss.values() for flow in row.flows("ackclock")})
        cells = [shown(by_loss[loss]) if loss in by_loss else "" for loss in losses]
        head = [f"{controller}, {'/'.join(ours)}", receiver, rate_text(rate), f"{rtt / 1000:g} ms"]
        text.append("| " + " | ".join(head + cells) + " |")
    return text


def shown(row: Row) -> str:
    predicted = row.predicted()
    draft = f", draft {predicted:.2f}" if predicted is not None else ""
    return f"{ratio_text(row)} of {figures(row.goodput('linux'))}{draft}"


def ratio_text(row: Row) -> str:
    ratios = row.ratios()
    spread = f" [{min(ratios):.2f}-{max(ratios):.2f}]" if len(ratios) > 1 else ""
    return f"{row.ratio():.2f}{spread}"


def percent(share: float) -> str:
    return f"{share * 100:.3g} %"


def figures(value: float) -> str:
    """Three figures that say something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def rate_text(rate: int | None) -> str:
    return "none" if rate is None else f"{rate / 1e6:g} Mbit/s"


def verdicts(rows: list[Row]) -> list[str]:
    """The targets, and what was measured."""
    text = []
    for receiver in RECEIVERS:
        cubic = [row for row in rows if row.cell["controller"] == "cubic" and row.cell["receiver"] == receiver]
        lossy = [row for row in cubic if row.cell["loss"] > 0]
        if lossy:
            mean = statistics.geometric_mean(row.ratio() for row in lossy)
            least = min(cubic, key=Row.ratio)
            text.append(
                f"- CUBIC to {receiver}: geometric mean over {len(lossy)} cells with loss {mean:.2f} (target 1.2); "
                f"least of all {least.ratio():.2f} (target 0.97) at {place(least)}."
            )
        bbr = [row for row in rows if row.cell["controller"] == "bbr" and row.cell["receiver"] == receiver]
        held = [row for row in bbr if row.cell["loss"] <= 0.01 and row.packets >= 500]
        if held:
            least = min(held, key=Row.ratio)
            text.append(
                f"- BBR to {receiver}: least of the {len(held)} cells up to 1 % whose path holds 500 packets or more "
                f"{least.ratio():.2f} (target 0.95) at {place(least)}."
            )
        for again in [row for row in cubic + bbr if row.again("ackclock") > AGAIN_MAX * row.lost("ackclock") + 1e-4]:
            text.append(
                f"- Sent again {again.again('ackclock'):.2%} where {again.lost('ackclock'):.2%} were lost "
                f"(target {AGAIN_MAX} times) at {place(again)}, {again.cell['controller']} to {receiver}."
            )
    return text + silences(rows) + clean(rows)


def silences(rows: list[Row]) -> list[str]:
    """What timeouts cost where they cost most."""
    text = []
    for row in rows:
        cell = row.cell
        if (cell["controller"], cell["rtt_us"], cell["loss"], cell["rate_bps"]) == ("cubic", 100, 0.01, None):
            text.append(
                f"- CUBIC to {cell['receiver']} at {place(row)}: silent for {row.paused('ackclock'):.1f} s of ten at worst "
                f"(target 1), Linux for {row.paused('linux'):.1f}."
            )
    return text


def clean(rows: list[Row]) -> list[str]:
    """What is lost and sent again where nothing is lost."""
    flows = [flow for row in rows if row.cell["loss"] == 0 and not row.cell["rate_bps"] for flow in row.flows("ackclock")]
    long = [flow for flow in flows if flow["bytes"] >= CLEAN_BYTES]
    if not long:
        return []
    episodes = sum(flow["says"]["loss_episodes"] for flow in long)
    again = sum(flow["seen"]["bytes_again"] for flow in long)
    return [f"- {len(long)} runs of 256 MB or more without loss or limit: {episodes} loss episodes, {again:,} bytes sent again (target 0)."]


def how(rows: list[Row]) -> str:
    """How much there was of it, so that half a table cannot be taken for a whole one."""
    rounds = sorted({len(row.rounds) for row in rows})
    seconds = sorted({round(line["seconds"]) for row in rows for both in row.rounds for _, line in both.values()})
    several = lambda values: " to ".join(str(value) for value in {values[0]: 0, values[-1]: 0})
    return f"{len(rows)} cells, rounds for each: {several(rounds)}, of {several(seconds)} s; kernel {platform.release()}."


def place(row: Row) -> str:
    cell = row.cell
    return f"{cell['rtt_us'] / 1000:g} ms, {percent(cell['loss'])}, rate {rate_text(cell['rate_bps'])}"


def fairness(lines: list[dict]) -> list[str]:
    """One flow of each beside the other, and two of the kernel's beside each other."""
    runs, controls = {}, {}
    for line in lines:
        if len(line["flows"]) != 2:
            continue
        cell = line["cell"]
        flows = sorted(line["flows"], key=lambda flow: flow["party"])
        first, second = (flow["goodput_bps"] for flow in flows)
        path = (flows[1]["says"]["controller"], cell["receiver"], cell["rate_bps"], cell["rtt_us"])
        if flows[0]["party"] == "ackclock":
            runs.setdefault(path, []).append((first / (first + second), *map(again_share, flows)))
        else:
            controls.setdefault(path, []).append(first / (first + second))
    if not runs:
        return []
    text = [
        "",
        "| both controllers | receiver | rate | RTT | our share | of two of Linux's, the first's | sent again, ours | Linux's |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for path, values in sorted(runs.items()):
        controller, receiver, rate, rtt = path
        shares, ours, theirs = zip(*values)
        cells = [controller, receiver, rate_text(rate), f"{rtt / 1000:g} ms"]
        cells += [share_text(shares), share_text(controls.get(path, ())), f"{max(ours):.2%}", f"{max(theirs):.2%}"]
        text.append("| " + " | ".join(cells) + " |")
    return text


def share_text(shares: tuple[float, ...]) -> str:
    if not shares:
        return ""
    spread = f" [{min(shares):.0%}-{max(shares):.0%}]" if len(shares) > 1 else ""
    return f"{statistics.median(shares):.0%}{spread}"


def again_share(flow: dict) -> float:
    return flow["seen"]["bytes_again"] / max(1, flow["seen"]["data_bytes"])


def details(rows: list[Row]) -> list[str]:
    text = [
        "# Senders beside each other, cell by cell",
        "",
        "Made by `scripts/loss.py --write`; it is explained in [docs/benchmarks.md](../../docs/benchmarks.md). Medians of the",
        "rounds; of silences and timeouts the sums. Ours first, then Linux's.",
        "",
        "| controller | receiver | rate | RTT | lost | Mbit/s | ratio | sent again | longest silence, ms | pauses | timeouts |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cell, parties = row.cell, ("ackclock", "linux")
        pair = lambda value: ", ".join(value(party) for party in parties)
        silence = lambda party: f"{max(flow['seen']['silence_max_ns'] for flow in row.flows(party)) / 1e6:.0f}"
        total = lambda party, part, name: str(sum(flow[part][name] for flow in row.flows(party)))
        cells = [
            row.controller(),
            cell["receiver"],
            rate_text(cell["rate_bps"]),
            f"{cell['rtt_us'] / 1000:g} ms",
            percent(cell["loss"]),
            pair(lambda party: figures(row.goodput(party))),
            ratio_text(row),
            pair(lambda party: f"{row.again(party):.2%}"),
            pair(silence),
            pair(lambda party: total(party, "seen", "pauses")),
            pair(lambda party: total(party, "says", "timeouts")),
        ]
        text.append("| " + " | ".join(cells) + " |")
    return text


def write(rows: list[Row], lines: list[dict]):
    page = PAGE.read_text()
    begin, end = "<!-- loss: begin -->\n", "<!-- loss: end -->"
    head, rest = page.split(begin)
    _, tail = rest.split(end)
    text = "\n".join([how(rows), "", *table(rows), "", *verdicts(rows), *fairness(lines)])
    PAGE.write_text(f"{head}{begin}{text}\n{end}{tail}")
    DETAILS.write_text("\n".join(details(rows)) + "\n")
    say(f"written: {PAGE.relative_to(ROOT)}, {DETAILS.relative_to(ROOT)}")


def check() -> int:
    program = build("plain")
    problems = []
    for rtt, loss, rate, cc, receiver, floor in CHECKED:
        rounds = range(1, CHECK_ROUNDS + 1)
        jobs = [(rtt, loss, rate, cc, receiver, "linux,ackclock", seed, CHECK_SECONDS) for seed in rounds]
        row = Row([line for job in jobs for line in run(program, job)])
        say(f"{cc} to {receiver}, {place(row)}: {shown(row)} Mbit/s")
        problems += [f"{cc} to {receiver}, {place(row)}: {what}" for what in breaches(row, cc, floor)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def breaches(row: Row, cc: str, floor: float):
    """What must hold of a cell on any machine."""
    if not floor <= row.ratio() <= RATIO_MAX:
        yield f"the median of the ratios is {row.ratio():.2f}, not within {floor} and {RATIO_MAX}"
    for both in row.rounds:
        for party, (flow, line) in both.items():
            if flow["says"]["controller"] != cc:
                yield f"the controller of {party} is {flow['says']['controller']}, not {cc}"
            there, loss = line["path"]["there"], row.cell["loss"]
            expected, spread = there["drawn"] * loss, math.sqrt(there["drawn"] * loss * (1 - loss))
            if abs(there["lost"] - expected) > 5 * spread + 1:
                yield f"{there['lost']} of {there['drawn']} packets of {party} are lost, {expected:.0f} were asked for"
            if line["dropped_besides"]:
                yield f"{line['dropped_besides']} packets of {party} were dropped in front of a device"
        flow, line = both["ackclock"]
        seen, there = flow["seen"], line["path"]["there"]
        lost = (there["lost"] + there["queue_full"]) / max(1, there["drawn"]) * seen["data_bytes"]
        if seen["bytes_again"] > AGAIN_MAX * lost + AGAIN_BYTES:
            yield f"{seen['bytes_again']} bytes are sent again where {lost:.0f} were lost"


def build(profile: str) -> pathlib.Path:
    subprocess.run(BUILD_PLAIN if profile == "plain" else BUILD_RELEASE, cwd=ROOT, check=True)
    target = json.loads(subprocess.run(METADATA, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["target_directory"]
    return pathlib.Path(target) / profile / "loss"


def say(text: str):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; what is measured is kept, and the same command goes on")
