#!/usr/bin/env python3
"""Runs the swarm (tests/src/swarm) for long, and makes a seed that fails small.

    scripts/swarm.py                 2,000 seeds and 10 GiB at least
    scripts/swarm.py --gib 1024      a run of days
    scripts/swarm.py --from 5000000  other seeds than the last time
    scripts/swarm.py --planted       bugs put into a copy of the tree: how many seeds until the swarm notices each
    scripts/swarm.py --planted fin-not-sent-again paws-ignored    these only

Each of `--jobs` processes (one for each processor) takes a range of seeds after another. A seed that fails is kept in
target/swarm/failed.txt and minimised: fewer events, fewer transfers, shorter ones. What remains is printed as one command
that repeats it with a trace. The run goes on to the end and then fails; so it does if a fault struck less than 100 times.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import planted

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = "cargo build --locked --quiet --profile quick -p ackclock-tests --bin swarm".split()
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()
FAULT_LEAST = 100
# Seeds that one process runs before it reports.
RANGE = 25


def main():
    options = parse()
    os.chdir(ROOT)
    if options.planted is not None:
        return planted.main(options)
    subprocess.run(BUILD, check=True)
    target = pathlib.Path(json.loads(subprocess.run(METADATA, check=True, capture_output=True).stdout)["target_directory"])
    swarm = target / "quick/swarm"
    kept = target / "swarm"
    kept.mkdir(exist_ok=True)
    total, failed = run(swarm, options)
    print(report(total))
    for seed, why in failed:
        with open(kept / "failed.txt", "a") as file:
            file.write(f"{seed}\n")
        print(f"\nseed {seed} fails: {why}\nmaking it smaller ...", flush=True)
        small = subprocess.run([swarm, "minimise", str(seed)], capture_output=True, text=True).stdout.strip()
        words = small or f"one {seed}"
        print(f"repeat it with a trace:\n    {swarm} {words} --trace {kept}/{seed}.txt")
    rare = [fault for fault, count in total["faults"].items() if count < FAULT_LEAST]
    if rare:
        print(f"struck less than {FAULT_LEAST} times: {', '.join(rare)}", file=sys.stderr)
    return 1 if failed or rare else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2000, help="the least number of seeds")
    parser.add_argument("--gib", type=float, default=10, help="and the least payload in GiB")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--planted", nargs="*", metavar="BUG", help="the bugs of tests/planted.toml, or all of them")
    parser.add_argument("--patience", type=int, default=600, help="seconds for each bug")
    return parser.parse_args()


def run(swarm, options):
    """Runs ranges of seeds until there is enough; what they did together, and the seeds that failed."""
    total = {"numbers": {}, "faults": {}}
    failed, began, said, waiting, next_seed = [], time.time(), 0, set(), options.first
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        while True:
            done = total["numbers"]
            enough = done.get("seeds", 0) >= options.seeds and done.get("GiB", 0) >= options.gib
            if enough and not waiting:
                break
            while not enough and len(waiting) < options.jobs:
                waiting.add(pool.submit(one_range, swarm, next_seed))
                next_seed += RANGE
            finished, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in finished:
                results, failures = one.result()
                failed += failures
                for result in results:
                    add(total, result)
            if time.time() > said + 60:
                said = time.time()
                print(f"{said - began:.0f} s: {done.get('seeds', 0):.0f} seeds, {done.get('GiB', 0):.2f} GiB", flush=True)
    return total, failed


def one_range(swarm, first):
    """The reports of a range of seeds, and those of them that failed: what follows one is run without it."""
    results, failures, at = [], [], first
    while at < first + RANGE:
        command = [swarm, "run", "--from", str(at), "--seeds", str(first + RANGE - at)]
        done = subprocess.run(command, capture_output=True, text=True)
        results.append(done.stdout)
        if done.returncode == 0:
            break
        seed = re.search(r"failed seed: (\d+)\n([^\n]*)", done.stderr)
        if not seed:
            raise RuntimeError(f"{command}: {done.stderr}")
        failures.append((int(seed[1]), seed[2]))
        at = int(seed[1]) + 1
    return results, failures


def add(total, output):
    """Adds what one process printed."""
    head = re.search(
        r"(\d+) seeds: (\d+) transfers over (\d+) connections, ([\d.]+) GiB compared, (\d+) packets, ([\d.]+) simulated", output
    )
    names = ["seeds", "transfers", "connections", "GiB", "packets", "simulated hours"]
    for name, number in zip(names, head.groups()):
        total["numbers"][name] = total["numbers"].get(name, 0) + float(number)
    share = re.search(r"at most (\d+) % of", output)
    total["numbers"]["most % of a bound"] = max(total["numbers"].get("most % of a bound", 0), float(share[1]))
    for fault, count in re.findall(r"^  (\w+) +(\d+)$", output, re.M):
        total["faults"][fault] = total["faults"].get(fault, 0) + int(count)


def report(total):
    lines = [f"{name}: {number:,.2f}".replace(".00", "") for name, number in total["numbers"].items()]
    lines += ["", "| fault | struck |", "|---|---|"]
    lines += [f"| {fault} | {count:,} |" for fault, count in total["faults"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
