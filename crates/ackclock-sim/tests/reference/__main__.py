#!/usr/bin/env python3
"""What each queue discipline does with recorded arrivals, computed from the RFCs and the paper without the code under test.

    python3 crates/ackclock-sim/tests/reference            writes tests/vectors/*.csv
    python3 crates/ackclock-sim/tests/reference --check    fails where they are not what would be written

`cargo test -p ackclock-sim --lib queue` compares them with the code. `arrivals.csv` is an input: the packets that arrived at the
4 Mbit/s link of `tests/sim/arrivals.toml`. Here they meet a slower link, so queues grow, and pauses, so queues become empty.
"""

import csv
import pathlib
import sys

import codel
import fq_codel
import red
from link import Arrival

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "vectors"
FILES = {**codel.FILES, **fq_codel.FILES, **red.FILES}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    check = bool(sys.argv[1:])
    with open(VECTORS / "arrivals.csv") as file:
        arrivals = [Arrival(*map(int, row)) for row in list(csv.reader(file))[1:]]
    stale = [path.name for path in VECTORS.glob("*.csv") if path.name not in (*FILES, "arrivals.csv")]
    for name, (header, rows) in FILES.items():
        text = "\n".join([header, *(",".join(str(cell) for cell in row) for row in rows(arrivals))]) + "\n"
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
