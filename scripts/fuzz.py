#!/usr/bin/env python3
"""Fuzzes: runs the targets of fuzz/targets, and says how many executions a second each makes.

    scripts/fuzz.py                          every target for 10 s, on seeded random inputs; no nightly compiler needed
    scripts/fuzz.py packet --seconds 600     one target, longer; --units N: until N units are done
    scripts/fuzz.py --seed 1000000           other inputs: each has the next seed
    scripts/fuzz.py endpoint --file FILE     an input alone, which repeats a failure
    scripts/fuzz.py endpoint --file FILE --answers       prints what the endpoints answer to it, line by line
    scripts/fuzz.py packet --checked         with debug assertions: the core asks its own invariants after each step
    scripts/fuzz.py --libfuzzer              with libFuzzer instead (cargo-fuzz and a nightly compiler), from fuzz/corpus
    scripts/fuzz.py packet --redundant       names the inputs of the corpus that reach nothing that the others do not

The first input that fails is made shorter and kept in target/fuzz-failures; so is one that takes more than a second. What
libFuzzer finds is in fuzz/libfuzzer/artifacts. Inputs worth keeping go to fuzz/corpus/TARGET under a name that says why.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz/corpus"
PROJECT = ROOT / "fuzz/libfuzzer"
# Seconds of real time for an input, with the counters of coverage and debug assertions. Other runs hold each input to one.
LIBFUZZER_TIMEOUT = 5


def main() -> int:
    options = parse()
    if options.libfuzzer or options.redundant:
        targets = [options.target] if options.target else sorted(path.name for path in CORPUS.iterdir())
        return max([with_libfuzzer(target, options) for target in targets])
    profile = "test" if options.checked else "plain"
    command = ["cargo", "run", "--locked", "--quiet", "--profile", profile, "--package", "ackclock-fuzz", "--bin", "fuzz", "--"]
    command += [options.target] if options.target else []
    command += ["--answers"] if options.answers else []
    for name in ("seconds", "units", "seed", "file"):
        value = getattr(options, name)
        command += [f"--{name}", str(value)] if value is not None else []
    return subprocess.run(command, cwd=ROOT).returncode


def parse() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("target", nargs="?", choices=sorted(path.name for path in CORPUS.iterdir()))
    made.add_argument("--seconds", type=int)
    made.add_argument("--units", type=int)
    made.add_argument("--seed", type=int)
    made.add_argument("--file", type=pathlib.Path)
    made.add_argument("--answers", action="store_true")
    made.add_argument("--checked", action="store_true")
    made.add_argument("--libfuzzer", action="store_true")
    made.add_argument("--redundant", action="store_true")
    options = made.parse_args()
    if options.file is not None:
        options.file = options.file.resolve()
    return options


def with_libfuzzer(target: str, options: argparse.Namespace) -> int:
    """Runs libFuzzer on a target, beginning at the corpus. It keeps failures alone."""
    if not shutil.which("cargo-fuzz"):
        sys.exit("cargo-fuzz is not installed: cargo install cargo-fuzz; without --libfuzzer it is not needed")
    corpus = CORPUS / target
    cargo = ["cargo", "+nightly", "fuzz"]
    # What is fuzzed has no unsafe code for the address sanitizer, which takes most of the speed.
    place = ["--sanitizer", "none", "--fuzz-dir", str(PROJECT)]
    if options.redundant:
        return name_redundant([*cargo, "run", *place, target], corpus)
    if options.file is not None:
        return subprocess.run([*cargo, "run", *place, target, str(options.file)], cwd=ROOT).returncode
    with tempfile.TemporaryDirectory(prefix="fuzz-") as found:
        limits = [f"-timeout={LIBFUZZER_TIMEOUT}", f"-max_total_time={options.seconds or 10}", "-print_final_stats=1"]
        command = [*cargo, "run", *place, target, found, str(corpus), "--", *limits]
        return subprocess.run(command, cwd=ROOT).returncode


def name_redundant(run: list[str], corpus: pathlib.Path) -> int:
    """Removes nothing: the name of an input may say why it is there all the same."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as needed:
        done = subprocess.run([*run, needed, str(corpus), "--", "-merge=1"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            return done.returncode
        kept = {path.read_bytes() for path in pathlib.Path(needed).iterdir()}
    for path in sorted(corpus.iterdir()):
        if path.read_bytes() not in kept:
            print(f"{path.relative_to(ROOT)} reaches nothing new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
