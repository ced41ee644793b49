#!/usr/bin/env python3
"""Keeps a stack busy with everything at once, and looks for what is left: memory, descriptors, tasks, connections, timers.

    scripts/soak.py                  twelve minutes, and four to warm up and to come to rest (as root)
    scripts/soak.py --minutes 3      shorter
    scripts/soak.py --profile test   with debug assertions: every invariant is checked after every step

Fails when something has leaked, hung or come out wrong; a seed repeats what chance decided. The network namespace ends with
the program.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from measured import METADATA, ROOT

# Coming to rest twice, and warming up.
BESIDE = 240
PATIENCE = 120


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=12)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--profile", default="release", help="of cargo [default: release]")
    args = options.parse_args()
    program = build(args.profile)
    command = [program, "--minutes", str(args.minutes), "--seed", str(args.seed)]
    print(f"seed {args.seed}: {args.minutes:g} minutes, and four beside", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(command, timeout=args.minutes * 60 + BESIDE + PATIENCE)
    except subprocess.TimeoutExpired:
        sys.exit(f"the soak hangs; again: scripts/soak.py --minutes {args.minutes:g} --seed {args.seed}")
    sys.exit(done.returncode)


def build(profile: str) -> pathlib.Path:
    """Builds the program and gives its path."""
    command = ["cargo", "build", "--locked", "--quiet", "--profile", profile, "-p", "ackclock-benches", "--bin", "soak"]
    subprocess.run(command, cwd=ROOT, check=True)
    found = subprocess.run(METADATA, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    folder = "debug" if profile in ("dev", "test") else profile
    return pathlib.Path(json.loads(found)["target_directory"]) / folder / "soak"


if __name__ == "__main__":
    main()
