#!/usr/bin/env python3
"""Reference vectors from the formulas of the papers and RFCs, computed without the code under test.

    python3 crates/ackclock-control/tests/reference            writes tests/vectors/*.csv
    python3 crates/ackclock-control/tests/reference --check    fails where they are not what would be written

`cargo test -p ackclock-control --test vectors` compares them with the code. Exact fractions are used wherever a formula is
rational; the samples are from a fixed generator, so that the files never change by themselves.
"""

import pathlib
import sys

import assess
import congestion
import rto
import start_up

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "vectors"
FILES = {**rto.FILES, **congestion.FILES, **start_up.FILES, **assess.FILES}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    check = bool(sys.argv[1:])
    VECTORS.mkdir(exist_ok=True)
    stale = [path.name for path in VECTORS.glob("*.csv") if path.name not in FILES]
    for name, (header, rows) in FILES.items():
        text = "\n".join([header, *(",".join(str(cell) for cell in row) for row in rows())]) + "\n"
        path = VECTORS / name
        if check and (not path.exists() or path.read_text() != text):
            stale.append(name)
        elif not check:
            path.write_text(text)
    if stale:
        sys.exit(f"not what the reference computes: {', '.join(sorted(stale))}")
    print(f"{len(FILES)} files of vectors")


if __name__ == "__main__":
    main()
