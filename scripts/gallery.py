#!/usr/bin/env python3
"""Makes a gallery of the laboratory's pages: target/gallery/index.html, and beside it each page that it shows.

    scripts/gallery.py [--tcplab PROGRAM] [FOLDER]

Each scenario of examples/scenarios gives a report, and a page of its connections where that has less than 8 MB; then come
comparisons of controllers. Every page is one file that needs no network, so the folder can be put on any server. Without
--tcplab the program is built first, optimised.
"""

import argparse
import html
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONNECTIONS_BYTES_MAX = 8_000_000
COMPARISONS = {
    "controllers": (
        "Reno, CUBIC, Vegas and BBR with small, usual and large buffers: who fills the link, and who the queue.",
        ["--cc", "reno,cubic,vegas,bbr", "--buffer", "0.5bdp,1bdp,4bdp"],
    ),
    "loss": (
        "The same on paths that lose one packet in a thousand and one in a hundred, five runs of each.",
        ["--cc", "reno,cubic,vegas,bbr", "--loss", "0%,0.1%,1%", "--seeds", "5"],
    ),
    "queues": (
        "Four flows of CUBIC through FQ-CoDel.",
        ["--cc", "cubic", "--flows", "4", "--queue", "fq-codel", "--buffer", "4bdp"],
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tcplab", type=Path, help="the program, if it is built")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "target/gallery")
    args = parser.parse_args()
    tcplab = args.tcplab.resolve() if args.tcplab else built()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)

    def run(*words):
        subprocess.run([tcplab, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    entries = [scenario(path, folder, run) for path in sorted(ROOT.glob("examples/scenarios/*.toml"))]
    entries += [comparison(name, folder, run) for name in COMPARISONS]
    (folder / "index.html").write_text(index(entries))
    print(f"gallery: {sum(len(pages) for *_, pages in entries)} pages, from {folder / 'index.html'} on")


def built():
    """tcplab, as cargo has just built it."""
    command = ["cargo", "build", "--locked", "--release", "--quiet", "-p", "tcplab", "--message-format=json"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    programs = re.findall(r'"executable":"([^"]*/tcplab)"', lines)
    return Path(programs[-1]) if programs else sys.exit("gallery: cargo built no tcplab")


def scenario(path, folder, run):
    """A scenario's pages, described by the comment at its head."""
    name, trace = path.stem, folder / "run.trace"
    run("run", path, "--html", f"{name}.html", "--trace", trace)
    run("convert", trace, "--to", "html", "--output", f"{name}-connections.html")
    trace.unlink()
    pages = [("the run", f"{name}.html")]
    connections = folder / f"{name}-connections.html"
    if connections.stat().st_size < CONNECTIONS_BYTES_MAX:
        pages.append(("its connections", connections.name))
    else:
        connections.unlink()
    head = re.match(r"(?:#(?: .*)\n)+", path.read_text())
    return name, head[0].replace("#", "", 1).replace("\n#", "") if head else "", pages


def comparison(name, folder, run):
    text, words = COMPARISONS[name]
    out = f"compare-{name}"
    run("compare", *words, "--out", out, "--fresh")
    return f"tcplab compare {' '.join(words)}", text, [("the report", f"{out}/report.html")]


def index(entries):
    def entry(name, text, pages):
        words = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(" ".join(text.split())))
        links = " &middot; ".join(f'<a href="{page}">{what}</a>' for what, page in pages)
        return f"<section><h2>{html.escape(name)}</h2><p>{words}</p><p>{links}</p></section>\n"

    return HEAD + "".join(entry(*one) for one in entries) + "</html>\n"


HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Gallery of ackclock</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em }
h2 { margin: 1.5em 0 0; font-size: 1.1em }
p { margin: .3em 0 }
</style>
<h1>What the laboratory shows</h1>
<p>Each page is a run of ackclock's TCP over a simulated network, and the same each time it is made. Drag over a graph to zoom in.</p>
"""


if __name__ == "__main__":
    main()
