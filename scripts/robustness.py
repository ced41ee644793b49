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

import measured
from measured import ROOT, build, parser, spread

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


def measure(args: argparse.Namespace, lines: list[dict]):
    program = build("-p", "ackclock-benches", "--bin", "storm") / "storm"
    jobs = [("cost", "cost --json")]
    for number in range(1, args.rounds + 1):
        for flood, rate in FLOODS:
            for victim in VICTIMS:
                options = f"load --victim {victim} --flood {flood} --rate {rate} --secs {args.secs} --connects {CONNECTS}"
                jobs.append((f"round {number}", options))
    there = {(line["key"], line["options"]) for line in lines}

    def run(key: str, options: str) -> list[dict]:
        command = [program, *options.split()]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=args.secs + PATIENCE)
        if done.returncode != 0:
            sys.exit(f"{options}: failed, see above; it takes root, /dev/net/tun and network namespaces")
        return [{"key": key, "options": options, **json.loads(text)} for text in done.stdout.splitlines()]

    measured.measure(args.kept, lines, jobs, there, args.secs, run, lambda line: "{key}: {options}".format(**line))


def cost_table(runs):
    return "\n".join(cost_rows(runs))


def cost_rows(runs):
    yield "| packet | mean, ns | 1 in 1,000 over, ns | worst, ns | answers to a packet | budget in use, KiB |"
    yield "|---|---|---|---|---|---|"
    for run in runs:
        if run["key"] == "cost":
            answers, memory = run["answers"] / run["packets"], run["memory"] / 1024
            numbers = f"{run['mean']:.0f} | {run['p999']:,} | {run['worst']:,} | {answers:.2f} | {memory:,.0f}"
            yield f"| {run['kind']} | {numbers} |"


def load_table(runs):
    return "\n".join(load_rows(runs))


def load_rows(runs):
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
    options = parser(__doc__, KEPT, ROUNDS, SECONDS).parse_args()
    measured.script(options, measure, PAGE, {"cost": cost_table, "load": load_table})
