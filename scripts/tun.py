#!/usr/bin/env python3
"""Measures this stack over TUN against the kernel's TCP, beside a responder without a TCP's work, and makes the table of it.

    scripts/tun.py                    measures what is missing in target/tun.jsonl (as root, in an hour)
    scripts/tun.py --service many-source,beside-source
                                      only 1 to 1,000 connections on one thread of the client, and an echo beside them
    scripts/tun.py --service sink     only this; also --rounds, --secs, --fresh, --programs
    scripts/tun.py --peer 'smoltcp, plain=/path/smol --buf 4194304'
                                      measures another stack, too: a name, and the command of a program that creates device
                                      pft0 with 10.77.0.1/24, owns 10.77.0.2 and serves what target/release/tun-peer serves;
                                      "plain" in the name compares it with the plain null
    scripts/tun.py --write            measures nothing; writes what is measured into docs/benchmarks.md

Each run makes a network of its own, which ends with it. Rounds are the outer loop, and in each every program has its turn in
every service. A run that was interrupted goes on where it ended.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys

import measured
from measured import ROOT, build, parser, spread, words_of

ROUNDS = 5
SECONDS = 4
# The programs and their flags; the first of those with the same form of packets is the ceiling of the others.
CASES = {
    "null, plain": "--program null",
    "ackclock, plain": "--program ackclock",
    "null, offload": "--program null --offload",
    "ackclock, offload": "--program ackclock --offload",
    "ackclock, offload, 1 MiB buffers": "--program ackclock --offload --buffer 1048576",
    "ackclock, offload, zero copy": "--program ackclock --offload --zerocopy",
    "ackclock, offload, busy polling": "--program ackclock --offload --busy-poll 200",
    "ackclock, offload, two flows": "--program ackclock --offload --flows 2",
    "the same, two queues": "--program ackclock --offload --flows 2 --queues 2",
}
KERNEL = "kernel, veth"
# Measured with many connections on one thread of the client, and with one-byte round trips beside them, like any peer.
MANY_CASES = {"ackclock, offload": "--program ackclock --offload", KERNEL: "--program kernel"}
MANY_FLOWS = (1, 10, 100, 1000)
# The heading, and how many of the unit one count is.
SERVICES = {
    "sink": ("kernel → stack, Gbit/s", 8e-9),
    "source": ("stack → kernel, Gbit/s", 8e-9),
    "echo": ("request and response, thousand/s", 1e-3),
    "close": ("connect and close, thousand/s", 1e-3),
}
# What all connections do, and the heading.
MANY = {
    "many-sink": ("sink", "kernel → stack, Gbit/s"),
    "many-source": ("source", "stack → kernel, Gbit/s"),
    "many-echo": ("echo", "request and response, thousand/s"),
}
# What the others do, and how it is called.
BESIDE = {
    "beside-source": ("source", "the stack sends on the others"),
    "beside-sink": ("sink", "the others send to the stack"),
}
# Of the processor time, what one of them costs: the heading, the factor.
COSTS = {"sink": ("s/GB", 1e9), "source": ("s/GB", 1e9), "echo": ("µs", 1e6), "close": ("µs", 1e6)}
BUILD = "-p ackclock-benches --bin over-tun --bin tun-peer --bin tun-null --bin tun-kernel".split()
KEPT = ROOT / "target/tun.jsonl"
PAGE = ROOT / "docs/benchmarks.md"
# No run takes longer than its seconds and this.
PATIENCE = 30


def arguments() -> argparse.Namespace:
    options = parser(__doc__, KEPT, ROUNDS, SECONDS)
    every = SERVICES | MANY | BESIDE
    options.add_argument("--service", type=words_of(every), default=list(every), help="which, with commas between them")
    options.add_argument("--programs", type=pathlib.Path, help="the folder of the programs to measure [default: a release build]")
    options.add_argument("--peer", type=peer_of, action="append", default=[], metavar="NAME=COMMAND", help="measure another stack, too")
    return options.parse_args()


def peer_of(text: str) -> tuple[str, str]:
    name, equals, command = text.partition("=")
    if not (name and equals and command):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name, an equals sign and a command")
    if name in CASES or name in MANY_CASES:
        raise argparse.ArgumentTypeError(f"there is a case {name!r} already; choose another name")
    return name, f"--command={command}"


def measure(args: argparse.Namespace, lines: list[dict]):
    there = {(line["case"], line["service"], line["round"], line["asked_seconds"]) for line in lines}
    peers = dict(args.peer)
    flags = {service: CASES | {KERNEL: MANY_CASES[KERNEL]} | peers for service in SERVICES}
    flags |= {service: MANY_CASES | peers for service in (MANY | BESIDE)}
    jobs = [
        (named(case, flows), service, number, args.secs)
        for number in range(1, args.rounds + 1)
        for service in args.service
        for flows in ([None] if service in SERVICES else MANY_FLOWS)
        for case in flags[service]
    ]
    programs = args.programs or build(*BUILD)
    describe = lambda line: "{case}, {service}, round {round}".format(**line)
    job = lambda *job: [run(programs, flags, *job)]
    measured.measure(args.kept, lines, jobs, there, args.secs, job, describe)


def named(case: str, flows: int | None) -> str:
    """The name of a row: a case of one connection, or of many."""
    return case if flows is None else f"{case}, {flows:,} flows"


def run(programs: pathlib.Path, flags: dict, name: str, service: str, number: int, seconds: float) -> dict:
    about = {"case": name, "service": service, "round": number, "asked_seconds": seconds}
    case, flows = (name, None) if service in SERVICES else name.removesuffix(" flows").rsplit(", ", 1)
    # A command is one word.
    words = flags[service][case]
    words = [words] if words.startswith("--command=") else words.split()
    if flows is None:
        return about | over_tun(programs, [*words, "--service", service], seconds)
    what = (MANY | BESIDE)[service][0]
    words += ["--service", what, "--together", "--flows", flows.replace(",", "")]
    alone = over_tun(programs, words, seconds)
    if service in MANY:
        return about | alone
    return about | over_tun(programs, [*words, "--echo-beside"], seconds) | {"alone_rate": alone["rate"]}


def over_tun(programs: pathlib.Path, flags: list[str], seconds: float) -> dict:
    command = [programs / "over-tun", *flags, "--secs", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds + PATIENCE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def table(lines: list[dict]) -> str:
    """A table for each service: medians with their ranges, and the medians of the ratios to the ceiling within a round."""
    cells = {}
    for line in lines:
        cells.setdefault((line["case"], line["service"]), {})[line["round"]] = line
    seconds = sorted({line["asked_seconds"] for line in lines})
    rounds = sorted({len(cell) for cell in cells.values()})
    several = lambda values: " to ".join(f"{value:g}" for value in {values[0]: 0, values[-1]: 0})
    ceiling_of = lambda case: "null, plain" if "plain" in case else "null, offload"
    rows_of = lambda service: dict.fromkeys(line["case"] for line in lines if line["service"] == service)
    text = [
        f"Rounds for each: {several(rounds)}, of {several(seconds)} s; {os.cpu_count()} processors, kernel "
        f"{platform.release()}, cubic on both sides, MTU 1500. The processor time is the program's for each, user and system; "
        "busy is the processors' time that program and client have had, of each second.",
    ]
    for service, (heading, factor) in SERVICES.items():
        unit, cost = COSTS[service]
        rows = []
        for case in rows_of(service):
            mine = cells[case, service]
            ceiling = cells.get((ceiling_of(case), service), {})
            ratios = [mine[turn]["rate"] / ceiling[turn]["rate"] for turn in mine if turn in ceiling]
            rows.append(
                [
                    case,
                    spread((line["rate"] * factor for line in mine.values()), number),
                    "" if ceiling_of(case) == case else spread(ratios, number),
                    spread((line["user"] / line["count"] * cost for line in mine.values()), number),
                    spread((line["system"] / line["count"] * cost for line in mine.values()), number),
                    spread(((line["user"] + line["system"] + line["client"]) / line["seconds"] for line in mine.values()), number),
                ]
            )
        if rows:
            text += ["", f"| {heading} | measured | of null | user, {unit} | system, {unit} | busy |", "|---|---|---|---|---|---|"]
            text += ["| " + " | ".join(row) + " |" for row in rows]
    for service, (what, heading) in MANY.items():
        factor, (unit, cost) = SERVICES[what][1], COSTS[what]
        rows = [[case, *together(cells[case, service].values(), factor, cost)] for case in rows_of(service)]
        waits = "median, µs | 99 %, µs" if what == "echo" else "Jain's index"
        if rows:
            text += ["", f"| {heading} | measured | processor, {unit} | {waits} |", "|---|---|---|" + "---|" * (waits.count("|") + 1)]
            text += ["| " + " | ".join(row) + " |" for row in rows]
    for service, (_, heading) in BESIDE.items():
        rows = [[case, *beside(cells[case, service].values())] for case in rows_of(service)]
        if rows:
            text += ["", f"| echo of a byte, {heading} | median, µs | 99 %, µs | longest, ms | others, Gbit/s | of without the echo |"]
            text += ["|---|---|---|---|---|---|", *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join(text)


def together(turns, factor: float, cost: float) -> list[str]:
    """The cells of a row: the rate of all, the program's processor time for each, and how evenly, or how long, they were served."""
    turns = list(turns)
    cells = [
        spread((line["rate"] * factor for line in turns), number),
        spread(((line["user"] + line["system"]) / line["count"] * cost for line in turns), number),
    ]
    if turns[0]["p50_us"] > 0:
        return [*cells, spread((line["p50_us"] for line in turns), number), spread((line["p99_us"] for line in turns), number)]
    return [*cells, spread((line["jain"] for line in turns), lambda value: f"{value:.3f}")]


def beside(turns) -> list[str]:
    """The cells of a row: how long round trips took, and what the others carried."""
    turns = list(turns)
    return [
        spread((line["p50_us"] for line in turns), number),
        spread((line["p99_us"] for line in turns), number),
        spread((line["max_us"] / 1e3 for line in turns), number),
        spread((line["bulk_rate"] * 8e-9 for line in turns), number),
        spread((line["bulk_rate"] / line["alone_rate"] for line in turns), number),
    ]


def number(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.2 else f"{value:.3f}"


if __name__ == "__main__":
    measured.script(arguments(), measure, PAGE, {"tun": table})
