#!/usr/bin/env python3
"""Holds what the documents say against the tree.

Paths in backticks and relative links must exist; under a heading that names a crate, `src/..` is relative to that crate.
ARCHITECTURE.md must name each crate. `cargo run` and `cargo bench` commands must name existing programs,
examples and benches; the README must have exactly one command that runs the demo and one that runs all tests.
CONTRIBUTING.md must name each step of .ci/run and .ci/nightly. One row of docs/security.md must name each test of an attack (`sec_*`), and
each row must name existing tests. docs/SUMMARY.md must list each page of docs. A block behind `<!-- code: FILE:ANCHOR -->` must
equal the lines between `ANCHOR: ANCHOR` and `ANCHOR_END: ANCHOR` of the file. A table of the guide behind `<!-- results: ID -->` must
quote rows of that section of docs/papers/RESULTS.md.

`--check` is the default. `--write` copies the code into its blocks again.
"""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/guide/*.md"))]
FOLDERS = r"(?:crates|benches|tests|examples|docs|scripts|\.ci)"
PATH = re.compile(rf"`({FOLDERS}/[\w./-]+)`")
CRATE = re.compile(r"`(crates/[\w-]+)`")
HEADING = re.compile(r"##+ (?:`(crates/[\w-]+)`)?")
RELATIVE = re.compile(r"`(src/[\w./-]+)`")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
TARGET = re.compile(r"--(bin|example|bench)[ =]([\w-]+)")
CODE = re.compile(r"^<!-- code: ([^\s:]+):([\w-]+) -->\n```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE_MARK = re.compile(r"^<!-- code: ", re.MULTILINE)
QUOTED = re.compile(r"<!-- results: (\S+) -->")


def main():
    if sys.argv[1:] == ["--write"]:
        return write_code()
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    tree = [*missing_files(), *missing_crates(), *missing_targets(), *readme_commands(), *steps(), *attacks()]
    breaches = [*tree, *chapters(), *copied(), *quoted()]
    for breach in breaches:
        print(breach, file=sys.stderr)
    if breaches:
        sys.exit(f"docs: {len(breaches)} breaches")
    print(f"docs: {len(DOCUMENTS)} documents agree with the tree")


def lines():
    for document in DOCUMENTS:
        for number, line in enumerate(document.read_text().splitlines(), 1):
            yield document, f"{document.relative_to(ROOT)}:{number}", line


def missing_files():
    crate = None
    for document, where, line in lines():
        if heading := HEADING.match(line):
            crate = heading[1]
        paths = PATH.findall(line) + [f"{crate}/{path}" for path in RELATIVE.findall(line) if crate]
        for path in paths:
            if not (ROOT / path).exists():
                yield f"{where}: `{path}` does not exist"
        for path in LINK.findall(line):
            if not (document.parent / path).exists():
                yield f"{where}: the link to {path} leads nowhere"


def missing_crates():
    named = set(CRATE.findall((ROOT / "ARCHITECTURE.md").read_text()))
    for crate in sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("crates/*/Cargo.toml")):
        if crate not in named:
            yield f"ARCHITECTURE.md: does not name `{crate}`"


def missing_targets():
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    there = {
        (kind, target["name"])
        for package in json.loads(output)["packages"]
        for target in package["targets"]
        for kind in target["kind"]
    }
    for _, where, line in lines():
        for kind, name in TARGET.findall(line):
            if "cargo " in line and (kind, name) not in there:
                yield f"{where}: there is no {kind} `{name}`"


def readme_commands():
    readme = (ROOT / "README.md").read_text().splitlines()
    demo = [line for line in readme if line.startswith("cargo run") and line.endswith("tcpcat -- demo")]
    tests = [line for line in readme if re.fullmatch(r"cargo test( .*)?", line)]
    for what, commands in (("demo", demo), ("tests", tests)):
        if len(commands) != 1:
            yield f"README.md:1: has {len(commands)} commands for the {what}; it must have one"


def steps():
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    for script in (".ci/run", ".ci/nightly"):
        for name in re.findall(r"^    step ([\w-]+) ", (ROOT / script).read_text(), re.MULTILINE):
            if f"`{name}`" not in contributing:
                yield f"CONTRIBUTING.md: does not name the step `{name}` of {script}"


