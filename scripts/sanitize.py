#!/usr/bin/env python3
"""Looks for what tests do not see: lost wake-ups, data races, memory errors, undefined behaviour.

    scripts/sanitize.py                 runs everything
    scripts/sanitize.py models miri     runs these
    scripts/sanitize.py --list          says what there is

Needs a nightly toolchain with the components miri and rust-src for all but the models:

    rustup toolchain install nightly --component miri --component rust-src

and root, or user namespaces, for the device's tests, which make network namespaces and TUN devices. Each tool builds
everything for itself, in a folder of its own under target/. What cannot be run here is named with its reason, and the
exit code is 1 only if something that was run has failed.

What no tool here looks at: the device's system calls under Miri, which knows no TUN devices, packet sockets or netlink
(the address sanitizer runs them); examples, benches and the programs tcpcat and tcplab, which contain no unsafe code and
share nothing between threads but by this crate's handles.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOST = "x86_64-unknown-linux-gnu"
BUILD_STD = ["-Zbuild-std", "--target", HOST]


@dataclasses.dataclass
class Run:
    """One tool over one set of tests."""

    name: str
    what: str
    command: list
    env: dict = dataclasses.field(default_factory=dict)
    needs: tuple = ()


def miri(crate, filters, left_out=()):
    """Property tests run few cases: an interpreted one takes a thousand times as long. So tests that try tens of thousands
    of inputs are left out."""
    chosen = " ".join(filters) or "all unit tests"
    skips = [word for name in left_out for word in ("--skip", name)]
    return Run(
        name=f"miri-{crate}",
        what=f"undefined behaviour in ackclock-{crate}, interpreted: {chosen}{f' but {len(left_out)}' if left_out else ''}",
        command=["cargo", "+nightly", "miri", "test", "-p", f"ackclock-{crate}", "--lib", "--", *filters, *skips],
        env={"MIRIFLAGS": "-Zmiri-disable-isolation", "PROPTEST_CASES": "2", "CARGO_TARGET_DIR": "target/miri"},
        needs=("nightly", "miri", "rust-src"),
    )


def sanitizer(kind, what, build_std, tests, env):
    """One of the compiler's, over tests that are built with it."""
    std = BUILD_STD if build_std else ["--target", HOST]
    return Run(
        name=kind,
        what=what,
        command=["cargo", "+nightly", "test", *std, *tests],
        env={
            "RUSTFLAGS": f"-Zsanitizer={kind} -Cunsafe-allow-abi-mismatch=sanitizer",
            "CARGO_TARGET_DIR": f"target/{kind}",
            "CARGO_PROFILE_TEST_OPT_LEVEL": "1",
            **env,
        },
        needs=("nightly", "rust-src") if build_std else ("nightly",),
    )


RUNS = [
    Run(
        name="models",
        what="lost wake-ups and deadlocks of whole stacks, under shuttle's scheduler",
        command=["cargo", "test", "-p", "ackclock", "--lib", "models::"],
        env={"RUSTFLAGS": "--cfg ackclock_shuttle", "CARGO_TARGET_DIR": "target/models"},
    ),
    miri(
        "wire",
        [],
        left_out=(
            "every_kind_and_length_at_every_offset_is_skipped_or_refused",
            "v4_options_are_skipped_but_source_routes_refused",
        ),
    ),
    miri("control", ["rate::", "rtt::ticks::", "congestion::window::", "congestion::reno::", "bandwidth::"]),
    miri(
        "core",
        ["buffer::", "position::", "budget::", "endpoint::demux::", "endpoint::slots::", "endpoint::queue::"],
        left_out=(
            "buffers_go_as_before",
            "sec_b2_crafted_names_make_no_long_chain",
            "when_all_ranges_are_in_use_only_segments_that_touch_one_are_taken",
        ),
    ),
    # Without the devices of the operating system, whose calls Miri does not know.
    miri(
        "device",
        ["batch::", "memory::", "vnet::", "framing::", "several::", "impair::lane::", "raw::filter::", "configure::cidr::"],
    ),
    sanitizer(
        "address",
        "memory errors and leaks in the device crate and the API tests",
        False,
        ["-p", "ackclock-device", "-p", "ackclock", "--lib", "--tests"],
        {"ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1"},
    ),
    sanitizer(
        "thread",
        "data races in the device crate and the API tests; the standard library is built with it, or its locks were unknown",
        True,
        ["-p", "ackclock-device", "-p", "ackclock", "--lib", "--tests"],
        {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
    ),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", help="names, or their beginnings; all if none is given")
    parser.add_argument("--list", action="store_true", help="says what there is")
    options = parser.parse_args()
    if options.list:
        for run in RUNS:
            print(f"{run.name:<14} {run.what}")
        return 0
    unknown = [word for word in options.which if not any(run.name.startswith(word) for run in RUNS)]
    if unknown:
        parser.error(f"no such run: {' '.join(unknown)}; --list shows all")
    chosen = [run for run in RUNS if not options.which or any(run.name.startswith(word) for word in options.which)]
    results = [(run, *perform(run)) for run in chosen]
    print("\n| run | outcome | looks for |\n|---|---|---|")
    for run, _, outcome in results:
        print(f"| {run.name} | {outcome} | {run.what} |")
    return 1 if any(failed for _, failed, _ in results) else 0


def perform(run):
    """Whether it failed, and what came of it."""
    lacks = [why for need in run.needs if (why := missing(need))]
    if lacks:
        print(f"not run: {run.name}: {'; '.join(lacks)}", flush=True)
        return False, f"not run: {'; '.join(lacks)}"
    print(f"=== {run.name}: {run.what}\n{shell(run)}", flush=True)
    began = time.monotonic()
    passed, own, process = 0, 0.0, subprocess.Popen(
        run.command, cwd=ROOT, env=os.environ | run.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for line in process.stdout:
        print(line, end="", flush=True)
        if counted := re.match(r"test result: \w+\. (\d+) passed.* finished in ([\d.]+)s", line):
            passed, own = passed + int(counted[1]), own + float(counted[2])
    failed = process.wait() != 0
    seconds = time.monotonic() - began
    if not failed and passed == 0:
        return True, "failed: it ran no test"
    return failed, f"{'failed' if failed else 'passed'}, {passed} tests passed in {own:.0f} s, {seconds:.0f} s with the build"


def shell(run):
    """The command as one would type it."""
    env = [f"{name}='{value}'" for name, value in run.env.items()]
    return " ".join([*env, *run.command])


def missing(need):
    """Why something cannot be used, or nothing."""
    if need == "nightly":
        command = ["rustc", "+nightly", "--version"]
    else:
        command = ["rustup", "component", "list", "--toolchain", "nightly", "--installed"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{command[0]} cannot be run: {error}"
    if said.returncode != 0:
        return "no nightly toolchain is installed"
    if need != "nightly" and not re.search(rf"^{need}\b", said.stdout, re.MULTILINE):
        return f"the nightly toolchain lacks the component {need}"
    return None


if __name__ == "__main__":
    sys.exit(main())
