#!/usr/bin/env python3
"""Measures this stack over TUN against the kernel's TCP, beside a responder without a TCP's work, and makes the table of it.

    scripts/tun.py                    measures what is missing in target/tun.jsonl (twelve minutes, as root)
    scripts/tun.py --service sink     only this; also --rounds, --secs, --fresh, --programs
    scripts/tun.py --write            measures nothing; writes what is measured into docs/benchmarks.md

Each run makes a network of its own, which ends with it. Rounds are the outer loop, and in each every program has its turn in
every service. A run that was interrupted goes on where it ended.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 5
SECONDS = 4
# The programs and their flags; the first of those with the same form of packets is the ceiling of the others.
CASES = {
    "null, plain": "--program null",
    "ackclock, plain": "--program ackclock",
    "null, offload": "--program null --offload",
    "ackclock, offload": "--program ackclock --offload",
    "ackclock, offload, 1 MiB buffers": "--program ackclock --offload --buffer 1048576",
    "ackclock, offload, busy polling": "--program ackclock --offload --busy-poll 200",
}
CEILINGS = {case: "null, offload" if "offload" in case else "null, plain" for case in CASES}
# The heading, and how many of the unit one count is.
SERVICES = {
    "sink": ("kernel → stack, Gbit/s", 8e-9),
    "source": ("stack → kernel, Gbit/s", 8e-9),
    "echo": ("request and response, thousand/s", 1e-3),
    "close": ("connect and close, thousand/s", 1e-3),
}
# Of the processor time, what one of them costs: the heading, the factor.
COSTS = {"sink": ("s/GB", 1e9), "source": ("s/GB", 1e9), "echo": ("µs", 1e6), "close": ("µs", 1e6)}
BUILD = "cargo build --locked --quiet --release -p ackclock-benches --bin over-tun --bin tun-peer --bin tun-null".split()
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()
KEPT = ROOT / "target/tun.jsonl"
PAGE = ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- tun: begin -->\n", "<!-- tun: end -->"
# No run takes longer than its seconds and this.
PATIENCE = 30


def main():
    args = arguments()
    if args.fresh:
        args.kept.unlink(missing_ok=True)
    lines = read(args.kept)
    if not args.write:
        measure(args, lines)
    if not lines:
        sys.exit(f"nothing is measured in {args.kept}; run scripts/tun.py first")
    text = table(lines)
    if args.write:
        write(text)
    else:
        print(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service", type=services, default=list(SERVICES), help="which, with commas between them")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--secs", type=float, default=SECONDS)
    parser.add_argument("--kept", type=pathlib.Path, default=KEPT, help="where what is measured is kept")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--programs", type=pathlib.Path, help="the folder of the programs to measure [default: a release build]")
    parser.add_argument("--write", action="store_true", help="measure nothing, write the document")
    return parser.parse_args()


def services(text: str) -> list[str]:
    words = text.split(",")
    for word in words:
        if word not in SERVICES:
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(SERVICES)}")
    return words


def read(path: pathlib.Path) -> list[dict]:
    lines = []
    for text in path.read_text().splitlines() if path.exists() else []:
        # The last line may be half of one.
        with contextlib.suppress(json.JSONDecodeError):
            lines.append(json.loads(text))
    return lines


def measure(args: argparse.Namespace, lines: list[dict]):
    there = {(line["case"], line["service"], line["round"], line["asked_seconds"]) for line in lines}
    jobs = [
        (case, service, number, args.secs)
        for number in range(1, args.rounds + 1)
        for service in args.service
        for case in CASES
    ]
    missing = [job for job in jobs if job not in there]
    say(f"{len(jobs) - len(missing)} of {len(jobs)} are there; the rest takes {len(missing) * (args.secs + 1) / 60:.0f} minutes")
    if not missing:
        return
    programs = args.programs or build()
    args.kept.parent.mkdir(parents=True, exist_ok=True)
    for number, job in enumerate(missing, 1):
        line = run(programs, *job)
        lines.append(line)
        with args.kept.open("a") as file:
            file.write(json.dumps(line) + "\n")
        heading, factor = SERVICES[job[1]]
        say(f"{number}/{len(missing)}: round {job[2]}, {job[0]}: {line['rate'] * factor:.2f} ({heading})")


def run(programs: pathlib.Path, case: str, service: str, number: int, seconds: float) -> dict:
    command = [programs / "over-tun", *CASES[case].split(), "--service", service, "--secs", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds + PATIENCE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return {"case": case, "service": service, "round": number, "asked_seconds": seconds, **json.loads(done.stdout)}


def table(lines: list[dict]) -> str:
    """A table for each service: medians with their ranges, and the medians of the ratios to the ceiling within a round."""
    cells = {}
    for line in lines:
        cells.setdefault((line["case"], line["service"]), {})[line["round"]] = line
    seconds = sorted({line["asked_seconds"] for line in lines})
    rounds = sorted({len(cell) for cell in cells.values()})
    several = lambda values: " to ".join(f"{value:g}" for value in {values[0]: 0, values[-1]: 0})
    text = [
        f"Rounds for each: {several(rounds)}, of {several(seconds)} s; {os.cpu_count()} processors, kernel "
        f"{platform.release()}, cubic on both sides, MTU 1500. The processor time is the program's for each, user and system; "
        "busy is the processors' time that program and client have had, of each second.",
    ]
    for service, (heading, factor) in SERVICES.items():
        unit, cost = COSTS[service]
        rows = []
        for case in CASES:
            mine = cells.get((case, service), {})
            if not mine:
                continue
            ceiling = cells.get((CEILINGS[case], service), {})
            ratios = [mine[number]["rate"] / ceiling[number]["rate"] for number in mine if number in ceiling]
            rows.append(
                [
                    case,
                    spread(line["rate"] * factor for line in mine.values()),
                    "" if CEILINGS[case] == case else spread(ratios),
                    spread(line["user"] / line["count"] * cost for line in mine.values()),
                    spread(line["system"] / line["count"] * cost for line in mine.values()),
                    spread((line["user"] + line["system"] + line["client"]) / line["seconds"] for line in mine.values()),
                ]
            )
        if rows:
            text += ["", f"| {heading} | measured | of null | user, {unit} | system, {unit} | busy |", "|---|---|---|---|---|---|"]
            text += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(text)


def spread(values) -> str:
    values = list(values)
    if not values:
        return "not measured"
    return f"{number(statistics.median(values))} [{number(min(values))}-{number(max(values))}]"


def number(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.2 else f"{value:.3f}"


def write(text: str):
    page = PAGE.read_text()
    if BEGIN not in page or END not in page:
        sys.exit(f"{PAGE.relative_to(ROOT)} has no place for the table: put {BEGIN.strip()} and {END} on lines of their own there")
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    PAGE.write_text(f"{head}{BEGIN}{text}\n{END}{tail}")
    say(f"written: {PAGE.relative_to(ROOT)}")


def build() -> pathlib.Path:
    subprocess.run(BUILD, cwd=ROOT, check=True)
    target = json.loads(subprocess.run(METADATA, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["target_directory"]
    return pathlib.Path(target) / "release"


def say(text: str):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; what is measured is kept, and the same command goes on")
