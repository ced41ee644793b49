#!/usr/bin/env python3
"""Holds the dependencies against deny.toml: licences, bans and sources.

Knows the keys that deny.toml uses, with cargo-deny's meaning, and refuses keys that it does not know. It needs nothing
but cargo and the registry, takes a second where building cargo-deny takes minutes, and steps aside where cargo-deny
is installed (see .ci/run).
"""

import collections
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

KNOWN_KEYS = {
    "graph": {"targets", "all-features"},
    "advisories": {"yanked"},  # Needs cargo-deny.
    "licenses": {"allow", "include-dev"},
    "bans": {
        "multiple-versions",
        "multiple-versions-include-dev",
        "wildcards",
        "allow-wildcard-paths",
        "skip",
        "deny",
    },
    "sources": {"unknown-registry", "unknown-git", "allow-registry", "allow-git"},
}


def main():
    config = tomllib.loads((ROOT / "deny.toml").read_text())
    for table, keys in config.items():
        unknown = set(keys) - KNOWN_KEYS.get(table, set())
        if unknown:
            sys.exit(f"deny.toml: [{table}] has keys that scripts/deny.py does not know: {sorted(unknown)}")
    packages = used_packages(config["graph"]["targets"])
    problems = [
        *licence_problems(packages, set(config["licenses"]["allow"])),
        *ban_problems(packages, config["bans"]),
        *source_problems(packages, config["sources"]),
    ]
    for problem in problems:
        print(f"deny: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"deny: {len(packages)} packages: licences, bans and sources are as deny.toml says")


def used_packages(targets):
    """The packages that a build for one of the targets takes in."""
    used = {}
    for target in targets:
        command = ["cargo", "metadata", "--format-version=1", "--locked", "--all-features"]
        output = subprocess.run([*command, f"--filter-platform={target}"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        metadata = json.loads(output.stdout)
        nodes = {node["id"] for node in metadata["resolve"]["nodes"]}
        used.update((package["id"], package) for package in metadata["packages"] if package["id"] in nodes)
    return list(used.values())


def name_of(package):
    return f"{package['name']} {package['version']}"


def licence_problems(packages, allowed):
    for package in packages:
        expression = package["license"]
        if not expression:
            yield f"{name_of(package)} names no licence"
        elif not satisfied(expression, allowed):
            yield f"{name_of(package)} is licensed as `{expression}`, of which [licenses] allows none"


def satisfied(expression, allowed):
    """Whether an SPDX expression can be met with the allowed licences; `/` is an old way to write OR."""
    tokens = re.findall(r"[()]|[\w.+-]+", expression.replace("/", " OR "))

    def either():
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value = both() or value
        return value

    def both():
        value = single()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = single() and value
        return value

    def single():
        token = tokens.pop(0)
        if token == "(":
            value = either()
            tokens.pop(0)
            return value
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token += f" WITH {tokens.pop(0)}"
        return token in allowed

    return either()


def ban_problems(packages, bans):
    for package in packages:
        for ban in bans["deny"]:
            if matches(package, ban["crate"]):
                yield f"{name_of(package)} is banned"
        if package["source"] is not None:
            continue
        for dependency in package["dependencies"]:
            by_path = bans["allow-wildcard-paths"] and dependency.get("path")
            if dependency["req"] == "*" and not by_path and bans["wildcards"] == "deny":
                yield f"{package['name']} depends on any version of {dependency['name']}"

    versions = collections.defaultdict(set)
    for package in packages:
        if not any(matches(package, skip["crate"]) for skip in bans["skip"]):
            versions[package["name"]].add(package["version"])
    for name, found in versions.items():
        if len(found) > 1 and bans["multiple-versions"] == "deny":
            yield f"{name} is there in several versions: {', '.join(sorted(found))}"


def matches(package, specification):
    """`name`, or `name:major[.minor[.patch]]`."""
    name, _, version = specification.partition(":")
    return package["name"] == name and (not version or f"{package['version']}.".startswith(f"{version}."))


def source_problems(packages, sources):
    registries = {f"registry+{url}" for url in sources["allow-registry"]}
    for package in packages:
        source = package["source"]
        if source is None or source in registries:
            continue
        kind = "git" if source.startswith("git+") else "registry"
        known = kind == "git" and any(source.startswith(f"git+{url}") for url in sources["allow-git"])
        if sources[f"unknown-{kind}"] == "deny" and not known:
            yield f"{name_of(package)} comes from {source}"


if __name__ == "__main__":
    main()
