"""What the scripts share that measure in rounds: results kept line by line, medians with ranges, tables between marks."""

import argparse
import contextlib
import json
import pathlib
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
METADATA = "cargo metadata --locked --no-deps --format-version 1".split()


def parser(description: str, kept: pathlib.Path, rounds: int, seconds: float) -> argparse.ArgumentParser:
    """The options that all have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--secs", type=float, default=seconds)
    made.add_argument("--kept", type=pathlib.Path, default=kept, help="where what is measured is kept")
    made.add_argument("--fresh", action="store_true", help="forget what was measured before")
    made.add_argument("--write", action="store_true", help="measure nothing, write the document")
    return made


def words_of(known):
    """A parser of an option's value: words of `known`, with commas between them."""

    def parse(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(known)}")
        return words

    return parse


def read(path: pathlib.Path) -> list[dict]:
    lines = []
    for text in path.read_text().splitlines() if path.exists() else []:
        # The last line may be half of one.
        with contextlib.suppress(json.JSONDecodeError):
            lines.append(json.loads(text))
    return lines


def keep(path: pathlib.Path, line: dict):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def build(*options: str) -> pathlib.Path:
    """Builds a release and gives the folder of its programs."""
    subprocess.run(["cargo", "build", "--locked", "--quiet", "--release", *options], cwd=ROOT, check=True)
    found = subprocess.run(METADATA, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    return pathlib.Path(json.loads(found)["target_directory"]) / "release"


def measure(path: pathlib.Path, lines: list[dict], jobs: list, there: set, seconds: float, run, describe):
    """Runs the jobs that are not `there` yet, each of which gives lines, and keeps these."""
    missing = [job for job in jobs if job not in there]
    say(f"{len(jobs) - len(missing)} of {len(jobs)} are there; the rest takes {len(missing) * (seconds + 1) / 60:.0f} minutes")
    for number, job in enumerate(missing, 1):
        for line in run(*job):
            lines.append(line)
            keep(path, line)
            say(f"{number}/{len(missing)}: {describe(line)}")


def spread(values, number) -> str:
    """The median, least and most, each written by `number`."""
    values = list(values)
    if not values:
        return "not measured"
    return f"{number(statistics.median(values))} [{number(min(values))}-{number(max(values))}]"


def write(page: pathlib.Path, name: str, text: str):
    """Puts a table between the marks of its name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    whole = page.read_text()
    if begin not in whole or end not in whole:
        sys.exit(f"{page.relative_to(ROOT)} has no place for the table: put {begin.strip()} and {end} on lines of their own there")
    head, rest = whole.split(begin)
    _, tail = rest.split(end)
    page.write_text(f"{head}{begin}{text}\n{end}{tail}")
    say(f"written: {page.relative_to(ROOT)}, {name}")


def say(text: str):
    print(text, file=sys.stderr, flush=True)


def script(args: argparse.Namespace, measure_missing, page: pathlib.Path, tables: dict):
    """Does what the options say: measures and prints, or writes each table to the place of its name on the page. An interrupt
    leaves what is measured, and the namespaces are taken away."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if args.fresh:
            args.kept.unlink(missing_ok=True)
        lines = read(args.kept)
        if not args.write:
            measure_missing(args, lines)
        if not lines:
            sys.exit(f"nothing is measured in {args.kept}; run it without --write first")
        for name, table in tables.items():
            text = table(lines)
            if args.write:
                write(page, name, text)
            else:
                print(text + "\n")
    except KeyboardInterrupt:
        sys.exit("interrupted; what is measured is kept, and the same command goes on")
