#!/usr/bin/env python3
"""Makes one of each HTML page of the project, and an index of them: `scripts/gallery.py [FOLDER]`.

FOLDER is target/gallery unless you name another. The pages load nothing from elsewhere: open FOLDER/index.html from a disk, or
put the folder on a web server. `--tcplab PATH` takes that program instead of target/release/tcplab. The laboratory is copied
from target/lab/index.html, which scripts/lab.sh makes; without it the index leaves it out.
"""

import argparse
import json
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ROOT / "examples/scenarios"
LABORATORY = ROOT / "target/lab/index.html"
# Experiments that take seconds.
PAPERS = ["VE11", "VE5", "BE4"]
GRID = "--cc reno,cubic,bbr,vegas --rate 10Mbit/s --buffer 0.5bdp,1bdp,4bdp --seeds 3 --duration 20s".split()
# A byte that is lost twice.
BYTE = ["--connection", "0", "--byte", "4385993"]
STYLE = """:root { color-scheme: light dark; }
body { max-width: 62rem; margin: 0 auto; padding: 1rem clamp(.75rem, 2.5vw, 2.5rem) 3rem; font: 16px/1.5 system-ui, sans-serif; }
li { margin: .5rem 0; }
img { max-width: 100%; height: auto; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: .9rem; display: block; overflow-x: auto; }
td, th { padding: .2rem .6rem; border-bottom: 1px solid #8888; text-align: left; vertical-align: top; }"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "target/gallery")
    parser.add_argument("--tcplab", type=Path, default=ROOT / "target/release/tcplab")
    args = parser.parse_args()
    if not args.tcplab.exists():
        sys.exit(f"gallery: {args.tcplab} is missing; run `cargo build --release --bin tcplab`, or name another with --tcplab")
    args.folder.mkdir(parents=True, exist_ok=True)
    gallery = Gallery(args.tcplab.resolve(), args.folder.resolve())
    for make in (report, trace, explanation, comparison, network, controllers, papers, laboratory):
        make(gallery)
    gallery.write("index.html", "ackclock in pages", "<ul>\n" + "\n".join(gallery.entries) + "\n</ul>")
    print(f"gallery: {len(gallery.entries)} pages, {args.folder / 'index.html'}")


class Gallery:
    """The folder, and the index's entries so far."""

    def __init__(self, program: Path, folder: Path):
        self.program, self.folder, self.entries = program, folder, []

    def tcplab(self, *args) -> str:
        command = [str(self.program), *map(str, args)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        # `papers` ends with 1 if a value differs without a reason; its page says which.
        if done.returncode and args[0] != "papers":
            sys.exit(f"gallery: `{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def add(self, path: str, title: str, command: str, text: str):
        made = f"<br><code>{escape(command)}</code>"
        self.entries.append(f'<li><a href="{escape(path)}">{escape(title)}</a>: {escape(text)}{made}</li>')

    def write(self, path: str, title: str, body: str):
        page = (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
            f"<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
        )
        (self.folder / path).write_text(page)


def report(gallery: Gallery):
    gallery.tcplab("run", SCENARIOS / "bufferbloat.toml", "--html", "report.html", "--trace", "bloat.trace")
    gallery.add("report.html", "A run", "tcplab run bufferbloat.toml --html report.html", "answers that wait behind an upload for seconds")


def trace(gallery: Gallery):
    gallery.tcplab("run", SCENARIOS / "fig6.toml", "--trace", "fig6.trace")
    gallery.tcplab("convert", "fig6.trace", "--to", "html", "--output", "trace.html")
    what = "all connections, those that lost most time first, and the life of each segment of ten"
    gallery.add("trace.html", "A trace", "tcplab convert fig6.trace --to html", what)


def explanation(gallery: Gallery):
    command = ["explain", "bloat.trace", *BYTE]
    said = gallery.tcplab(*command)
    gallery.write("explain.html", "What became of one byte", f"<pre>{escape(said)}</pre>")
    gallery.add("explain.html", "An explanation", f"tcplab {' '.join(command)}", "when a byte left, which rule declared it lost, and why")


def comparison(gallery: Gallery):
    gallery.tcplab("compare", *GRID, "--fresh", "--out", "comparison")
    gallery.add("comparison/report.html", "A comparison", f"tcplab compare {' '.join(GRID)}", "four controllers before three queues")


def network(gallery: Gallery):
    gallery.tcplab("run", SCENARIOS / "blackout.toml", "--live-page", "network.html")
    what = "a network that was recorded while it ran, with its faults along time"
    gallery.add("network.html", "A network", "tcplab run blackout.toml --live-page network.html", what)


def controllers(gallery: Gallery):
    gallery.tcplab("kit", "vegas", "--out", "kit")
    gallery.add("kit/vegas.html", "A controller", "tcplab kit vegas --out kit", "its window in fixed situations")


def papers(gallery: Gallery):
    """The papers' own pages are Markdown; here are values and pictures of a few experiments."""
    gallery.tcplab("papers", *PAPERS, "--out", "papers", "--json", "papers.json")
    parts = []
    for experiment in json.loads((gallery.folder / "papers.json").read_text())["experiments"]:
        parts.append(f"<h2>{escape(experiment['id'])}: {escape(experiment['title'])}</h2><p>{escape(experiment['source'])}</p>")
        rows = [[value["name"], value["paper"], f"{value['measured']:.4g} {value['unit']}", value["verdict"]] for value in experiment["values"]]
        cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
        head = "".join(f"<th>{name}</th>" for name in ("value", "paper", "measured", "verdict"))
        parts.append(f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>")
        parts += [f'<p><img src="papers/pictures/{escape(stem)}.svg" alt="{escape(stem)}"></p>' for stem in experiment["pictures"]]
    gallery.write("papers.html", "What the papers found, and what this code finds", "\n".join(parts))
    what = "the paper's value beside the measured one; docs/papers has all experiments"
    gallery.add("papers.html", "The papers", f"tcplab papers {' '.join(PAPERS)}", what)


def laboratory(gallery: Gallery):
    if not LABORATORY.exists():
        print("gallery: the laboratory is left out; scripts/lab.sh makes it", file=sys.stderr)
        return
    shutil.copyfile(LABORATORY, gallery.folder / "laboratory.html")
    gallery.add("laboratory.html", "The laboratory", "scripts/lab.sh", "the same TCP as WebAssembly, with dials")


if __name__ == "__main__":
    main()
