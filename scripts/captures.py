#!/usr/bin/env python3
"""Measures how long the page's module takes for captures of 100 MB: `scripts/captures.py [--rounds 5]`.

It needs what `scripts/lab.sh` makes, and node. One capture has full-sized segments, the other only headers, as with
`tcpdump -s 54`. Each has a connection with an acknowledgement for every second segment. The time is from the start of node
until the table of connections is there; printed are the median and the range.
"""

import argparse
import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BYTES = 100_000_000
MSS = 1448
HEADERS = 40
RAW_IP = 101
ENDS = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
PORTS = (40_000, 80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", type=Path, default=ROOT / "target/lab/parts")
    args = parser.parse_args()
    if not (args.parts / "lab_bg.wasm").exists():
        sys.exit(f"captures: {args.parts} has no module; run scripts/lab.sh")
    with tempfile.TemporaryDirectory() as folder:
        files = [(name, Path(folder) / f"{name}.pcap") for name in ("full", "headers")]
        segments = {name: write(path, kept) for (name, path), kept in zip(files, (HEADERS + MSS, HEADERS))}
        took = {name: [] for name, _ in files}
        for _ in range(args.rounds):
            for name, path in files:
                took[name].append(seconds(args.parts, name, path))
        for name, times in took.items():
            print(f"{name}: {segments[name]} segments, {statistics.median(times):.1f} s [{min(times):.1f} to {max(times):.1f}]")


def seconds(parts, name, path):
    """The time until the module has the table of connections."""
    begin = {"ask": "capture-begin", "name": path.name, "length": path.stat().st_size}
    requests = json.dumps([begin, {"push": str(path)}, {"ask": "capture-end"}])
    began = time.monotonic()
    ran = subprocess.run(
        ["node", ROOT / "crates/ackclock-lab/tests/wasm/ask.js", parts, requests], capture_output=True, text=True, check=True
    )
    took = time.monotonic() - began
    answer = json.loads(json.loads(ran.stdout)[-1])
    if "error" in answer:
        sys.exit(f"captures: {name}: {answer['error']}")
    return took


def write(path, kept):
    """Writes a capture in which at most `kept` bytes of each packet are. Returns the number of its segments."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, RAW_IP))
        count, size, at = 0, 24, 0

        def put(sender, flags, seq, ack, payload):
            nonlocal count, size, at
            packet = segment(sender, flags, seq, ack, payload)[:kept]
            record = struct.pack("<IIII", at // 10**6, at % 10**6, len(packet), HEADERS + payload)
            file.write(record + packet)
            count, size, at = count + 1, size + len(record) + len(packet), at + 100

        put(0, 2, 1000, 0, 0)
        put(1, 18, 5000, 1001, 0)
        put(0, 16, 1001, 5001, 0)
        sent = 0
        while size < BYTES:
            for _ in range(2):
                put(0, 16, 1001 + sent, 5001, MSS)
                sent += MSS
            put(1, 16, 5001, 1001 + sent, 0)
        return count


def segment(sender, flags, seq, ack, payload):
    """An IPv4 packet without checksums."""
    ip = struct.pack(">BBHHHBBH", 0x45, 0, HEADERS + payload, 0, 0, 64, 6, 0) + ENDS[sender] + ENDS[1 - sender]
    tcp = struct.pack(
        ">HHIIBBHHH", PORTS[sender], PORTS[1 - sender], seq % 2**32, ack % 2**32, 0x50, flags, 65_535, 0, 0
    )
    return ip + tcp + bytes(payload)


if __name__ == "__main__":
    main()
