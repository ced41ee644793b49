#!/usr/bin/env python3
"""Measures gateways from a TUN device to a SOCKS5 proxy beside each other: ours, and those whose programs are given.

    scripts/gateways.py [--rounds N] [--controller cubic|bbr] [sing-box=PATH] [sing-box-gvisor=PATH] [tun2proxy=PATH]

    scripts/gateways.py --checks [sing-box=PATH] ..    # only what each does right, of eleven checks

As root, on a quiet machine. Rounds are interleaved; the table has medians and, in brackets, the range. Each gateway has its
own defaults (sing-box and tun2proxy are asked for the device and the proxy only, tun2proxy for room for 10,000 sessions).
The kernels at both ends, and the gateways' own sockets, use the controller named.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ("sing-box", "sing-box-gvisor", "tun2proxy")
BUILD = "cargo build --locked --quiet --release --package ackclock-tun2socks --bins --example measure".split()
CHECKS = "cargo test --locked --quiet --package ackclock-tun2socks --test through right:: -- --test-threads 1".split()
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()
# Label of `measure`, heading, the figures of its line, by their places.
ROWS = [
    ("up, 1 flow", "up, 1 flow: Gbit/s (for a CPU second)", (0, 1)),
    ("down, 1 flow", "down, 1 flow", (0, 1)),
    ("up, 8", "up, 8", (0, 1)),
    ("down, 8", "down, 8", (0, 1)),
    ("connects", "connects/s", (0,)),
    ("round trip", "p99 idle, µs", (1,)),
    ("beside bulk both ways", "beside bulk both ways, µs", (1,)),
    ("beside bulk up", "beside bulk up, µs", (1,)),
    ("5,000 that are silent", "MB, 5,000 silent", (0,)),
    ("5,000 after an exchange", "MB, after an exchange", (0,)),
]


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["as"]:
        return become(*arguments[1:3])
    rounds, controller, only_checks, programs = 3, "cubic", False, {}
    while arguments:
        word = arguments.pop(0)
        name, _, path = word.partition("=")
        if word == "--rounds" and arguments:
            rounds = int(arguments.pop(0))
        elif word == "--controller" and arguments:
            controller = arguments.pop(0)
        elif word == "--checks":
            only_checks = True
        elif name in PEERS and os.access(path, os.X_OK):
            programs[name] = path
        else:
            sys.exit(f"{word}: no option of these, or no program\n\n{__doc__}")
    subprocess.run(BUILD, cwd=ROOT, check=True)
    target = json.loads(subprocess.run(METADATA, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["target_directory"]
    release = pathlib.Path(target) / "release"
    found: dict[str, list[str]] = {name: [] for name in ("ours", *programs)}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: stand_in(folder, name, path) for name, path in programs.items()}
        paths["ours"] = release / "tun2socks"
        for name in found:
            print(f"{name}: {checked(paths[name])}")
        for at in range(0 if only_checks else rounds):
            for name, program in paths.items():
                print(f"round {at + 1}: {name}", file=sys.stderr)
                command = [release / "examples/measure", program]
                ran = subprocess.run(command, env=os.environ | {"CONTROLLER": controller}, stdout=subprocess.PIPE, text=True)
                if ran.returncode:
                    print(f"{name} failed in round {at + 1}", file=sys.stderr)
                found[name].append(ran.stdout)
    if only_checks:
        return 0
    print(f"Controller: {controller}; rounds: {rounds}\n")
    print("| | " + " | ".join(heading for _, heading, _ in ROWS) + " |")
    print("|---" * (len(ROWS) + 1) + "|")
    for name, outputs in found.items():
        print(f"| {name} | " + " | ".join(cell(outputs, label, places) for label, _, places in ROWS) + " |")
    return 0


def checked(program: pathlib.Path) -> str:
    """How many of the checks a gateway passes, and the names of the others."""
    ran = subprocess.run(CHECKS, cwd=ROOT, env=os.environ | {"GATEWAY": str(program)}, capture_output=True, text=True)
    counts = re.search(r"(\d+) passed; (\d+) failed", ran.stdout)
    if not counts:
        sys.exit(f"the checks did not run:\n{ran.stderr}")
    passed, failed = map(int, counts.groups())
    names = re.findall(r"^    right::(\w+)$", ran.stdout, re.MULTILINE)
    missed = "".join(f"; not: {name.replace('_', ' ')}" for name in dict.fromkeys(names))
    return f"{passed} of {passed + failed} right{missed}"


def cell(outputs: list[str], label: str, places: tuple[int, ...]) -> str:
    """Medians of the figures behind a label, and the range of the first."""
    lines = [line[len(label) :] for out in outputs for line in out.splitlines() if line.startswith(label + " ")]
    figures = [[float(figure) for figure in re.findall(r"[0-9]+(?:\.[0-9]+)?", line)] for line in lines]
    if not figures:
        return "failed"
    columns = [[row[place] for row in figures] for place in places]
    first = columns[0]
    median = ", ".join(f"{statistics.median(column):g}" for column in columns)
    return f"{median} [{min(first):g} to {max(first):g}]"


def stand_in(folder: str, name: str, path: str) -> pathlib.Path:
    """A program that takes our gateway's arguments and becomes another gateway."""
    script = pathlib.Path(folder) / name
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} as {name} {path} "$@"\n')
    script.chmod(0o755)
    return script


def become(name: str, path: str) -> int:
    """Sets up what the gateway does not, and becomes it, so that its process is the one that is measured."""
    device = "tun0"
    if os.fork() == 0:
        gateway = os.getppid()
        while f"{device}:" not in pathlib.Path("/proc/self/net/dev").read_text() and os.getppid() == gateway:
            time.sleep(0.05)
        subprocess.run(["ip", "link", "set", device, "up"], check=False)
        for network in ("203.0.113.0/24", "198.51.100.0/24"):
            subprocess.run(["ip", "route", "replace", network, "dev", device], check=False)
        os._exit(0)
    if name == "tun2proxy":
        os.execv(path, [path, "--proxy", "socks5://10.1.0.1:1080", "--tun", device, "--max-sessions", "10000", "-v", "off"])
    stack = "gvisor" if name.endswith("gvisor") else "system"
    tun = {"type": "tun", "interface_name": device, "address": ["172.19.0.1/30"], "auto_route": False, "stack": stack}
    proxy = {"type": "socks", "tag": "proxy", "server": "10.1.0.1", "server_port": 1080}
    config = pathlib.Path(tempfile.mkstemp(suffix=".json")[1])
    config.write_text(json.dumps({"log": {"disabled": True}, "inbounds": [tun], "outbounds": [proxy]}))
    os.execv(path, [path, "run", "-c", str(config)])
    return 1


if __name__ == "__main__":
    sys.exit(main())
