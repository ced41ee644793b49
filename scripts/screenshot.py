#!/usr/bin/env python3
"""Takes the picture of the laboratory's page: `scripts/screenshot.py OUTPUT.png [PART]`.

It starts `tcplab serve` on a free port and chromium without a window. PART is the page's address behind `#`, such as
`capture/example` or a scene of the laboratory; the default is the picture of the README. `--dark` takes it on a dark ground,
`--size 1600x1000` in another size, `--tcplab PATH` another program than target/release/tcplab.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Milliseconds of the page's own time until the picture: enough for a run and its graphs.
PATIENCE = 8000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("part", nargs="?", default="laboratory?scene=vegas-7")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--size", default="1400x900")
    parser.add_argument("--tcplab", type=Path, default=ROOT / "target/release/tcplab")
    args = parser.parse_args()
    if not args.tcplab.exists():
        sys.exit(f"screenshot: {args.tcplab} is missing; run `cargo build --release -p tcplab`")
    server = subprocess.Popen([args.tcplab, "serve", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    try:
        said = server.stderr.readline()
        address = re.search(r"http://\S+/", said)
        if not address:
            sys.exit(f"screenshot: tcplab serve said `{said.strip()}`")
        take(address[0] + "#" + args.part, args)
    finally:
        server.terminate()
        server.wait()
    print(f"screenshot: {args.output}")


def take(url, args):
    width, height = args.size.split("x")
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
    command += [f"--window-size={width},{height}", f"--virtual-time-budget={PATIENCE}", f"--screenshot={args.output.resolve()}"]
    command += ["--blink-settings=preferredColorScheme=0"] * args.dark
    taken = subprocess.run([*command, url], capture_output=True, text=True, check=False)
    if taken.returncode or not args.output.exists():
        sys.exit(f"screenshot: chromium took no picture: {taken.stderr.strip()[-500:]}")


if __name__ == "__main__":
    main()
