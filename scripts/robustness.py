#!/usr/bin/env python3
"""Measures what hostile packets cost, and what honest users get beside a flood; makes the tables of docs/robustness.md.

    scripts/robustness.py            measures what is missing in target/robustness.jsonl (seven minutes, as root)
    scripts/robustness.py --rounds 1 fewer rounds; also --secs, --fresh
    scripts/robustness.py --write    measures nothing; writes what is measured into docs/robustness.md

Both victims, this stack and the kernel's TCP, have their turn in each round. A run that was interrupted goes on where it
ended. The program makes its network namespaces itself; they end with it.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from measured import ROOT, build, keep, parser, read, run as run_script, say, spread, write

KEPT = ROOT / "target/robustness.jsonl"
PAGE = ROOT / "docs/robustness.md"
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
# No run takes longer than its seconds and this.
PATIENCE = 60


def main():
    args = parser(__doc__, KEPT, ROUNDS, SECONDS).parse_args()
    if args.fresh:
        args.kept.unlink(missing_ok=True)
    lines = read(args.kept)
    if not args.write:
        measure(args, lines)
    tables = {"cost": "\n".join(cost_table(lines)), "load": "\n".join(load_table(lines))}
    for name, text in tables.items():
        if args.write:
            write(PAGE, name, text)
        else:
            print(text + "\n")


def measure(args: argparse.Namespace, lines: list[dict]):
    program = build("-p", "ackclock-benches", "--bin", "storm") / "storm"
    jobs = [("cost", ["cost", "--json"])]
    for number in range(1, args.rounds + 1):
        for flood, rate in FLOODS:
            for victim in VICTIMS:
                options = f"load --victim {victim} --flood {flood} --rate {rate} --secs {args.secs} --connects {CONNECTS}"
                jobs.append((f"round {number}, {victim}, {flood}, {rate}, {args.secs} s", options.split()))
    there = {line["key"] for line in lines}
    missing = [job for job in jobs if job[0] not in there]
    for at, (key, options) in enumerate(missing, 1):
        say(f"{at}/{len(missing)}: {key}")
        done = subprocess.run([program, *options], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=args.secs + PATIENCE)
        if done.returncode != 0:
            sys.exit(f"{key}: failed, see above; it takes root, /dev/net/tun and network namespaces")
        for text in done.stdout.splitlines():
            line = {"key": key, **json.loads(text)}
            lines.append(line)
            keep(args.kept, line)


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
            share = median(mine, "goodput") / median(quiet, "goodput") if quiet else float("nan")
            connected = sum(run["connected"] for run in mine) / sum(run["connects"] for run in mine)
            reached = median(mine, "reached") / 1e3
            cells = [name, title, f"{reached:.1f}", range_of(mine, "goodput"), f"{share:.2f}", f"{connected:.1%}"]
            yield "| " + " | ".join([*cells, range_of(mine, "connect_p50"), range_of(mine, "connect_p99")]) + " |"


def median(runs, field):
    return statistics.median(run[field] for run in runs)


def range_of(runs, field):
    return spread((run[field] for run in runs), "{:.3g}".format)


if __name__ == "__main__":
    run_script(main)
