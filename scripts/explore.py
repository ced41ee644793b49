#!/usr/bin/env python3
"""Explores small worlds (crates/ackclock-explore): two endpoints, few faults, few calls, in every order.

    scripts/explore.py                        10^7 states over the worlds without a Linux, a tenth as many of each of the others
    scripts/explore.py --states 1000000       fewer
    scripts/explore.py --planted              bugs put into a copy of the tree: which of them does the explorer find?
    scripts/explore.py --planted fin-not-sent-again    this one only

`--planted` builds the core and the explorer once, with all bugs of tests/planted.toml and tests/known.toml and a variable
that chooses one, and gives each world a budget of `--states`. The worlds of a Linux are left out: they vary the peer, where the bugs
are in this stack, and would take nine tenths of the time. Without a bug the same build must find nothing in as many states.
Each counterexample is also printed as a protocol test. These are compiled, and each must fail with its bug and pass without.
The exit code is 1 if something was found in the tree; with `--planted`, if a bug of tests/known.toml (which this stack once had) or more than a
third of all were not, or if a protocol test does not tell the two apart.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import planted

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "ackclock-explore"
GOOD = "tells"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, help="over all worlds: 10,000,000, or of each world with --planted 200,000")
    parser.add_argument("--planted", nargs="*", metavar="BUG", help="these bugs, or all")
    options = parser.parse_args()
    os.chdir(ROOT)
    if options.planted is not None:
        return look_for_planted(options.planted, options.states or 200_000)
    build = f"cargo build --locked --quiet --profile plain -p {PACKAGE} --message-format json-render-diagnostics".split()
    built = subprocess.run(build, check=True, capture_output=True, text=True).stdout
    program = re.findall(r'"executable":"([^"]+)"', built)[-1]
    alike, linux = names_of_worlds(program)
    # A world that has fewer states leaves the rest of its share unused, so each gets a little more. A state of a Linux's world takes
    # ten times as long.
    share = (options.states or 10_000_000) * 5 // (4 * len(alike))
    common = ["--run-out-every", "16", "--threads", str(os.cpu_count())]
    runs = [(share, alike), (share // 10, linux)]
    codes = [subprocess.run([program, "--states", str(states), *common, *worlds]).returncode for states, worlds in runs]
    # A run that a signal ended has a code below 0.
    return int(any(codes))


def names_of_worlds(program):
    """Those in which both ends are this stack, and those in which the server may act as a Linux."""
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    linux = [name for name in names if name.startswith("linux")]
    return [name for name in names if name not in linux], linux


def look_for_planted(names, states):
    known = planted.read("tests/known.toml")
    bugs = planted.read("tests/planted.toml") + known
    if unknown := set(names) - {bug["name"] for bug in bugs}:
        sys.exit(f"tests/planted.toml and tests/known.toml have no bug called {', '.join(sorted(unknown))}")
    planted.copy_tree(planted.PLACE / "tree", planted.plant(bugs))
    program = planted.build(planted.PLACE / "tree", PACKAGE, PACKAGE)
    chosen = [bug for bug in bugs if not names or bug["name"] in names]
    worlds, _ = names_of_worlds(program)
    rows = [(bug, *explore(program, bug["name"], states, worlds)) for bug in chosen]
    tests = try_tests({bug["name"]: test for bug, _, _, _, _, test in rows if test})
    print("| bug | what is wrong | found in | moves | seconds | as | protocol test |\n|---|---|---|---|---|---|---|")
    for bug, world, moves, seconds, what, test in rows:
        told = tests.get(bug["name"], "none" if world else "")
        print(f"| `{bug['name']}` | {bug['what']} | {world or 'not found'} | {moves or ''} | {seconds:.1f} | {what} | {told} |")
    missed = [bug["name"] for bug, world, *_ in rows if not world]
    good = sum(told == GOOD for told in tests.values())
    print(f"\n{len(rows) - len(missed)} of {len(rows)} found, each world with {states:,} states.")
    print(f"{good} of {len(tests)} protocol tests fail with the bug and pass without.")
    world, _, _, what, _ = explore(program, "", states, worlds)
    if world:
        sys.exit(f"and without any of them, {world} fails too: {what}")
    too_few = 3 * len(missed) > len(rows) or any(bug["name"] in missed for bug in known)
    return 1 if too_few or good < len(tests) else 0


def explore(program, bug, states, worlds):
    """The world in which the bug is found, or None; the moves, without those of the healthy network; seconds; the breach; and the
    protocol test that the counterexample becomes."""
    began = time.monotonic()
    command = [program, "--states", str(states), "--first", *worlds]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PLANTED": bug})
    seconds = time.monotonic() - began
    if done.returncode == 0:
        return None, None, seconds, "", None
    match = re.search(r"^(\S+): \d+ states to depth (\d+).*\n\1: (.*)", done.stdout, re.M)
    if not match:
        sys.exit(f"{bug}: {done.stdout}{done.stderr}")
    test = re.search(r"^use .*^}\n", done.stdout, re.M | re.S)
    if not test:
        print(*re.findall("^no protocol test.*", done.stdout, re.M), file=sys.stderr)
    print(f"{bug or 'none'}: {match[1]}, {match[2]} moves: {match[3]}", file=sys.stderr)
    return match[1], int(match[2]), seconds, match[3].replace("|", "/"), test and test[0]


def try_tests(tests):
    """How each bug's protocol test ends, with the bug and without. All are one program of the copy, which has every bug in it."""
    if not tests:
        return {}
    place = planted.PLACE / "tree/tests/script/tests/found"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    modules = {name: name.replace("-", "_") for name in tests}
    (place / "main.rs").write_text("".join(f"mod {module};\n" for module in modules.values()))
    for name, test in tests.items():
        (place / f"{modules[name]}.rs").write_text(test)
    build = "cargo test --locked --quiet --profile plain -p ackclock-test-script --test found --no-run"
    build = [*build.split(), "--message-format", "json-render-diagnostics", "--target-dir", planted.PLACE / "target"]
    built = subprocess.run(build, cwd=planted.PLACE / "tree", check=True, stdout=subprocess.PIPE, text=True).stdout
    program = re.findall(r'"executable":"([^"]+)"', built)[-1]
    return {name: verdict(program, module, name) for name, module in modules.items()}


def verdict(program, module, bug):
    def passed(planted_bug):
        """How many of the tests pass, of how many."""
        done = subprocess.run([program, f"{module}::"], capture_output=True, text=True, env=os.environ | {"PLANTED": planted_bug})
        ended = re.search(r"(\d+) passed; (\d+) failed", done.stdout)
        return int(ended[1]), int(ended[1]) + int(ended[2])

    (left, of), (healthy, _) = passed(bug), passed("")
    if left == 0 and healthy == of > 0:
        return GOOD
    return f"{left} of {of} pass with the bug, {healthy} without"


if __name__ == "__main__":
    sys.exit(main())
