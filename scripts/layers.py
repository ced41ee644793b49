#!/usr/bin/env python3
"""Holds the tree against the rules of ARCHITECTURE.md that a compiler does not check.

Floors: what each crate may depend on. Unsafe code: where it is forbidden. Sizes: of files and functions. Words that
mean "not done". `--check` is the only mode; it prints each breach as `file:line: what` and fails if there is one.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The crates of ours that each may use, and further ones that its tests may. A crate with `others` is sans-IO: it may use no other
# crates than those, and those of `asked for` only behind a feature that is off by default.
FLOORS = {
    "ackclock-wire": {"uses": set(), "others": {"etherparse", "thiserror"}},
    "ackclock-control": {"uses": set(), "others": {"thiserror"}, "asked for": {"serde"}},
    "ackclock-core": {
        "uses": {"control", "wire"},
        "others": {"bytes", "siphasher", "slab", "thiserror"},
        "asked for": {"aes", "cmac", "hmac", "prefetch-index", "serde", "sha1"},
    },
    "ackclock-link": {"uses": {"control", "wire"}, "others": {"etherparse", "thiserror"}},
    "ackclock-device": {"uses": {"link", "wire"}},
    "ackclock-sim": {
        "uses": {"control", "core", "wire"},
        "others": {"serde", "thiserror", "toml"},
        "asked for": {"ackclock", "tokio"},
    },
    "ackclock-trace": {"uses": {"control", "core", "wire"}, "tests": {"sim"}},
    "ackclock": {"uses": {"control", "core", "device", "wire"}},
    "tcpcat": {"uses": {"", "device", "trace"}, "tests": {"tests"}},
    "tcplab": {"uses": {"control", "core", "device", "sim", "trace", "wire"}, "tests": {"ackclock", "tests"}},
}
# Packages above the floors: they may use everything.
ROOF = {
    "ackclock-benches",
    "ackclock-examples",
    "ackclock-fuzz",
    "ackclock-tests",
    "ackclock-tun2socks",
    "ackclock-wireguard",
}
# `unsafe` has a place: system calls, namespaces of the tests, counting allocators of the benches.
UNSAFE_ALLOWED = {"ackclock-device", "ackclock-tests", "ackclock-benches"}

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
FORBIDDEN = {
    r"#!?\[\s*allow\s*\(": "`allow`; write `#[expect(.., reason = \"..\")]`",
    r"#\[\s*ignore\b": "an ignored test",
    r"\b(todo|unimplemented|dbg)\s*!": "an unfinished or debugging macro",
}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    members = [(path.parent, tomllib.loads(path.read_text())) for path in manifests()]
    breaches = [breach for folder, manifest in members for breach in check_member(folder, manifest)]
    for breach in breaches:
        print(breach, file=sys.stderr)
    if breaches:
        sys.exit(f"layers: {len(breaches)} breaches")
    print(f"layers: {len(members)} packages keep the rules")


def manifests():
    roots = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    return sorted(path for member in roots for path in ROOT.glob(f"{member}/Cargo.toml"))


def check_member(folder, manifest):
    name = manifest["package"]["name"]
    yield from check_dependencies(folder, name, manifest)
    sources = [path for path in sorted(folder.rglob("*.rs")) if "target" not in path.relative_to(folder).parts]
    if name not in UNSAFE_ALLOWED:
        roots = [path for path in (folder / "src/lib.rs", folder / "src/main.rs") if path.exists()]
        for path in roots:
            if "#![forbid(unsafe_code)]" not in path.read_text():
                yield f"{show(path)}:1: lacks `#![forbid(unsafe_code)]`"
    if "others" in FLOORS.get(name, {}) and not (folder / "clippy.toml").exists():
        yield f"{show(folder)}/Cargo.toml:1: lacks a clippy.toml that forbids clocks, sleeps and random numbers"
    for path in sources:
        yield from check_source(path, folder)


def check_dependencies(folder, name, manifest):
    """Imports point down only."""
    where = f"{show(folder)}/Cargo.toml:1"
    if name in ROOF:
        return
    if name not in FLOORS:
        yield f"{where}: `{name}` has no floor in scripts/layers.py and ARCHITECTURE.md"
        return
    floor = FLOORS[name]
    below = {f"ackclock-{used}".removesuffix("-") for used in floor["uses"]}
    ours = FLOORS.keys() | ROOF
    for table in ("dependencies", "build-dependencies", "dev-dependencies"):
        for dependency, how in manifest.get(table, {}).items():
            if dependency in floor.get("asked for", ()):
                if not (isinstance(how, dict) and how.get("optional")) or manifest["features"].get("default"):
                    yield f"{where}: `{name}` must not use `{dependency}` unless a feature is asked for"
                continue
            tried = table == "dev-dependencies" and dependency.removeprefix("ackclock-") in floor.get("tests", ())
            if dependency in ours and dependency not in below and not tried:
                yield f"{where}: `{name}` must not use `{dependency}`: imports point down only"
            sans_io = "others" in floor and table != "dev-dependencies"
            if sans_io and dependency not in ours | floor["others"]:
                yield f"{where}: `{name}` is sans-IO and must not use `{dependency}`"


def check_source(path, folder):
    raw = path.read_text()
    code = blank_out(raw)
    where = show(path)
    if not raw.startswith("//!") and not is_test_file(path, folder):
        yield f"{where}:1: does not begin with a module doc"
    for number, line in enumerate(raw.splitlines(), 1):
        if UNFINISHED.search(line):
            yield f"{where}:{number}: says that something is left to do"
    for pattern, what in FORBIDDEN.items():
        for match in re.finditer(pattern, code):
            yield f"{where}:{line_of(code, match.start())}: {what}"
    if re.search(r"\bunsafe\b", code) and "SAFETY:" not in raw:
        yield f"{where}:1: has `unsafe` and no `SAFETY:` comment"
    shipped = blank_tests(code)
    lines = sum(1 for line in shipped.splitlines() if line.strip())
    if lines > FILE_LINES_MAX:
        yield f"{where}:1: {lines} lines of code; split it before {FILE_LINES_MAX}"
    if not is_test_file(path, folder):
        for line, function, length in functions(shipped):
            if length > FUNCTION_LINES_MAX:
                yield f"{where}:{line}: `{function}` has {length} lines; at most {FUNCTION_LINES_MAX}"


def is_test_file(path, folder):
    inner = path.relative_to(folder)
    return "tests" in inner.parts[:-1] or inner.name in ("tests.rs", "testing.rs") or inner.stem.endswith("_tests")


def blank_out(text):
    """The text with comments and the contents of strings and characters blanked out; lines stay where they are."""
    token = re.compile(
        r"""
          //[^\n]*
        | /\*.*?\*/
        | \bb?r(?P<hashes>\#*)".*?"(?P=hashes)
        | b?"(?:\\.|[^"\\])*"
        | b?'(?:\\(?:u\{[^}]*\}|x[0-9a-fA-F]{2}|.)|[^'\\\n])'
        """,
        re.VERBOSE | re.DOTALL,
    )
    return token.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def blank_tests(code):
    """The code without what stands behind `#[cfg(test)]`."""
    for match in reversed(list(re.finditer(r"#\[cfg\(test\)\]", code))):
        end = end_of_item(code, match.end())
        code = code[: match.start()] + re.sub(r"[^\n]", " ", code[match.start() : end]) + code[end:]
    return code


def functions(code):
    """Line, name and length of each function with a body."""
    for match in re.finditer(r"\bfn\s+(\w+)", code):
        end = end_of_item(code, match.end())
        if code[end - 1] == "}":
            start = line_of(code, match.start())
            yield start, match[1], line_of(code, end - 1) - start + 1


def end_of_item(code, start):
    """Behind the `;` or the closing brace that ends the item which goes on at `start`."""
    depth = 0
    for index in range(start, len(code)):
        character = code[index]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0 and character == "}":
                return index + 1
        elif character == ";" and depth == 0:
            return index + 1
    return len(code)


def line_of(text, index):
    return text.count("\n", 0, index) + 1


def show(path):
    return path.relative_to(ROOT)


if __name__ == "__main__":
    main()
