#!/usr/bin/env python3
"""Mutation testing: changes the code in small ways, one at a time, and asks whether a test fails.

    scripts/mutants.py --sample 600 --seed 14      that many mutants of the four crates, drawn at random
    scripts/mutants.py --only '*/policy/prr.rs'    all of some files
    scripts/mutants.py --changed                   those on lines that the last commit, or the working tree, changed
    scripts/mutants.py --changed main --seconds 90 since `main`, in random order, as many as there is time for
    scripts/mutants.py --again --stacks            those that survived the last run, with the tests of whole stacks
    scripts/mutants.py --resume ...                counts what earlier runs caught as caught, and judges the rest
    scripts/mutants.py --list ...                  names them, and runs nothing

`cargo mutants` lists the mutants of ackclock-wire, ackclock-control, ackclock-core and ackclock-journal. All that are chosen are
written into one copy of the tree (mutants/ does that) and built once; an environment variable says which of them is active. A first run,
with none, notes which test reaches which mutant; then each mutant meets the tests that reach it, the shortest first, until
one fails: those of the four crates, and with `--stacks` those that drive whole stacks through a simulated network. Together
they take 30 s at most. A test that runs for 30 s of processor time hangs, and that counts as caught.

A mutant that survives needs a test, or an entry with a reason in docs/mutants.toml. Without either the script fails, and so
it does if an entry there matches no mutant.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import fnmatch
import json
import math
import os
import pathlib
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Later versions may name mutants otherwise.
CARGO_MUTANTS = "27.1.0"
EXPLAINED = ROOT / "docs/mutants.toml"
WORK = ROOT / "target/mutants"
TREE = WORK / "tree"
LAST = WORK / "survivors.json"
# One line for each mutant that was judged, in any run.
JUDGED = WORK / "judged.jsonl"
CRATES = ("ackclock-form", "ackclock-wire", "ackclock-control", "ackclock-core", "ackclock-journal")
PACKAGES = [word for crate in CRATES for word in ("--package", crate)]
FEATURES = ["--features", "ackclock-core/tcp-ao,ackclock-core/prefetch,ackclock-core/serde"]
OWN_TESTS = ["--lib", "--tests", *PACKAGES]
# Tests of whole stacks that need neither a kernel nor a device.
OUTER_PACKAGES = ["--package", "ackclock-tests", "--package", "ackclock-fuzz"]
OUTER_NAMES = ("protocol", "virtual_time", "swarm", "replay")
OUTER_TESTS = [*OUTER_PACKAGES, *(word for name in OUTER_NAMES for word in ("--test", name))]
# What the tests are built with is that of `cargo test`, and so are crates of others, which need not be built again. Only the
# five crates are optimised less: quick to build, and quick enough to run. The same for `cargo check`, which would take the
# tree with the mutants and the tree without for one another otherwise.
PROFILES = "".join(f"\n[profile.{name}.package.{crate}]\nopt-level = 1\n" for name in ("dev", "test") for crate in CRATES)
ENVIRONMENT = os.environ | {
    "CARGO_INCREMENTAL": "1",
    "CARGO_TARGET_DIR": str(ROOT / "target"),
    "CARGO_TERM_COLOR": "never",
    "PROPTEST_RNG_SEED": "14",
}
CPU_SECONDS = 30
# A test that waits for something that never comes takes no processor time.
IDLE_SECONDS = 200
MEMORY_BYTES = 4 << 30
# Tests that reach a mutant run in lots, by the seconds that they take together: most mutants are caught by the first. Tests
# beyond the last lot are not asked.
LOTS = (0.2, 3.0, 20.0)
OUTER_LOTS = (1.0, 10.0)

# Goes to the end of each crate.
ACTIVE = """
#[doc(hidden)]
pub mod mutants {
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    const UNREAD: u32 = u32::MAX;
    const NOTING: u32 = u32::MAX - 1;
    static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);

    #[inline]
    pub fn active(place: u32) -> u32 {
        let active = ACTIVE.load(Relaxed);
        if active < NOTING { active } else { slow(place) }
    }

    #[cold]
    #[inline(never)]
    fn slow(place: u32) -> u32 {
        if ACTIVE.load(Relaxed) == UNREAD {
            let chosen = std::env::var("MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            ACTIVE.store(if std::env::var_os("MUTANTS_REACHED").is_some() { NOTING } else { chosen }, Relaxed);
            return active(place);
        }
        let _ = REACHED.try_with(|reached| {
            let mut reached = reached.borrow_mut();
            let place = place as usize;
            if reached.places.len() <= place {
                reached.places.resize(place + 1, false);
            }
            reached.places[place] = true;
        });
        0
    }

    struct Reached {
        test: String,
        places: Vec<bool>,
    }

    thread_local! {
        static REACHED: std::cell::RefCell<Reached> = std::cell::RefCell::new(Reached {
            test: std::thread::current().name().unwrap_or("").to_owned(),
            places: Vec::new(),
        });
    }

    /// Seconds of processor time of this thread, which runs one test.
    fn seconds() -> f64 {
        let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        spent.split(' ').next().and_then(|spent| spent.parse::<f64>().ok()).map_or(0.0, |nanos| nanos / 1e9)
    }

    impl Drop for Reached {
        fn drop(&mut self) {
            let Some(path) = std::env::var_os("MUTANTS_REACHED") else { return };
            let mut line = format!("{}\\t{}", self.test, seconds());
            for (place, _) in self.places.iter().enumerate().filter(|(_, reached)| **reached) {
                line += &format!("\\t{place}");
            }
            line.push('\\n');
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            file.and_then(|mut file| file.write_all(line.as_bytes())).expect("what is reached can be written down");
        }
    }
}
"""


@dataclasses.dataclass
class Mutant:
    number: int
    file: str
    function: str
    text: str
    genre: str
    line: int
    column: int
    last_line: int
    replacement: str
    code: str
    # Which of those that are alike in all but the line.
    nth: int = 0

    def __str__(self):
        return f"{self.file}:{self.line}: {self.text}"

    def identity(self) -> str:
        """What stays the same while other lines of the file change."""
        return f"{self.file}: {self.text}: {self.column}: {self.code}"


@dataclasses.dataclass
class Judge:
    """A test binary, and what its tests reach."""

    path: str
    name: str
    folder: str
    outer: bool
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    reach: dict[int, set[str]] = dataclasses.field(default_factory=lambda: collections.defaultdict(set))


def main() -> int:
    options = parse()
    os.chdir(ROOT)
    if options.changed and not any(touched(options.changed).values()):
        say(f"no line of {', '.join(CRATES)} differs from {options.changed}")
        return 0
    all_mutants = listed()
    explained, problems = explanations(all_mutants)
    chosen = choose(all_mutants, options)
    if options.list:
        for mutant in chosen:
            print(f"{mutant}{'  (explained)' if mutant.number in explained else ''}")
    survivors = [] if options.list else run(chosen, explained, options)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems or survivors else 0


def parse() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", action="append", metavar="GLOB", help="files, relative to the root; may be repeated")
    made.add_argument("--sample", type=int, metavar="N", help="so many, drawn at random")
    made.add_argument("--seed", type=int, default=14, help="of the sample, and of the order of --seconds")
    made.add_argument("--changed", nargs="?", const="HEAD~1", metavar="BASE", help="on lines changed since then")
    made.add_argument("--again", action="store_true", help="those that survived the last run without an explanation")
    made.add_argument("--stacks", action="store_true", help="tests of whole stacks judge what the crates' own let pass")
    made.add_argument("--resume", action="store_true", help="do not judge again what an earlier run caught")
    made.add_argument("--seconds", type=float, metavar="N", help="stop after that many seconds of judging")
    made.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants judged at once")
    made.add_argument("--list", action="store_true", help="run nothing")
    return made.parse_args()


# What there is, and what is chosen of it.


def listed() -> list[Mutant]:
    if not shutil.which("cargo-mutants"):
        say("cargo-mutants is not installed; installing it takes some minutes")
        subprocess.run(["cargo", "install", "--locked", "--quiet", "--version", CARGO_MUTANTS, "cargo-mutants"], check=True)
    command = ["cargo", "mutants", "--list", "--json", "--no-config", *PACKAGES]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    sources = {file: (ROOT / file).read_text().splitlines() for file in {one["file"] for one in found}}
    mutants, alike = [], collections.Counter()
    for number, one in enumerate(found, 1):
        start = one["span"]["start"]
        mutants.append(
            Mutant(
                number=number,
                file=one["file"],
                function=(one["function"] or {"function_name": ""})["function_name"],
                text=re.sub(r"^.*?:\d+:\d+: ", "", one["name"]),
                genre=one["genre"],
                line=start["line"],
                column=start["column"],
                last_line=one["span"]["end"]["line"],
                replacement=one["replacement"],
                code=sources[one["file"]][start["line"] - 1].strip(),
            )
        )
        alike[mutants[-1].identity()] += 1
        mutants[-1].nth = alike[mutants[-1].identity()]
    return mutants


def explanations(mutants: list[Mutant]) -> tuple[dict[int, str], list[str]]:
    """Why which mutants change nothing that a test could see; and what is wrong with the list of them."""
    reasons, problems = {}, []
    entries = tomllib.loads(EXPLAINED.read_text())["equivalent"] if EXPLAINED.exists() else []
    for entry in entries:
        unknown = set(entry) - {"file", "function", "mutant", "code", "why"}
        if unknown or not entry.get("why"):
            problems.append(f"docs/mutants.toml: {entry}: {', '.join(unknown) or 'no reason'}")
        matching = [mutant for mutant in mutants if matches(entry, mutant)]
        if not matching:
            key = ", ".join(f"{name} = {entry[name]!r}" for name in ("file", "function", "mutant", "code") if name in entry)
            problems.append(f"docs/mutants.toml: there is no mutant with {key}")
        reasons |= {mutant.number: entry.get("why") for mutant in matching}
    return reasons, problems


def matches(entry: dict, mutant: Mutant) -> bool:
    """`file` and `function` may have asterisks. `mutant` is exact, but for an asterisk at its end; without it all of the function
    are meant. `code` is part of the line, where several mutants of a function have the same words."""
    text = entry.get("mutant", "*")
    is_meant = mutant.text.startswith(text[:-1]) if text.endswith("*") else text == mutant.text
    return (
        is_meant
        and fnmatch.fnmatchcase(mutant.file, entry.get("file", "*"))
        and fnmatch.fnmatchcase(mutant.function, entry.get("function", "*"))
        and entry.get("code", "") in mutant.code
    )


def choose(mutants: list[Mutant], options: argparse.Namespace) -> list[Mutant]:
    if options.only:
        mutants = [one for one in mutants if any(fnmatch.fnmatch(one.file, glob) for glob in options.only)]
    if options.changed:
        lines = changed_lines(options.changed)
        mutants = [one for one in mutants if not lines[one.file].isdisjoint(range(one.line, one.last_line + 1))]
    if options.again:
        if not LAST.exists():
            sys.exit("no run has come to its end: there is nothing to judge again")
        names = set(json.loads(LAST.read_text()))
        mutants = [one for one in mutants if f"{one.file}: {one.text}" in names]
    if options.sample is not None and options.sample < len(mutants):
        mutants = sorted(random.Random(options.seed).sample(mutants, options.sample), key=lambda one: one.number)
    return mutants


def touched(base: str) -> dict[str, set[int]]:
    """The changed lines of the four crates' sources."""
    folders = tuple(f"crates/{crate}/src/" for crate in CRATES)
    return {file: lines for file, lines in changed_lines(base).items() if file.startswith(folders)}


