#!/usr/bin/env python3
"""Measures how fast each device carries a stack's TCP, beside TUN and the kernel's own, and makes the table of it.

    scripts/devices.py                       measures what is missing in target/devices.jsonl (five minutes, as root)
    scripts/devices.py --device packet,tun   only these; also --rounds, --secs, --fresh, --program
    scripts/devices.py --write               measures nothing; writes what is measured into docs/devices.md

The script makes two network namespaces joined by a veth pair, and removes them. The stack, or the kernel's TCP to compare, is
in the first; the peer is the kernel's TCP: in the second for `kernel`, `raw`, `packet` and `xdp`, and at the device's other end for
`tun`, `tap` and `fd`. A Unix socket has a second stack at its other end, where no kernel is. Rounds are the outer loop, and in
each every device has its turn each way. A run that was interrupted goes on where it ended.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import measured
from measured import ROOT, build, parser, spread, words_of

ROUNDS = 5
SECONDS = 4
CONTROLLER = "cubic"
# The device, its flags, and the peer's address.
DEVICES = {
    "kernel": ("--kernel", "10.64.0.2"),
    "tun": ("--device tun --addr 10.65.0.2/24", "10.65.0.1"),
    "tap": ("--device tap --addr 10.66.0.2/24", "10.66.0.1"),
    "packet": ("--device packet --interface near --no-probe --addr 10.64.0.3/24", "10.64.0.2"),
    "packet2": ("--device packet --interface near --queues 2 --no-probe --addr 10.64.0.3/24", "10.64.0.2"),
    "xdp": ("--device xdp --interface near --no-probe --addr 10.64.0.4/24", "10.64.0.2"),
    "fd": ("--device fd:3 --addr 10.65.0.2/24", "10.65.0.1"),
    "unix": ("--device unix:{socket} --addr 10.67.0.2/24", "10.67.0.1"),
    "unixgram": ("--device unixgram:{socket} --addr 10.67.0.2/24", "10.67.0.1"),
    "raw": ("--device raw --ports 40000-40999 --addr 10.64.0.1/24", "10.64.0.2"),
}
NAMES = {
    "kernel": "none: the kernel's TCP over the veth pair",
    "tun": "TUN",
    "tap": "TAP",
    "packet": "packet socket on the veth pair",
    "packet2": "the same, two queues",
    "xdp": "AF_XDP on the veth pair, in the driver",
    "fd": "TUN, opened by another program (`fd:3`)",
    "unix": "Unix stream, to a stack like this one",
    "unixgram": "Unix datagrams, to a stack like this one",
    "raw": "raw sockets over the veth pair",
}
DIRECTIONS = {"there": "", "back": "--reverse"}
KEPT = ROOT / "target/devices.jsonl"
PAGE = ROOT / "docs/devices.md"
# Opens tun0 with offload as descriptor 3, and becomes the program that its arguments name.
OPENS_TUN = """
import fcntl, os, struct, sys
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x1, 0x1000, 0x4000
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
os.dup2(tun, 3, inheritable=True)
os.execv(sys.argv[1], sys.argv[1:])
"""
# No step takes longer than its seconds and this.
PATIENCE = 30


def arguments() -> argparse.Namespace:
    options = parser(__doc__, KEPT, ROUNDS, SECONDS)
    options.add_argument("--device", type=words_of(DEVICES), default=list(DEVICES), help="which, with commas between them")
    options.add_argument("--program", type=pathlib.Path, help="the tcpcat to measure [default: a release build]")
    return options.parse_args()


def measure(args: argparse.Namespace, lines: list[dict]):
    if os.geteuid() != 0:
        sys.exit("namespaces and devices take root: sudo scripts/devices.py")
    there = {(line["device"], line["direction"], line["round"], line["seconds"]) for line in lines}
    jobs = [
        (device, direction, number, args.secs)
        for number in range(1, args.rounds + 1)
        for device in args.device
        for direction in DIRECTIONS
    ]
    program = args.program or build("-p", "tcpcat") / "tcpcat"
    describe = lambda line: "{device} {direction}, round {round}: {bits_per_second:.3g} bit/s".format(**line)
    with contextlib.ExitStack() as stack:
        near = network(program, stack)
        measured.measure(args.kept, lines, jobs, there, args.secs, lambda *job: [run(program, near, *job)], describe)


def network(program: pathlib.Path, stack: contextlib.ExitStack) -> str:
    """The two namespaces with a server of the kernel's in each; gives the first one's name."""
    near, far = (f"ackclock-{os.getpid()}-{end}" for end in ("near", "far"))
    for name in (near, far):
        ip("netns", "add", name)
        stack.callback(ip, "netns", "del", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("-n", near, "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", far)
    for kind in ("tun", "tap"):
        ip("-n", near, "tuntap", "add", "dev", f"{kind}0", "mode", kind)
    links = [(near, "near", "10.64.0.1/24"), (near, "tun0", "10.65.0.1/24"), (near, "tap0", "10.66.0.1/24")]
    for name, link, address in [*links, (far, "far", "10.64.0.2/24")]:
        ip("-n", name, "addr", "add", address, "dev", link)
        ip("-n", name, "link", "set", link, "up")
    # A namespace other than the first may not choose its default, but each of its routes may.
    for name, link, peers in (
        (near, "near", ["10.64.0.2"]),
        (far, "far", ["10.64.0.1", "10.64.0.3", "10.64.0.4"]),
        (near, "tun0", ["10.65.0.2"]),
        (near, "tap0", ["10.66.0.2"]),
    ):
        for peer in peers:
            ip("-n", name, "route", "add", peer, "dev", link, "congctl", CONTROLLER)
    for name in (near, far):
        command = ["ip", "netns", "exec", name, program, "bench", "server", "--kernel"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(end, server)
    for name in (near, far):
        await_server(name)
    return near


def await_server(name: str):
    deadline = time.monotonic() + PATIENCE
    while ":5201 " not in inside(name, "ss", "-Hltn"):
        if time.monotonic() > deadline:
            sys.exit(f"no server listens in {name}")
        time.sleep(0.05)


def await_path(path: str):
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            sys.exit(f"no stack waits at {path}")
        time.sleep(0.05)


def end(process: subprocess.Popen):
    process.kill()
    process.wait()


def run(program: pathlib.Path, near: str, device: str, direction: str, number: int, seconds: float) -> dict:
    flags, peer = DEVICES[device]
    command = [program, "bench", "client", peer, "--json", "--time", str(seconds), *DIRECTIONS[direction].split()]
    command += ["--cc", CONTROLLER] if device != "kernel" else []
    if device == "fd":
        command = [sys.executable, "-c", OPENS_TUN, *command]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        flags = flags.format(socket=f"{folder}/socket")
        if device.startswith("unix"):
            waits = [program, "bench", "server", *flags.replace("10.67.0.2", peer).split()]
            server = subprocess.Popen(waits, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(end, server)
            await_path(f"{folder}/socket")
        command = ["ip", "netns", "exec", near, *command, *flags.split()]
        # Its stderr says why a device does not work.
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds + PATIENCE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    report = json.loads(done.stdout)["end"]
    return {
        "device": device,
        "direction": direction,
        "round": number,
        "seconds": seconds,
        "bits_per_second": report["bits_per_second"],
        "retransmits": report["retransmits"],
    }


def table(lines: list[dict]) -> str:
    """A row for each device: medians with their ranges, and the medians of the ratios within a round."""
    rates = {}
    for line in lines:
        cell = rates.setdefault((line["device"], line["direction"]), {})
        cell[line["round"]] = line["bits_per_second"] / 1e9
    seconds = sorted({line["seconds"] for line in lines})
    rounds = sorted({len(cell) for cell in rates.values()})
    several = lambda values: " to ".join(f"{value:g}" for value in {values[0]: 0, values[-1]: 0})
    text = [
        f"Rounds for each: {several(rounds)}, of {several(seconds)} s; {os.cpu_count()} processors, kernel "
        f"{platform.release()}, {CONTROLLER} on both sides, MTU 1500.",
        "",
        "| device | to the peer, Gbit/s | beside TUN | beside the kernel | from the peer, Gbit/s | beside TUN | beside the kernel |",
        "|---|---|---|---|---|---|---|",
    ]
    for device in DEVICES:
        cells = [NAMES[device]]
        for direction in DIRECTIONS:
            mine = rates.get((device, direction), {})
            cells.append(spread(mine.values(), "{:.2f}".format))
            for other in ("tun", "kernel"):
                theirs = rates.get((other, direction), {})
                ratios = [mine[number] / theirs[number] for number in mine if theirs.get(number)]
                cells.append(spread(ratios, "{:.2f}".format) if other != device else "")
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text)


def ip(*words: str):
    subprocess.run(["ip", *words], check=True)


def inside(name: str, *words: str) -> str:
    done = subprocess.run(["ip", "netns", "exec", name, *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


if __name__ == "__main__":
    measured.script(arguments(), measure, PAGE, {"devices": table})
