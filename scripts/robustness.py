#!/usr/bin/env python3
"""Measures what hostile packets cost, and what honest users get beside a flood; makes the tables of docs/robustness.md.

    scripts/robustness.py            measures what is missing in target/robustness.jsonl (six minutes, as root)
    scripts/robustness.py --fresh    forgets what was measured before
    scripts/robustness.py --write    measures nothing; writes what is measured into docs/robustness.md

Both victims, this stack and the kernel's TCP, have their turn in each round. A run that was interrupted goes on where it
ended. The program makes its network namespaces itself; they end with it.
"""

import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "target/robustness.jsonl"
PAGE = ROOT / "docs/robustness.md"
MARKS = {name: (f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->") for name in ("cost", "load")}
ROUNDS = 5
SECONDS = 6
CONNECTS = 500
VICTIMS = {"ackclock": "ackclock, TUN", "linux": "Linux, veth"}
# The flood and packets a second.
FLOODS = {
    ("syn", 0): "none",
    ("syn", 50_000): "50,000 SYN/s",
    ("syn", 100_000): "100,000 SYN/s",
    ("ack", 100_000): "100,000 ACK/s",
    ("syn-ack", 100_000): "100,000 SYN-ACK/s",
}
BUILD = "cargo build --locked --quiet --release -p ackclock-benches --bin storm".split()
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()


def main():
    if sys.argv[1:] not in ([], ["--fresh"], ["--write"]):
        sys.exit(__doc__)
    if "--fresh" in sys.argv:
        KEPT.unlink(missing_ok=True)
    if "--write" not in sys.argv:
        measure()
    runs = kept()
    tables = {"cost": list(cost_table(runs)), "load": list(load_table(runs))}
    for table in tables.values():
        print("\n".join(table) + "\n")
    if "--write" in sys.argv:
        write(tables)


def kept():
    return [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []


def measure():
    subprocess.run(BUILD, cwd=ROOT, check=True)
    found = subprocess.run(METADATA, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    program = pathlib.Path(json.loads(found)["target_directory"]) / "release/storm"
    there = [run.get("key") for run in kept()]
    keep(there, "cost", [program, "cost", "--json"])
    for number in range(ROUNDS):
        for flood, rate in FLOODS:
            for victim in VICTIMS:
                options = f"--victim {victim} --flood {flood} --rate {rate} --secs {SECONDS} --connects {CONNECTS}"
                keep(there, f"{number} {victim} {flood} {rate}", [program, "load", *options.split()])


def keep(there, key, command):
    if key in there:
        return
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{key}: failed, see above; as root it needs /dev/net/tun and network namespaces")
    with KEPT.open("a") as file:
        for line in done.stdout.splitlines():
            file.write(json.dumps({"key": key, **json.loads(line)}) + "\n")
    print(key, file=sys.stderr)


def cost_table(runs):
    yield "| packet | mean, ns | 1 in 1,000 over, ns | worst, ns | answers to a packet | budget in use, KiB |"
    yield "|---|---|---|---|---|---|"
    for run in runs:
        if run["key"] == "cost":
            answers, memory = run["answers"] / run["packets"], run["memory"] / 1024
            numbers = f"{run['mean']:.0f} | {run['p999']:,} | {run['worst']:,} | {answers:.2f} | {memory:,.0f}"
            yield f"| {run['kind']} | {numbers} |"


def load_table(runs):
    yield "| flood | victim | of it reached, k/s | goodput, Gbit/s | of the unflooded | connected | p50, ms | p99, ms |"
    yield "|---|---|---|---|---|---|---|---|"
    for (flood, rate), name in FLOODS.items():
        for victim, title in VICTIMS.items():
            mine = [run for run in runs if (run.get("victim"), run.get("flood"), run.get("rate")) == (victim, flood, rate)]
            if not mine:
                continue
            quiet = [run for run in runs if (run.get("victim"), run.get("rate")) == (victim, 0)]
            share = middle(mine, "goodput")[0] / middle(quiet, "goodput")[0] if quiet else float("nan")
            connected = sum(run["connected"] for run in mine) / sum(run["connects"] for run in mine)
            reached = middle(mine, "reached")[0] / 1e3
            cells = [name, title, f"{reached:.1f}", spread(mine, "goodput"), f"{share:.2f}", f"{connected:.1%}"]
            yield "| " + " | ".join([*cells, spread(mine, "connect_p50"), spread(mine, "connect_p99")]) + " |"


def middle(runs, field):
    values = [run[field] for run in runs]
    return statistics.median(values), min(values), max(values)


def spread(runs, field):
    median, least, most = middle(runs, field)
    return f"{median:.3g} [{least:.3g}-{most:.3g}]"


def write(tables):
    text = PAGE.read_text()
    for name, table in tables.items():
        begin, end = MARKS[name]
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            sys.exit(f"{PAGE}: no table between {begin.strip()} and {end}")
        text = head + begin + "\n".join(table) + "\n" + end + tail
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
