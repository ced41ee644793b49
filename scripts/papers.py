#!/usr/bin/env python3
"""Makes docs/papers: what the papers found, and what this code finds.

    scripts/papers.py            runs all experiments and writes RESULTS.md and its pictures, then tries what the papers
                                 leave open and writes SWEEPS.md and its values; takes some seven minutes
    scripts/papers.py --check    runs them, too, and fails when a byte of what is kept is not what they give

The program is built without the link-time optimisation of a release: the bytes are the same. A value outside its band
without a written reason fails both.
"""

import difflib
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs/papers"
# The same packages as .ci/nightly builds, so that none is built twice, with other features.
BUILD = "cargo build --locked --quiet --profile plain --package tcplab --package ackclock-tests --package ackclock-benches --bins".split()
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()
DIFFERENCES_SHOWN = 40


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        check = bool(sys.argv[1:])
        made = pathlib.Path(scratch) / "papers" if check else KEPT
        unexplained = run_experiments(made)
        problems = list(differences(files(KEPT), files(made))) if check else list(stale(KEPT))
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems and check:
        print("docs/papers is stale: run scripts/papers.py, read what has changed, and commit it", file=sys.stderr)
    return 1 if problems or unexplained else 0


def run_experiments(folder: pathlib.Path) -> bool:
    """Whether a value is outside its band without a reason, or an experiment could not be done; the page says which."""
    subprocess.run(BUILD, cwd=ROOT, check=True)
    target = json.loads(subprocess.run(METADATA, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["target_directory"]
    program = pathlib.Path(target) / "plain/tcplab"
    done = subprocess.run([program, "papers", "--out", folder], stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"tcplab papers ended with {done.returncode}")
    print(done.stdout.splitlines()[-1])
    subprocess.run([program, "papers", "--sweeps", "--out", folder], stdout=subprocess.PIPE, check=True)
    return done.returncode == 1


def files(folder: pathlib.Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def differences(kept: dict[str, bytes], made: dict[str, bytes]):
    for name in sorted(kept.keys() | made.keys()):
        if name not in made:
            yield f"docs/papers/{name}: no experiment makes it"
        elif name not in kept:
            yield f"docs/papers/{name}: is missing"
        elif kept[name] != made[name]:
            yield f"docs/papers/{name}: differs"
            if name.endswith(".md"):
                yield from lines(kept[name], made[name])


def lines(kept: bytes, made: bytes):
    texts = (text.decode().splitlines() for text in (kept, made))
    shown = list(difflib.unified_diff(*texts, "kept", "made", lineterm="", n=0))
    yield from shown[:DIFFERENCES_SHOWN]
    if len(shown) > DIFFERENCES_SHOWN:
        yield f".. and {len(shown) - DIFFERENCES_SHOWN} lines more"


def stale(folder: pathlib.Path):
    """Pictures that the page no longer shows."""
    page = (folder / "RESULTS.md").read_text()
    for path in sorted((folder / "pictures").iterdir()):
        if f"pictures/{path.name}" not in page:
            yield f"{path.relative_to(ROOT)}: no experiment makes it; remove it"


if __name__ == "__main__":
    sys.exit(main())
