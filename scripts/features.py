#!/usr/bin/env python3
"""Keeps the tests of every program on the crates that `cargo test --workspace` has built.

Cargo chooses the features of a crate from what is built together, so `cargo test -p tcpcat` would compile most of the
workspace once more. The packages of UNIFIED have the crate `ackclock-test-features` among their dev-dependencies: it asks for
each feature that another package of the workspace asks for. This script writes its Cargo.toml; `--check` compares it with what
the packages would build.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests/features/Cargo.toml"
ITSELF = "ackclock-test-features"
UNIFIED = [
    "ackclock-examples",
    "ackclock-fuzz",
    "ackclock-restart",
    "ackclock-tests",
    "ackclock-tun2socks",
    "ackclock-wireguard",
    "tcpcat",
    "tcplab",
]
HEAD = f"""\
# Written by scripts/features.py, which says why: `scripts/features.py --write`.
[package]
name = "{ITSELF}"
description = "Asks for the features that the workspace's tests have, so that one package's tests build no crate again"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
authors.workspace = true
publish = false

[lints]
workspace = true
"""


def main() -> None:
    match sys.argv[1:]:
        case ["--check"]:
            differing = [f"{package}: {line}" for package in UNIFIED for line in missing(package)]
            if differing:
                print("\n".join(differing), file=sys.stderr)
                sys.exit("these features differ from the workspace's; run `scripts/features.py --write`")
            print(f"features: {len(UNIFIED)} packages test with the workspace's")
        case ["--write"]:
            write()
        case _:
            sys.exit(f"usage: {sys.argv[0]} --check | --write")


def write() -> None:
    """Writes the manifest. A feature may bring crates in whose features differ then, so it is repeated until none does."""
    wanted = {}
    for _ in range(5):
        FILE.write_text(manifest(wanted))
        subprocess.run(["cargo", "update", "--workspace", "--offline", "--quiet"], cwd=ROOT, check=True)
        found = {line: None for package in UNIFIED for line in missing(package)}
        if not found:
            return
        whole = tree("--workspace")
        for crate, host in found:
            wanted[crate, host] = whole.get((crate, host)) or whole[crate, False]
    sys.exit("the features do not settle")


def missing(package: str) -> list[tuple[tuple[str, str], bool]]:
    """The crates that tests of the package would build with other features than the workspace."""
    whole = tree("--workspace")
    return sorted(crate for crate, features in tree("--package", package).items() if whole.get(crate) != features)


def tree(*of: str) -> dict[tuple[tuple[str, str], bool], frozenset[str]]:
    """The features of each crate, by name, version and whether it is built for the machine that compiles."""
    target = listed(*of, "--edges", "normal,dev,no-proc-macro")
    # Both kinds: cargo tells them apart by a line each.
    whole = listed(*of, "--edges", "normal,build,dev")
    found = {(crate, False): only(crate, features) for crate, features in target.items()}
    for crate, features in whole.items():
        for host in features - target.get(crate, set()):
            found[crate, True] = host
    return found


def listed(*arguments: str) -> dict[tuple[str, str], set[frozenset[str]]]:
    command = ["cargo", "tree", "--color", "never", "--locked", "--prefix", "none", "--format", "{p}|{f}", *arguments]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    found = {}
    for line in filter(None, lines):
        name, version, features = re.fullmatch(r"(\S+) v(\S+?)(?: \(.*?\))*\|(.*?)(?: \(\*\))?", line).groups()
        if name not in (ITSELF, *UNIFIED):
            found.setdefault((name, version), set()).add(frozenset(features.split(",")) - {""})
    return found


def only(crate: tuple[str, str], features: set[frozenset[str]]) -> frozenset[str]:
    (one,) = features
    return one


def manifest(wanted: dict) -> str:
    text = HEAD
    for title, host in ("dependencies", False), ("build-dependencies", True):
        rows = sorted((crate, features) for (crate, of_host), features in wanted.items() if of_host == host)
        if rows:
            text += f"\n[{title}]\n" + "".join(row(*crate, features, rows) for crate, features in rows)
    return text


def row(name: str, version: str, features: frozenset[str], rows: list) -> str:
    several = sum(crate[0] == name for crate, _ in rows) > 1
    key = f"{name}-{version.replace('.', '-')}" if several else name
    parts = [f'package = "{name}"'] if several else []
    parts.append("workspace = true" if name.startswith("ackclock") else f'version = "{requirement(version)}"')
    parts += ["default-features = false"] if not name.startswith("ackclock") and "default" not in features else []
    names = ", ".join(f'"{feature}"' for feature in sorted(features - {"default"}))
    parts += [f"features = [{names}]"] if names else []
    return f"{key} = {{ {', '.join(parts)} }}\n"


def requirement(version: str) -> str:
    """The versions that cargo takes for the same crate."""
    parts = version.split("+")[0].split(".")
    return parts[0] if parts[0] != "0" else ".".join(parts[:2])


main()
