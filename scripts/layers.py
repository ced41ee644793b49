#!/usr/bin/env python3
"""Holds the tree against the rules of ARCHITECTURE.md that neither the compiler nor clippy checks.

Floors: what each crate may depend on. Rings: modules that import each other. Lines of comments, which rustfmt does not wrap.
Files that no module declares. Words that mean "not done". `--check` is the only mode; it prints each breach as
`file:line: what` and fails if there is one.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The tests of each crate of ours may use it, and it uses only the lowest.
FOR_TESTS = "ackclock-test-support"
# The crates of ours that each may use, and further ones that its tests may. A crate with `others` is sans-IO: it may use no other
# crates than those, and those of `asked for` only behind a feature that is off by default.
FLOORS = {
    FOR_TESTS: {"uses": {"wire"}},
    "ackclock-test-browser": {"uses": set()},
    "ackclock-test-script": {"uses": {"core", "wire"}},
    "ackclock-form": {"uses": set(), "others": {"thiserror"}},
    "ackclock-wire": {"uses": {"form"}, "others": {"etherparse", "thiserror"}},
    "ackclock-control": {"uses": {"form"}, "others": {"thiserror"}, "asked for": {"serde"}},
    "ackclock-core": {
        "uses": {"control", "form", "wire"},
        "others": {"bytes", "siphasher", "slab", "thiserror"},
        "asked for": {"aes", "cmac", "hmac", "prefetch-index", "serde", "sha1"},
    },
    "ackclock-journal": {"uses": {"control", "core", "form", "wire"}, "others": {"bytes", "siphasher", "thiserror"}},
    "ackclock-link": {"uses": {"control", "wire"}, "others": {"etherparse", "thiserror"}},
    "ackclock-device": {"uses": {"control", "link", "wire"}},
    "ackclock-sim": {
        "uses": {"control", "core", "wire"},
        "others": {"serde", "thiserror", "toml"},
        "asked for": {"ackclock", "hickory-proto", "tokio"},
    },
    "ackclock-chart": {"uses": set(), "tests": {"test-browser"}},
    "ackclock-trace": {"uses": {"chart", "control", "core", "wire"}, "tests": {"sim"}},
    "ackclock-assess": {"uses": {"control", "core", "device", "sim", "trace", "wire"}},
    "ackclock-cli": {"uses": {"chart"}},
    "ackclock-explore": {"uses": {"core", "form", "test-script", "wire"}},
    "ackclock": {"uses": {"control", "core", "device", "form", "journal", "wire"}},
    "ackclock-papers": {"uses": {"assess", "chart", "cli", "control", "core", "sim", "trace"}},
    "ackclock-lab": {"uses": {"assess", "chart", "control", "core", "sim", "trace", "wire"}, "tests": {"test-browser"}},
    "tcpcat": {"uses": {"", "cli", "control", "device", "trace"}, "tests": {"test-features", "tests"}},
    "tcplab": {
        "uses": {"", "assess", "chart", "cli", "control", "core", "device", "journal", "lab", "papers", "sim", "trace", "wire"},
        "tests": {"test-browser", "test-features", "tests"},
    },
}
# Packages above the floors: they may use everything.
ROOF = {
    "ackclock-benches",
    "ackclock-examples",
    "ackclock-fuzz",
    "ackclock-packets",
    "ackclock-restart",
    "ackclock-test-features",
    "ackclock-tests",
    "ackclock-tun2socks",
    "ackclock-wireguard",
}
# Crates in which no two top-level modules may import each other, directly or in a ring.
WITHOUT_RINGS = {"ackclock"}
# Of comments and continued strings, which rustfmt does not wrap. Tables and code samples are exempt.
LINE_MAX = 110
COMMENT = re.compile(r"\s*//[/!]? ?(.*)")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
IGNORED = re.compile(r"\s*#\[\s*ignore\b")
# A path from the crate's root, or several in braces; what `lib.rs` exports under another path.
FROM_ROOT = re.compile(r"\bcrate::(?:\{([^;]*?)\};|(\w+))")
EXPORTED = re.compile(r"^pub use (?:self::)?(\w+)::(?:\{([^;]*)\}|(\w+));", re.MULTILINE)
# Where the tests of a file begin.
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod ", re.MULTILINE)


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
    if "others" in FLOORS.get(name, {}) and not (folder / "clippy.toml").exists():
        yield f"{show(folder)}/Cargo.toml:1: lacks a clippy.toml that forbids clocks, sleeps and random numbers"
    if name in WITHOUT_RINGS:
        yield from check_rings(folder)
    for path in sources:
        yield from check_source(path, folder)
        if (folder / "src") in path.parents and not is_declared(path):
            yield f"{show(path)}:1: no module declares this file, so nothing compiles it"


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
            tests = {FOR_TESTS.removeprefix("ackclock-"), *floor.get("tests", ())}
            tried = table == "dev-dependencies" and dependency.removeprefix("ackclock-") in tests
            if dependency in ours and dependency not in below and not tried:
                yield f"{where}: `{name}` must not use `{dependency}`: imports point down only"
            sans_io = "others" in floor and table != "dev-dependencies"
            if sans_io and dependency not in ours | floor["others"]:
                yield f"{where}: `{name}` is sans-IO and must not use `{dependency}`"


def check_rings(folder):
    """The top-level modules of a crate form layers: none imports a module that imports it, by whatever way."""
    root = folder / "src"
    exported = {}
    for module, several, one in EXPORTED.findall((root / "lib.rs").read_text()):
        exported.update(dict.fromkeys(re.findall(r"\w+", several or one), module))
    modules = {path.stem for path in root.iterdir()} - {"lib"}
    imports = {module: {} for module in modules}
    for path in sorted(root.rglob("*.rs")):
        module = path.relative_to(root).parts[0].removesuffix(".rs")
        for number, target in imported(path) if module in modules else ():
            target = exported.get(target, target)
            if target in modules - {module}:
                imports[module].setdefault(target, f"{show(path)}:{number}")
    for module, targets in imports.items():
        for target, where in targets.items():
            if way := way_between(imports, target, module):
                yield f"{where}: a ring of modules: {' -> '.join([module, *way])}"


def imported(path):
    """The names that a file, without its tests, takes from the crate's root, each with its line."""
    text = TESTS.split(path.read_text(), maxsplit=1)[0]
    text = re.sub(r"//.*", "", text)
    for found in FROM_ROOT.finditer(text):
        number = text.count("\n", 0, found.start()) + 1
        # Of `{a::{b, c}, d}` the outer names.
        outer = re.sub(r"::(\{[^}]*\}|\w+)", "", found[1]) if found[1] else found[2]
        yield from ((number, name) for name in re.findall(r"\w+", outer))