def attacks():
    document = ROOT / "docs/security.md"
    sources = [path for folder in ("crates", "tests") for path in (ROOT / folder).rglob("*.rs")]
    tests = {name for path in sources for name in re.findall(r"fn (sec_\w+)\(", path.read_text())}
    named = []
    for number, line in enumerate(document.read_text().splitlines(), 1):
        row = re.match(r"\| ([A-Z]\d+) \|", line)
        if not row:
            continue
        names = re.findall(r"`(sec_\w+)`", line)
        named += names
        if not names:
            yield f"docs/security.md:{number}: row {row[1]} names no test"
        for name in names:
            if name not in tests:
                yield f"docs/security.md:{number}: there is no test `{name}`"
            if not name.startswith(f"sec_{row[1].lower()}_"):
                yield f"docs/security.md:{number}: `{name}` belongs to another row"
    for name in sorted(tests - set(named)):
        yield f"docs/security.md: no row names the test `{name}`"


def chapters():
    summary = ROOT / "docs/SUMMARY.md"
    listed = {(summary.parent / path).resolve() for path in LINK.findall(summary.read_text())}
    for page in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")]):
        if page not in listed and page != summary:
            hint = ": scripts/guide.py does" if page.parent.name == "kit" else ""
            yield f"docs/SUMMARY.md: does not list {page.relative_to(ROOT)}{hint}"


def copied():
    for document in DOCUMENTS:
        text = document.read_text()
        where = document.relative_to(ROOT)
        if len(CODE.findall(text)) != len(CODE_MARK.findall(text)):
            yield f"{where}: a line `<!-- code: FILE:ANCHOR -->` without a block of code below it"
        for path, anchor, _, block in CODE.findall(text):
            lines = anchored(document.parent / path, anchor)
            if lines is None:
                yield f"{where}: {path} does not exist, or has no anchor `{anchor}`"
            elif lines != block:
                yield f"{where}: the code is not that of {path}:{anchor}: run scripts/docs.py --write"


def write_code():
    for document in DOCUMENTS:
        def block(found):
            path, anchor, language, _ = found.groups()
            lines = anchored(document.parent / path, anchor)
            return found[0] if lines is None else f"<!-- code: {path}:{anchor} -->\n```{language}\n{lines}```"

        text = document.read_text()
        written = CODE.sub(block, text)
        if written != text:
            document.write_text(written)


def anchored(source, anchor):
    """The lines of an anchor, without the indentation that all share and without the marks of other anchors."""
    if not source.exists():
        return None
    found = re.search(rf"ANCHOR: {anchor}\n(.*?)^[^\n]*ANCHOR_END: {anchor}$", source.read_text(), re.DOTALL | re.MULTILINE)
    if not found:
        return None
    lines = [line for line in found[1].splitlines(keepends=True) if not re.search(r"ANCHOR(_END)?: ", line)]
    return textwrap.dedent("".join(lines))


def quoted():
    results = (ROOT / "docs/papers/RESULTS.md").read_text()
    sections = {text.split(":", 1)[0]: text.splitlines() for text in re.split(r"^## ", results, flags=re.MULTILINE)[1:]}
    for document in ROOT.glob("docs/guide/*.md"):
        text = document.read_text().splitlines()
        for number, line in enumerate(text, 1):
            if not (found := QUOTED.fullmatch(line)):
                continue
            rows = [row for table in tables(sections.get(found[1], [])) for row in table]
            for row in next(tables(text[number:]), [{"": "there is no table"}]):
                if not any(row.items() <= other.items() for other in rows):
                    yield f"{document.relative_to(ROOT)}:{number}: not in RESULTS.md, {found[1]}: {' | '.join(row.values())}"


def tables(text):
    """The tables of a text: each row as a cell for each name of a column."""
    names, rows = None, []
    for line in [*text, ""]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            if rows:
                yield rows
            names, rows = None, []
        elif names is None:
            names = cells
        elif not set(line) <= set("|-: "):
            rows.append(dict(zip(names, cells)))


if __name__ == "__main__":
    main()
