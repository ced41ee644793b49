#!/usr/bin/env python3
"""Makes docs/mechanisms.md: which tests prove each mechanism of the four papers that this project stands on.

A test proves a mechanism where it carries `// Tests: J4` (or `// Tests: V3, V4`). The rows come from
docs/mechanisms-rows.tsv.

    scripts/mechanisms.py            writes the table
    scripts/mechanisms.py --check    fails when a mechanism has no test, a mark names no mechanism or stands at no test, or
                                     the table is not the one that would be written
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/mechanisms.md"
ID = r"[JVBA]\d+"
MARK = re.compile(rf"// Tests: ({ID}(?:, {ID})*)$")
FUNCTION = re.compile(r"\s*(?:async )?fn (\w+)")
TEST = re.compile(r"\s*#\[(?:tokio::)?test\b|\s*#!\[proptest_config|proptest!")


def main() -> int:
    rows = [line.split("\t") for line in (ROOT / "docs/mechanisms-rows.tsv").read_text().splitlines()[1:]]
    tests, problems = marks()
    known = [row[0] for row in rows]
    problems += [f"{name}: no such mechanism, in {tests[name][0][0]}" for name in tests if name not in known]
    problems += [f"{name} ({meaning}): no test" for name, _, meaning in rows if name not in tests]
    table = render(rows, tests)
    check = sys.argv[1:] == ["--check"]
    if not check:
        TABLE.write_text(table)
    elif not TABLE.exists() or TABLE.read_text() != table:
        problems.append("docs/mechanisms.md is stale: run scripts/mechanisms.py and commit it")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(rows)} mechanisms, {sum(map(len, tests.values()))} marks, {len(problems)} problems", file=sys.stderr)
    return 1 if check and problems else 0


def marks():
    """The tests of each mechanism, as (file, test), and marks that belong to no test."""
    tests, problems = collections.defaultdict(list), []
    for folder in ("crates", "tests"):
        for path in sorted((ROOT / folder).rglob("*.rs")):
            lines = path.read_text().splitlines()
            file = path.relative_to(ROOT).as_posix()
            for number, line in enumerate(lines):
                if mark := MARK.search(line):
                    test = test_at(lines, number)
                    if test is None:
                        problems.append(f"{file}:{number + 1}: a mark outside a test")
                    for name in mark[1].split(", "):
                        tests[name].append((file, test))
    return tests, problems


def test_at(lines, number: int):
    """The test that a mark belongs to: the function around it, or the one below; None if that is not a test."""
    indent = len(lines[number]) - len(lines[number].lstrip())
    for at in range(number, -1, -1):
        found = FUNCTION.match(lines[at])
        if found and len(lines[at]) - len(lines[at].lstrip()) < indent:
            return found[1] if is_test(lines, at) else None
    return None


def is_test(lines, function: int) -> bool:
    for line in reversed(lines[max(0, function - 8) : function]):
        if TEST.match(line):
            return True
        if not re.match(r"\s*(//|#\[)", line):
            return False
    return False


def render(rows, tests) -> str:
    out = [
        "# The papers' mechanisms, and their tests",
        "",
        "Made by `scripts/mechanisms.py` from the marks on the tests; do not edit. Each test fails if its mechanism does not",
        "do what the paper says. What each algorithm keeps, and where it departs from its source, is in",
        "[control.md](control.md).",
        "",
        "| Id | Source | Mechanism | Tests |",
        "|---|---|---|---|",
    ]
    for name, source, meaning in rows:
        proofs = "<br>".join(f"`{test}` in [{short(file)}](../{file})" for file, test in sorted(set(tests.get(name, []))))
        out.append(f"| {name} | {source} | {meaning} | {proofs} |")
    return "\n".join(out) + "\n"


def short(file: str) -> str:
    return file.removeprefix("crates/").replace("/src/", "/")


if __name__ == "__main__":
    sys.exit(main())
