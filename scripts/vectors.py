#!/usr/bin/env python3
"""Makes the reference vectors: what the formulas of papers and RFCs give, computed without the code under test.

Each module in a crate's `tests/reference` lists its `FILES`: a header and a function that yields the rows. Exact fractions are used
wherever a formula is rational; samples come from a fixed generator, so that the files never change by themselves. The crate's
tests compare them with the code: `cargo test -p ackclock-control --test vectors`, `cargo test -p ackclock-sim --lib queue`.

    scripts/vectors.py            writes crates/*/tests/vectors/*.csv
    scripts/vectors.py --check    fails where they are not what would be written
"""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    folders = sorted(ROOT.glob("crates/*/tests/reference"))
    results = [vectors(folder, check=bool(sys.argv[1:])) for folder in folders]
    if stale := [path for _, paths in results for path in paths]:
        sys.exit("not what the reference computes: " + ", ".join(str(path.relative_to(ROOT)) for path in stale))
    print(f"{sum(count for count, _ in results)} files of vectors")


def vectors(folder, check):
    """Writes or checks the vectors of one crate. Returns how many there are, and which are stale."""
    sys.path.insert(0, str(folder))
    modules = [importlib.import_module(path.stem) for path in sorted(folder.glob("*.py"))]
    sys.path.pop(0)
    target = folder.parent / "vectors"
    files = {target / name: made for module in modules for name, made in getattr(module, "FILES", {}).items()}
    inputs = {module.INPUT for module in modules if hasattr(module, "INPUT")}
    stale = [path for path in sorted(target.glob("*.csv")) if path not in files.keys() | inputs]
    for path, (header, rows) in files.items():
        text = "\n".join([header, *(",".join(str(cell) for cell in row) for row in rows())]) + "\n"
        if check and (not path.exists() or path.read_text() != text):
            stale.append(path)
        elif not check:
            path.write_text(text)
    return len(files), stale


if __name__ == "__main__":
    main()