def changed_lines(base: str) -> dict[str, set[int]]:
    """The lines of the working tree that differ from a commit; all of a file that git does not know."""
    lines, file = collections.defaultdict(set), None
    diff = subprocess.run(["git", "diff", "--unified=0", base, "--", "crates"], check=True, stdout=subprocess.PIPE, text=True)
    for line in diff.stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            begin = int(found[1])
            lines[file] |= set(range(begin, begin + int(found[2] or 1)))
    command = ["git", "ls-files", "--others", "--exclude-standard", "--", "crates"]
    for file in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        lines[file] = set(range(1, 1 + len((ROOT / file).read_bytes().splitlines())))
    return lines


# The build that has them all.


def run(chosen: list[Mutant], explained: dict[int, str], options: argparse.Namespace) -> list[Mutant]:
    if not chosen:
        say("no mutant is chosen")
        return []
    began = time.monotonic()
    LAST.unlink(missing_ok=True)
    say(f"{len(chosen)} mutants in {len({one.file for one in chosen})} files")
    places, constant, broken = write_viable(chosen)
    judges = build(OWN_TESTS, outer=False) + (build(OUTER_TESTS, outer=True) if options.stacks else [])
    built = time.monotonic()
    left_out = f"{constant} left out in constants, {broken} that do not compile"
    say(f"built in {built - began:.0f} s: {len(places)} mutants, {left_out}")
    for judge in judges:
        note_reach(judge)
    noted = time.monotonic()
    whole = sum(sum(judge.seconds.values()) for judge in judges)
    count = sum(len(judge.seconds) for judge in judges)
    say(f"without a mutant: {count} tests, {whole:.0f} s of tests, {noted - built:.0f} s in all")
    todo = [one for one in chosen if one.number in places]
    if options.seconds is not None:
        random.Random(options.seed).shuffle(todo)
    outcomes = known(todo) if options.resume else {}
    if outcomes:
        say(f"{len(outcomes)} were caught by an earlier run")
    outcomes |= judge_all([one for one in todo if one.number not in outcomes], places, judges, options)
    return report(chosen, todo, constant, broken, outcomes, explained, time.monotonic() - noted)