def way_between(imports, start, end):
    """The modules from `start` to `end` along their imports; nothing if there is no way."""
    ways, seen = [[start]], {start}
    for way in ways:
        if way[-1] == end:
            return way
        new = sorted(imports[way[-1]].keys() - seen)
        seen.update(new)
        ways.extend([*way, target] for target in new)
    return []


def check_source(path, folder):
    text = path.read_text()
    where = show(path)
    if not text.startswith("//!") and not is_test_file(path, folder):
        yield f"{where}:1: does not begin with a module doc"
    in_sample = False
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.match(line)
        in_sample = bool(comment) and in_sample != comment[1].startswith("```")
        wraps = not comment[1].startswith("|") and not in_sample if comment else line.endswith("\\")
        if UNFINISHED.search(line):
            yield f"{where}:{number}: says that something is left to do"
        if IGNORED.match(line):
            yield f"{where}:{number}: an ignored test"
        if wraps and len(line) > LINE_MAX:
            yield f"{where}:{number}: {len(line)} characters; at most {LINE_MAX}"


def is_declared(path):
    """Whether `mod` of the file above, or cargo, leads to a file of `src`."""
    if path.stem in ("lib", "main") or path.parent.name == "bin":
        return True
    name, parent = (path.parent.name, path.parent.parent) if path.stem == "mod" else (path.stem, path.parent)
    above = [parent / "mod.rs", parent / "lib.rs", parent / "main.rs", parent.with_suffix(".rs"), parent.parent / "mod.rs"]
    declares = re.compile(rf"\bmod {name}\b")
    return any(declares.search(file.read_text()) for file in above if file.exists())


def is_test_file(path, folder):
    inner = path.relative_to(folder)
    return "tests" in inner.parts[:-1] or inner.name in ("tests.rs", "testing.rs") or inner.stem.endswith("_tests")


def show(path):
    return path.relative_to(ROOT)


if __name__ == "__main__":
    main()
