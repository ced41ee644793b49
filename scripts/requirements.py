#!/usr/bin/env python3
"""Makes docs/rfc9293.md: what became of each of the 119 requirements of RFC 9293.

A requirement is met in code where a comment `// RFC 9293 MUST-n: ...` stands above the line that does it, and proved where
a test carries `// Tests: RFC 9293 MUST-n`. The rows come from docs/rfc9293-rows.tsv, and what this stack does not do, or
does differently on purpose, from docs/rfc9293-exceptions.toml with its reason. A deviation from a section that has no row
for it stands there under the section, and in code as `// Deviation from RFC 9293 §n: ...`.

    scripts/requirements.py            writes the table
    scripts/requirements.py --check    fails when a row has neither code and test nor an exception, a citation names
                                       no row, or the table is not the one that would be written
"""

import collections
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/rfc9293.md"
ID = r"(?:MUST|SHLD|MAY|REC)-\d+"
# A citation may name several rows: `// RFC 9293 MUST-58, MUST-59: ...`, and may stand in a doc comment.
CITATION = re.compile(rf"//.*?\bRFC 9293\b(.*)")
DEVIATION = re.compile(r"// Deviation from RFC 9293 (§[\d.]*\d)")
TEST = re.compile(rf"//[/!]? ?Tests: RFC 9293 ((?:{ID},? ?)+)")


def main() -> int:
    rows = [line.split("\t") for line in (ROOT / "docs/rfc9293-rows.tsv").read_text().splitlines()[1:]]
    exceptions = tomllib.loads((ROOT / "docs/rfc9293-exceptions.toml").read_text())
    code, tests = citations()
    departures = deviations()
    known = {row[0] for row in rows}
    problems = [f"{name}: no such requirement, in {where}" for name, where in unknown(known, code, tests)]
    numbered = [name for name in exceptions if not name.startswith("§")]
    problems += [f"{name}: an exception for no requirement" for name in numbered if name not in known]
    problems += [
        f"{name}: a deviation in code or in docs/rfc9293-exceptions.toml, and not in the other"
        for name in sorted(departures.keys() ^ (exceptions.keys() - set(numbered)))
    ]
    problems += [
        f"{name} (§{section}, {meaning}): {what_is_missing(name, code, tests)}"
        for name, section, meaning in rows
        if name not in exceptions and what_is_missing(name, code, tests)
    ]
    table = render(rows, exceptions, code, tests) + render_deviations(exceptions, departures) + render_others()
    if "--check" not in sys.argv[1:]:
        TABLE.write_text(table)
        report(rows, exceptions, problems)
        return 0
    if not TABLE.exists() or TABLE.read_text() != table:
        problems.append("docs/rfc9293.md is stale: run scripts/requirements.py and commit it")
    report(rows, exceptions, problems)
    return 1 if problems else 0


def citations():
    """Places in code, and tests, for each requirement: {id: [(file, line or test name)]}."""
    code, tests = collections.defaultdict(list), collections.defaultdict(list)
    for folder in ("crates", "tests"):
        for path in sorted((ROOT / folder).rglob("*.rs")):
            if "target" in path.relative_to(ROOT).parts:
                continue
            scan(path, code, tests)
    return code, tests


def deviations():
    """Where the code departs from a section: {section: [file]}."""
    found = collections.defaultdict(set)
    for path in sorted((ROOT / "crates").rglob("*.rs")):
        for section in DEVIATION.findall(path.read_text()):
            found[section].add(path.relative_to(ROOT).as_posix())
    return found


def scan(path, code, tests) -> None:
    lines = path.read_text().splitlines()
    name = path.relative_to(ROOT).as_posix()
    for number, line in enumerate(lines):
        if mark := TEST.search(line):
            for row in re.findall(ID, mark[1]):
                tests[row].append((name, function_at(lines, number)))
        elif (cited := CITATION.search(line)) and not is_test_code(name):
            for row in re.findall(ID, cited[1]):
                code[row].append((name, number + 1))


def is_test_code(name: str) -> bool:
    return name.startswith("tests/") or name.endswith("tests.rs") or "/tests/" in name


def function_at(lines, number: int) -> str:
    """The test that a mark belongs to: the function below it, or the one around it."""
    for line in lines[number + 1 : number + 9]:
        if found := re.match(r"\s*(?:async )?fn (\w+)", line):
            return found[1]
        if not re.match(r"\s*(//|#\[|$)", line):
            break
    for line in reversed(lines[:number]):
        if found := re.match(r"\s*(?:async )?fn (\w+)", line):
            return found[1]
    return "?"


def unknown(known, *maps):
    for places in maps:
        for name in places:
            if name not in known:
                yield name, ", ".join(sorted({file for file, _ in places[name]}))


def what_is_missing(name: str, code, tests) -> str:
    missing = [what for what, places in (("code", code), ("test", tests)) if not places.get(name)]
    return "no " + " and no ".join(missing) if missing else ""


def render(rows, exceptions, code, tests) -> str:
    out = [
        "# RFC 9293, requirement by requirement",
        "",
        "Made by `scripts/requirements.py` from the citations in the code and the marks on the tests; do not edit. The",
        "body of the RFC governs where its Table 8 says otherwise (MAY-5, MAY-10, MAY-11, SHLD-25).",
        "",
        "| Id | § | What it asks | Code | Tests | Exception |",
        "|---|---|---|---|---|---|",
    ]
    for name, section, meaning in rows:
        # Line numbers would make every edit of the code an edit of this table.
        files = sorted({file for file, _ in code.get(name, [])})
        places = "<br>".join(f"[{short(file)}](../{file})" for file in files)
        proofs = "<br>".join(f"`{test}`" for test in sorted({test for _, test in tests.get(name, [])}))
        reason = exceptions.get(name, {}).get("reason", "").strip().replace("\n", " ")
        out.append(f"| {name} | {section} | {meaning} | {places} | {proofs} | {reason} |")
    return "\n".join(out) + "\n"


def render_deviations(exceptions, departures) -> str:
    out = ["", "## Deviations outside the rows", "", "| § | What is done instead, and why | Code |", "|---|---|---|"]
    for section in sorted(departures, key=lambda section: [int(part) for part in section[1:].split(".")]):
        places = "<br>".join(f"[{short(file)}](../{file})" for file in sorted(departures[section]))
        reason = exceptions.get(section, {}).get("reason", "").strip().replace("\n", " ")
        out.append(f"| {section[1:]} | {reason} | {places} |")
    return "\n".join(out) + "\n"


def render_others() -> str:
    """The RFCs beside this one that are off unless asked for: docs/rfc9293-others.tsv."""
    out = ["", "## Other RFCs, off unless asked for", "", "| RFC | What | Asked for by | Code |", "|---|---|---|---|"]
    for line in (ROOT / "docs/rfc9293-others.tsv").read_text().splitlines():
        number, what, files, asked = line.split("\t")
        places = "<br>".join(f"[{short(file)}](../{file})" for file in files.split())
        out.append(f"| {number} | {what} | {asked} | {places} |")
    return "\n".join(out) + "\n"


def short(file: str) -> str:
    return file.removeprefix("crates/").replace("/src/", "/")


def report(rows, exceptions, problems) -> None:
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(rows)} requirements, {len(exceptions)} with an exception, {len(problems)} problems", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
