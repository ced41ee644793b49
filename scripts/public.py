#!/usr/bin/env python3
"""Holds the public signatures of the library crates against the list of crates whose types may stand there.

What a signature names is part of a crate's own version: a dependency whose types show cannot be raised by itself. The
list, with a reason for each, is `SHOWN` below and in docs/decisions.md. The signatures are read from rustdoc's JSON, which
stable toolchains write only with RUSTC_BOOTSTRAP; nothing else is built that way.
`--check` is the only mode.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What stands everywhere: the language's own, and the workspace's.
EVERYWHERE = {"std", "core", "alloc"}
# What else each crate may show, and why.
SHOWN = {
    "ackclock": {
        "tokio": "the traits and types of tokio's I/O, which this crate's sockets implement and take",
        "bytes": "slices of streams; `BufMut`, as in tokio's `read_buf`",
        "axum": "the feature `axum`",
        "http": "the feature `hyper`: `Uri`",
        "hyper_util": "the feature `hyper`: `TokioIo`, `Connection`",
        "tower_service": "the features `hyper` and `tower`",
        "futures_core": "the feature `stream`",
        "serde_core": "the feature `serde`",
        "tonic": "the feature `tonic`: `Connected`",
    },
    "ackclock-assess": {"serde_core": "reports are files"},
    "ackclock-chart": {"serde_core": "figures are data"},
    "ackclock-control": {"serde_core": "the feature `serde`"},
    "ackclock-core": {"bytes": "slices of streams and packets", "serde_core": "the feature `serde`"},
    "ackclock-device": {"bytes": "packets that are kept"},
    "ackclock-link": {},
    "ackclock-papers": {"serde_core": "results are files", "serde_json": "`json` returns a value"},
    "ackclock-sim": {"serde_core": "scenarios and reports are files", "tokio": "the feature `tokio`"},
    "ackclock-trace": {"serde_core": "reports are files", "serde_json": "`to_json` returns a value to be embedded in others"},
    "ackclock-wire": {},
}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    breaches = [breach for crate in SHOWN for breach in breaches_of(crate)]
    for breach in sorted(set(breaches)):
        print(breach, file=sys.stderr)
    if breaches:
        sys.exit(f"public: {len(set(breaches))} breaches")
    print(f"public: {len(SHOWN)} crates show no types but those listed")


def breaches_of(crate):
    document = rustdoc(crate)
    for item in document["index"].values():
        if item["crate_id"] != 0 or is_automatic(item):
            continue
        for name in sorted({name for ident in named(item["inner"]) if (name := owner(document, ident))}):
            allowed = name in EVERYWHERE or name.startswith("ackclock") or name in SHOWN[crate]
            if not allowed:
                span = item["span"] or {"filename": crate, "begin": [1]}
                what = item["name"] or next(iter(item["inner"]))
                yield f"{span['filename']}:{span['begin'][0]}: `{what}` of {crate} shows a type of `{name}`"


def rustdoc(crate):
    """What rustdoc knows of the public items of a crate, with all its features."""
    with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as wrapper:
        wrapper.write('#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n')
    os.chmod(wrapper.name, 0o755)
    try:
        command = ["cargo", "rustdoc", "--locked", "--quiet", "--lib", "--all-features", "-p", crate]
        command += ["--", "-Zunstable-options", "--output-format=json", "--cap-lints=allow"]
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "RUSTDOC": wrapper.name})
    finally:
        os.unlink(wrapper.name)
    metadata = ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"]
    target = json.loads(subprocess.run(metadata, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["target_directory"]
    return json.loads((Path(target) / "doc" / f"{crate.replace('-', '_')}.json").read_text())


def is_automatic(item):
    """An implementation that is not in the source: of an auto trait, or one for all types."""
    implementation = item["inner"].get("impl")
    return bool(implementation) and (implementation["is_synthetic"] or implementation["blanket_impl"] is not None)


def named(value):
    """The ids of all paths within a part of an item."""
    if isinstance(value, list):
        for part in value:
            yield from named(part)
    elif isinstance(value, dict):
        if "id" in value and ("path" in value or "source" in value):
            yield value["id"]
        for part in value.values():
            yield from named(part)


def owner(document, ident):
    """The name of the crate that a path leads to; `None` for what is the crate's own."""
    path = document["paths"].get(str(ident))
    if path is None or path["crate_id"] == 0:
        return None
    return document["external_crates"][str(path["crate_id"])]["name"]


if __name__ == "__main__":
    main()
