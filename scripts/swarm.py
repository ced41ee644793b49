#!/usr/bin/env python3
"""Runs the swarm (tests/src/swarm) for long, and makes a seed that fails small.

    scripts/swarm.py                 2,000 seeds and 10 GiB at least
    scripts/swarm.py --gib 1024      a run of days
    scripts/swarm.py --from 5000000  other seeds than the last time
    scripts/swarm.py --planted       bugs put into a copy of the tree: how many seeds until the swarm notices each
    scripts/swarm.py --planted fin-not-sent-again paws-ignored    these only

Each of `--jobs` processes (one for each processor) takes a range of seeds after another. A seed that fails
is kept in target/swarm/failed.txt at once, and minimised at the end: fewer events, fewer transfers, shorter
ones. What remains is printed as one command that repeats it with a trace. A run that is interrupted prints
the commands without minimising; an interrupted minimisation prints the smallest one so far. The exit code
is 1 if a seed failed or a fault struck less than 100 times, and 130 after an interruption.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

import planted

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = "cargo build --locked --quiet --profile plain -p ackclock-tests --bin swarm".split()
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()
FAULT_LEAST = 100
# Seeds that one process runs before it reports.
RANGE = 25


def main():
    options = parse()
    os.chdir(ROOT)
    if options.planted is not None:
        return planted.main(options)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    subprocess.run(BUILD, check=True)
    target = pathlib.Path(json.loads(subprocess.run(METADATA, check=True, capture_output=True).stdout)["target_directory"])
    swarm = Swarm(target, options.patience)
    total, interrupted = {"numbers": {}, "faults": {}}, False
    try:
        run(swarm, options, total)
    except KeyboardInterrupt:
        interrupted = True
        swarm.stop()
    print(report(total))
    for seed, why in swarm.failed:
        print(f"\nseed {seed} fails: {why}", flush=True)
        words, interrupted = (f"one {seed}", True) if interrupted else swarm.minimise(seed)
        print(f"repeat it with a trace:\n    {swarm.keep_command(seed, words)}", flush=True)
    if interrupted:
        print("\ninterrupted", file=sys.stderr)
        return 130
    rare = [fault for fault, count in total["faults"].items() if count < FAULT_LEAST]
    if rare:
        print(f"struck less than {FAULT_LEAST} times: {', '.join(rare)}", file=sys.stderr)
    return 1 if swarm.failed or rare else 0


class Swarm:
    """The program, its processes, and the seeds that failed."""

    def __init__(self, target, patience):
        self.program, self.kept, self.patience = target / "plain/swarm", target / "swarm", patience
        self.kept.mkdir(exist_ok=True)
        self.failed, self.running, self.stopped, self.lock = [], set(), False, threading.Lock()

    def run(self, *words):
        """What the program printed, and whether all went well. It is killed if it takes too long."""
        command = [self.program, *map(str, words)]
        with self.lock:
            if self.stopped:
                return "", "", True
            # In a session of its own, so that an interruption from the terminal reaches this script alone.
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)
            self.running.add(process)
        try:
            out, err = process.communicate(timeout=self.patience)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += f"\nkilled after {self.patience} s"
        with self.lock:
            self.running.discard(process)
            return out, err, self.stopped or process.returncode == 0

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.kill()

    def fails(self, seed, why):
        """Kept at once: the run may be interrupted."""
        with self.lock, open(self.kept / "failed.txt", "a") as file:
            self.failed.append((seed, why))
            file.write(f"{seed}: {why}\n")

    def minimise(self, seed):
        """The options of the smallest run that still fails, and whether it was interrupted. A seed that
        crashes the program, or hangs, ends its minimisation, too: what was found until then remains."""
        print("making it smaller ...", flush=True)
        command = [self.program, "minimise", str(seed)]
        words, pipes = f"one {seed}", {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:
            limit = threading.Timer(self.patience, process.kill)
            limit.start()
            try:
                for line in process.stderr:
                    if smaller := re.match(r"still fails: (.*)", line):
                        words = smaller[1]
            except KeyboardInterrupt:
                process.kill()
                return words, True
            finally:
                limit.cancel()
        return words, False

    def keep_command(self, seed, words):
        """The command that repeats a seed from any folder. It is kept, too."""
        trace = shlex.quote(str(self.kept / f"{seed}.txt"))
        command = f"{shlex.quote(str(self.program))} {words} --trace {trace}"
        with open(self.kept / "failed.txt", "a") as file:
            file.write(f"    {command}\n")
        return command


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2000, help="the least number of seeds")
    parser.add_argument("--gib", type=float, default=10, help="and the least payload in GiB")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--planted", nargs="*", metavar="BUG", help="the bugs of tests/planted.toml, or all of them")
    parser.add_argument("--patience", type=int, default=600, help="seconds for a bug, a range, or to minimise")
    return parser.parse_args()


def run(swarm, options, total):
    """Runs ranges of seeds until there is enough; adds up what they did."""
    done, began, said, waiting, next_seed = total["numbers"], time.time(), 0, set(), options.first
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    try:
        while True:
            enough = done.get("seeds", 0) >= options.seeds and done.get("GiB", 0) >= options.gib
            if enough and not waiting:
                break
            while not enough and len(waiting) < options.jobs:
                waiting.add(pool.submit(one_range, swarm, next_seed))
                next_seed += RANGE
            finished, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in finished:
                for result in one.result():
                    add(total, result)
            if time.time() > said + 60:
                said = time.time()
                print(f"{said - began:.0f} s: {done.get('seeds', 0):.0f} seeds, {done.get('GiB', 0):.2f} GiB", flush=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def one_range(swarm, first):
    """The reports of a range of seeds. What follows one that fails is run without it."""
    results, at = [], first
    while at < first + RANGE:
        out, err, passed = swarm.run("run", "--from", at, "--seeds", first + RANGE - at)
        if passed or (seed := re.search(r"failed seed: (\d+)\n([^\n]*)", err)):
            results.append(out)
            if passed:
                break
            swarm.fails(int(seed[1]), seed[2])
            at = int(seed[1]) + 1
            continue
        # It ended without a word, or never: which seed did that is found by running each alone.
        while at < first + RANGE:
            out, err, passed = swarm.run("one", at)
            if passed:
                results.append(out)
            else:
                swarm.fails(at, (err.strip() or "it ended without a word").split("\n")[-1])
            at += 1
    return results


def add(total, output):
    """Adds what one process printed."""
    head = re.search(
        r"(\d+) seeds: (\d+) transfers over (\d+) connections, ([\d.]+) GiB compared, (\d+) packets, ([\d.]+) simulated", output
    )
    if not head:
        return
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
