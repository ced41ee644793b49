#!/usr/bin/env python3
"""Measures what hostile packets cost, what honest users get beside a flood, and what many connections cost; makes the tables
of docs/robustness.md.

    scripts/robustness.py            measures what is missing in target/robustness.jsonl (a quarter of an hour, as root)
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
# The flood, packets a second, and whether they go to a device without a reader.
FLOODS = {
    ("syn", 0): "none",
    ("syn", 100_000, "--aside"): "100,000 SYN/s to a device without a reader",
    ("syn", 50_000): "50,000 SYN/s",
    ("syn", 100_000): "100,000 SYN/s",
    ("ack", 100_000): "100,000 ACK/s",
    ("syn-ack", 100_000): "100,000 SYN-ACK/s",
    ("rst", 100_000): "100,000 RST/s in the transfer's name",
    ("icmp", 100_000): "100,000 ICMP errors/s about the transfer",
    ("crumb", 50_000): "50,000 crumbs/s, 64 connections",
    ("sack", 50_000): "50,000 SACKs/s, 64 connections",
    ("tiny", 50_000): "50,000 bytes/s, MSS 1, 64 connections",
}
# Connections of `storm many`, and requests a second on one of a hundred of them.
MANY = {"10k": (10_000, 500), "100k": (100_000, 5_000)}
MANY_SECONDS = 20
# No run takes longer than its seconds and this.
PATIENCE = 60
MANY_PATIENCE = 300


def measure(args: argparse.Namespace, lines: list[dict]):
    program = build("-p", "ackclock-benches", "--bin", "storm", "--bin", "tun-peer") / "storm"
    jobs = [("cost", "cost --json")]
    for connections, rate in MANY.values():
        jobs.append(("many", f"many --connections {connections} --rate {rate} --secs {MANY_SECONDS}"))
    for number in range(1, args.rounds + 1):
        for flood, rate, *aside in FLOODS:
            for victim in VICTIMS:
                options = f"load --victim {victim} --flood {flood} --rate {rate} --secs {args.secs} --connects {CONNECTS}"
                jobs.append((f"round {number}", " ".join([options, *aside])))
    there = {(line["key"], line["options"]) for line in lines}

    def run(key: str, options: str) -> list[dict]:
        command = [program, *options.split()]
        patience = MANY_PATIENCE if key == "many" else args.secs + PATIENCE
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=patience)
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


def many_table(runs):
    return "\n".join(many_rows(runs))


def many_rows(runs):
    rows = {run["connections"]: run for run in runs if run["key"] == "many"}
    if not rows:
        yield "Not measured yet."
        return
    yield "| | " + " | ".join(f"{connections:,}" for connections in rows) + " |"
    yield "|---" * (len(rows) + 1) + "|"
    for title, write in MANY_LINES.items():
        yield f"| {title} | " + " | ".join(write(run) for run in rows.values()) + " |"


MANY_LINES = {
    "open at the end": lambda run: f"{run['open']:,}",
    "attempts to open one that failed": lambda run: f"{run['failed']:,}",
    "opened in, s": lambda run: f"{run['open_seconds']:.1f}",
    "processor time to open one, stack / clients and kernel, µs": lambda run: f"{run['open_cpu']:.0f} / {run['open_cpu_client']:.0f}",
    "resident for each, at rest, bytes": lambda run: f"{run['resident']:,.0f}",
    "stack's processor time at rest, of one": lambda run: f"{run['idle_cpu']:.1%}",
    "with traffic": lambda run: f"{run['busy']:,}",
    "requests a second": lambda run: f"{run['rate']:,.0f}",
    "processor time with traffic, stack / clients and kernel, of one": lambda run: f"{run['busy_cpu']:.0%} / {run['busy_cpu_client']:.0%}",
    "request p50, ms": lambda run: f"{run['p50']:.2f}",
    "request p99, ms": lambda run: f"{run['p99']:.2f}",
    "request p99.9, ms": lambda run: f"{run['p999']:.2f}",
    "worst request, ms": lambda run: f"{run['worst']:.1f}",
    "requests without an answer": lambda run: f"{run['unanswered']:,}",
}


def load_table(runs):
    return "\n".join(load_rows(runs))


def load_rows(runs):
    yield "| flood | victim | of it reached, k/s | goodput, Gbit/s | of the unflooded | connected | p50, ms | p99, ms |"
    yield "|---|---|---|---|---|---|---|---|"
    for (flood, rate, *aside), name in FLOODS.items():
        for victim, title in VICTIMS.items():
            wanted = (victim, flood, rate, bool(aside))
            mine = [run for run in runs if tuple(map(run.get, ("victim", "flood", "rate", "aside"))) == wanted]
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
    measured.script(options, measure, PAGE, {"cost": cost_table, "load": load_table, "many": many_table})