def write_viable(chosen: list[Mutant]):
    """Writes the mutants into a copy of the tree, and leaves out those that do not compile. Gives the place of each that is
    left, and counts the others: in constants, and not compiling."""
    copy_tree()
    command = ["cargo", "build", "--locked", "--quiet", "--release", "--manifest-path", ROOT / "mutants/Cargo.toml"]
    subprocess.run([*command, "--target-dir", WORK / "writer"], check=True)
    kept, broken = set(), set()
    while True:
        report = write([one for one in chosen if one.number not in broken], kept)
        places = {int(number): place for number, place in report["places"].items()}
        errors = check()
        if not errors:
            return places, len(report["left_out"]), len(broken)
        new, constant = blame(errors, places)
        if not new - broken and not constant - kept:
            sys.exit("\n".join(["the copy of the tree does not compile:", *(error["rendered"] for error in errors[:5])]))
        broken |= new
        kept |= constant


def copy_tree():
    """The tree as it is; what is unchanged keeps its time, so that it is not built again."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    names = {name for name in names if name and (ROOT / name).is_file()}
    for path in TREE.rglob("*") if TREE.exists() else []:
        if path.is_file() and str(path.relative_to(TREE)) not in names:
            path.unlink()
    for name in names:
        # The writer writes the sources of the four crates.
        if not (name.endswith(".rs") and name.startswith(tuple(f"crates/{crate}/src/" for crate in CRATES))):
            put(TREE / name, (ROOT / name).read_bytes() + (PROFILES.encode() if name == "Cargo.toml" else b""))


def put(path: pathlib.Path, data: bytes):
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write(mutants: list[Mutant], constant: set[str]) -> dict:
    files = {}
    for crate in CRATES:
        for path in (ROOT / f"crates/{crate}/src").rglob("*.rs"):
            files[str(path.relative_to(ROOT))] = []
            (TREE / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
    fields = ("number", "genre", "line", "column", "replacement")
    for one in mutants:
        files[one.file].append({field: getattr(one, field) for field in fields})
    task = {"from": str(ROOT), "to": str(TREE), "files": files, "constant": sorted(constant)}
    task["appended"] = {f"crates/{crate}/src/lib.rs": ACTIVE for crate in CRATES}
    command = [WORK / "writer/release/ackclock-mutants"]
    done = subprocess.run(command, input=json.dumps(task), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def check() -> list[dict]:
    command = ["cargo", "check", "--locked", "--keep-going", "--message-format=json", "--lib"]
    done = subprocess.run([*command, *PACKAGES, *FEATURES], cwd=TREE, env=ENVIRONMENT, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [line["message"] for line in lines if line["reason"] == "compiler-message" and line["message"]["level"] == "error"]
    if done.returncode and not errors:
        sys.exit(done.stderr)
    return [error for error in errors if error["spans"]]


def blame(errors: list[dict], places: dict[int, int]) -> tuple[set[int], set[str]]:
    """The mutants that errors of the compiler stand in, and functions that must stay constant."""
    mutants, constant = set(), set()
    at_place = collections.defaultdict(set)
    for number, place in places.items():
        at_place[place].add(number)
    for error in errors:
        found = re.search(r"cannot call non-const .*?`([^`]*)`", error["message"])
        name = re.sub(r"<.*>", "", found[1]).split("::")[-1] if found else "active"
        if name != "active":
            constant.add(name)
            continue
        for span in sorted(error["spans"], key=lambda span: not span["is_primary"]):
            kind, number = innermost(span)
            if kind:
                mutants |= {number} if kind == "m" else at_place[number]
                break
        else:
            # A match that lacks an arm: the compiler would have one added after the last, which may be the deleted one.
            for span in (span for child in error["children"] for span in child["spans"]):
                mutants |= at_place[last_before(span)]
    return mutants, constant


def last_before(span: dict) -> int | None:
    """The last place that ends before a span."""
    path = TREE / span["file_name"]
    before = path.read_bytes()[: span["byte_start"]] if path.is_file() else b""
    ended = re.findall(rb"/\*p(\d+)\.\*/", before)
    return int(ended[-1]) if ended else None


def innermost(span: dict):
    """The mutant (`m`) or the place (`p`) that a span stands in, by the comments around them. Outside all, it is the last early
    return before it, with which the rest of a body disagrees about an opaque type."""
    path = TREE / span["file_name"]
    if not path.is_file():
        return None, None
    source, begin = path.read_bytes(), span["byte_start"]
    open_now, returned = [], (None, None)
    for mark in re.finditer(rb"/\*([mp])(\d+)(\.?)\*/(return)?", source):
        if mark.start() > begin:
            break
        if mark[3]:
            open_now.pop()
            continue
        if mark[4]:
            returned = open_now[-1]
        open_now.append((mark[1].decode(), int(mark[2])))
    return open_now[-1] if open_now else returned


def build(chosen_tests: list[str], outer: bool) -> list[Judge]:
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json", *chosen_tests, *FEATURES]
    done = subprocess.run(command, cwd=TREE, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    made = [line for line in lines if line["reason"] == "compiler-artifact" and line["profile"]["test"] and line["executable"]]
    return [
        Judge(line["executable"], line["target"]["name"], str(pathlib.Path(line["manifest_path"]).parent), outer)
        for line in made
    ]


# Judging.


def note_reach(judge: Judge):
    """Runs all tests of a binary without a mutant. Tests have a thread each, named as they are, if there are two at once."""
    noted = WORK / "reached.txt"
    noted.unlink(missing_ok=True)
    command = [judge.path, "--test-threads=2"]
    done = subprocess.run(
        command, cwd=judge.folder, env=ENVIRONMENT | {"MUTANTS_REACHED": str(noted)}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"without a mutant a test fails:\n{done.stdout[-3000:]}")
    names = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. ok$", done.stdout, re.M)
    judge.seconds = dict.fromkeys(names, 0.0)
    for line in noted.read_text().splitlines() if noted.exists() else []:
        name, seconds, *reached = line.split("\t")
        # A thread without a test's name serves some test or other.
        tests = {name} if name in judge.seconds else set(names)
        if name in judge.seconds:
            judge.seconds[name] = max(judge.seconds[name], float(seconds))
        for place in reached:
            judge.reach[int(place)] |= tests


def known(todo: list[Mutant]) -> dict[int, str]:
    """What earlier runs caught: more tests do not bring a mutant back."""
    lines = [json.loads(line) for line in JUDGED.read_text().splitlines()] if JUDGED.exists() else []
    outcomes = {(name, nth): outcome for name, nth, outcome in lines if outcome not in ("survives", "unreached")}
    names = {one.number: (one.identity(), one.nth) for one in todo}
    return {number: outcomes[name] for number, name in names.items() if name in outcomes}


def judge_all(todo, places, judges, options) -> dict[int, str]:
    outcomes, began, said = {}, time.monotonic(), time.monotonic()
    until = began + options.seconds if options.seconds is not None else math.inf

    def one(mutant: Mutant):
        return judge_one(mutant.number, places[mutant.number], judges) if time.monotonic() < until else None

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, JUDGED.open("a") as kept:
        for mutant, outcome in zip(todo, pool.map(one, todo)):
            if outcome is not None:
                outcomes[mutant.number] = outcome
                print(json.dumps([mutant.identity(), mutant.nth, outcome]), file=kept, flush=True)
            if outcome in ("survives", "unreached"):
                say(f"{outcome}: {mutant}")
            if time.monotonic() > said + 30:
                said = time.monotonic()
                say(f"{len(outcomes)} of {len(todo)} after {said - began:.0f} s")
    return outcomes


def judge_one(number: int, place: int, judges: list[Judge]) -> str:
    """`caught`, `caught outside` (only by tests of whole stacks), `hangs`, `survives`, or `unreached`."""
    reached = False
    for outer, lots in ((False, LOTS), (True, OUTER_LOTS)):
        asked = [judge for judge in judges if judge.outer == outer]
        tests = [(judge.seconds[name], index, name) for index, judge in enumerate(asked) for name in judge.reach[place]]
        reached |= bool(tests)
        for lot in divided(tests, lots):
            for index, judge in enumerate(asked):
                names = [name for _, at, name in lot if at == index]
                outcome = run_tests(judge, names, number) if names else "survives"
                if outcome != "survives":
                    return "caught outside" if outer and outcome == "caught" else outcome
    return "survives" if reached else "unreached"


def divided(tests: list[tuple], most: tuple[float, ...]) -> list[list[tuple]]:
    """The shortest tests in lots; each lot ends when all before take that many seconds."""
    lots, spent = [[] for _ in most], 0.0
    for test in sorted(tests):
        spent += test[0]
        for lot, seconds in zip(lots, most):
            if spent <= seconds:
                lot.append(test)
                break
    return lots


def run_tests(judge: Judge, names: list[str], number: int) -> str:
    limits = ["prlimit", f"--cpu={CPU_SECONDS}:{CPU_SECONDS + 1}", f"--as={MEMORY_BYTES}", "--core=0"]
    command = [*limits, judge.path, "--exact", "--test-threads=1", *names]
    environment = ENVIRONMENT | {"MUTANT": str(number), "RUST_BACKTRACE": "0"}
    with subprocess.Popen(
        command, cwd=judge.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        idle, tail = 0, b""
        while True:
            # Seconds that pass while this script is stopped do not count.
            ready, _, _ = select.select([process.stdout], [], [], 1.0)
            idle = 0 if ready else idle + 1
            data = os.read(process.stdout.fileno(), 65536) if ready else b""
            tail = tail[-10:] + data
            if idle >= IDLE_SECONDS or b"... FAILED" in tail:
                process.kill()
            if ready and not data:
                break
        code = process.wait()
    if idle >= IDLE_SECONDS or code == -signal.SIGXCPU:
        return "hangs"
    return "caught" if code else "survives"


# What came of it.


def report(chosen, todo, constant, broken, outcomes, explained, seconds) -> list[Mutant]:
    """Says it, and gives the survivors without an explanation."""
    count = collections.Counter(outcomes.values())
    alive = [one for one in todo if outcomes.get(one.number) in ("survives", "unreached")]
    unexplained = [one for one in alive if one.number not in explained]
    judged = len(outcomes)
    low, high = wilson(len(unexplained), judged)
    print(f"{len(chosen)} chosen: {constant} in constants, {broken} do not compile, {judged} judged in {seconds:.0f} s")
    if len(todo) > judged:
        print(f"no time was left for {len(todo) - judged}")
    caught = judged - len(alive)
    print(
        f"{caught} caught, {count['hangs']} of them because a test hangs and {count['caught outside']} only by tests of whole "
        f"stacks; {len(alive)} survive, {len(alive) - len(unexplained)} of them explained in docs/mutants.toml"
    )
    print(f"unexplained: {len(unexplained)}, {share(len(unexplained), judged)} (95 %: {low:.1%} to {high:.1%})")
    for one in unexplained:
        print(f"{one}{' (no test reaches it)' if outcomes[one.number] == 'unreached' else ''}\n    {one.code}")
    for one in todo:
        if one.number in explained and outcomes.get(one.number) in ("caught", "caught outside", "hangs"):
            say(f"explained in docs/mutants.toml, but caught: {one}")
    LAST.write_text(json.dumps([f"{one.file}: {one.text}" for one in unexplained], indent=1))
    return unexplained


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none judged"


def wilson(part: int, whole: int, z: float = 1.96) -> tuple[float, float]:
    """E. B. Wilson's interval for a share, which stays between 0 and 1 for few."""
    if not whole:
        return 0.0, 1.0
    p, n = part / whole, whole
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def say(text: str):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
