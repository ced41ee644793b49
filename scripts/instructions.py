#!/usr/bin/env python3
"""Counts the instructions of a segment, phase by phase, under valgrind's callgrind.

    scripts/instructions.py            prints the counts
    scripts/instructions.py --write    writes them into docs/benchmarks.md
    scripts/instructions.py --check    fails when one has grown by more than 2 % since it was written there

A count is the difference of two runs of `core-memory bulk`, divided by the segments, or acknowledgements, between them:
what happens once cancels out. Both ends are in one process, without checksums, and send two packets at a time, so the
receiver acknowledges every second segment. The program is that of a release.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- instructions: begin -->", "<!-- instructions: end -->"
BUILD = "cargo build --locked --quiet --release --package ackclock-benches --bin core-memory".split()
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()
SEGMENTS = (10_000, 20_000)
GROWTH_MAX = 1.02

# The function of benches/src/pair.rs, what it does, packets for each segment, instructions asked for, those of smoltcp 0.14.
# One acknowledgement is sent for two segments.
PHASES = [
    ("phase_rx_data", "data segment received", 1, 550, 1131),
    ("phase_rx_ack", "acknowledgement received", 0.5, 550, 742),
    ("phase_tx_data", "data segment sent", 1, 750, 1184),
    ("phase_tx_ack", "acknowledgement sent", 0.5, 400, 889),
]


def main() -> int:
    if sys.argv[1:] not in ([], ["--write"], ["--check"]):
        sys.exit(__doc__)
    text = DOCUMENT.read_text()
    head, _, rest = text.partition(BEGIN + "\n")
    table, _, tail = rest.partition(END)
    if not tail:
        sys.exit(f"{DOCUMENT}: no table between {BEGIN} and {END}")
    counts = count()
    made = "\n".join(lines(counts)) + "\n"
    print(made, end="")
    if sys.argv[1:] == ["--write"]:
        DOCUMENT.write_text(head + BEGIN + "\n" + made + END + tail)
    if sys.argv[1:] == ["--check"]:
        return check(counts, table)
    return 0


def count() -> dict[str, float]:
    """Instructions for each packet of a phase."""
    subprocess.run(BUILD, cwd=ROOT, check=True)
    target = json.loads(subprocess.run(METADATA, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["target_directory"]
    program = pathlib.Path(target) / "release/core-memory"
    less, more = (totals(program, segments) for segments in SEGMENTS)
    segments = SEGMENTS[1] - SEGMENTS[0]
    return {phase: (more[phase] - less[phase]) / (segments * share) for phase, _, share, _, _ in PHASES}


def totals(program: pathlib.Path, segments: int) -> dict[str, int]:
    """Inclusive instructions of each phase in a transfer of this many segments."""
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "callgrind"
        transfer = [program, "bulk", "--segments", str(segments), "--no-checksums", "--burst", "2"]
        run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *transfer])
        listed = run(["callgrind_annotate", "--inclusive=yes", out])
    # "34,029,428 (32.18%)  benches/src/pair.rs:ackclock_benches::pair::Bulk::phase_tx_data [core-memory]"
    found = re.findall(r"^ *([\d,]+) \([^)]*\)  \S*pair\.rs:\S*Bulk::(phase_\w+)", listed, re.MULTILINE)
    inclusive = {phase: int(instructions.replace(",", "")) for instructions, phase in found}
    missing = [phase for phase, *_ in PHASES if phase not in inclusive]
    if missing:
        sys.exit(f"callgrind knows nothing of {', '.join(missing)}")
    return inclusive


def run(command: list) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is not installed: as root on Debian, apt-get install valgrind")
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def lines(counts: dict[str, float]):
    yield f"Counted with {compiler()}."
    yield ""
    yield "| for each | instructions | asked for | smoltcp 0.14 |"
    yield "|---|---|---|---|"
    for phase, what, _, asked, smoltcp in PHASES:
        yield f"| {what} | {counts[phase]:,.0f} | {asked:,} | {smoltcp:,} |"


def compiler() -> str:
    return " ".join(run(["rustc", "--version"]).split()[:2])


def check(counts: dict[str, float], table: str) -> int:
    kept = {what: int(number.replace(",", "")) for what, number in re.findall(r"^\| ([a-z ]+) \| ([\d,]+) \|", table, re.MULTILINE)}
    grown = 0
    for phase, what, *_ in PHASES:
        if what not in kept:
            sys.exit(f"docs/benchmarks.md has no count for: {what}")
        ratio = counts[phase] / kept[what]
        if ratio > GROWTH_MAX:
            grown += 1
            print(f"{what}: {counts[phase]:,.0f} instructions, {ratio - 1:.1%} more than the {kept[what]:,} in docs/benchmarks.md", file=sys.stderr)
        elif ratio < 2 - GROWTH_MAX:
            print(f"{what}: fewer than docs/benchmarks.md says; scripts/instructions.py --write keeps it so", file=sys.stderr)
    if grown and f"Counted with {compiler()}." not in table:
        print(f"(compiled by {compiler()}; the counts there are of another compiler)", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
