"""What `scripts/swarm.py --planted` does: bugs put into a copy of the tree, one at a time, and the swarm's seeds until it
notices. tests/planted.toml says which bugs.

The copy is target/planted/tree. All bugs are in one build of it, and the variable PLANTED chooses one; without it the same
build has to pass the same seeds, or a failure would show nothing.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "target/planted"
CORE = "crates/ackclock-core/src"
SWITCH = '''//! Which bug was chosen.
pub(crate) fn is(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("PLANTED").unwrap_or_default()) == name
}
'''


def main(options):
    bugs = read("tests/planted.toml")
    unknown = set(options.planted) - {bug["name"] for bug in bugs}
    if unknown:
        sys.exit(f"tests/planted.toml has no bug called {', '.join(sorted(unknown))}")
    copy_tree(PLACE / "tree", plant(bugs))
    swarm = build(PLACE / "tree", "ackclock-tests", "swarm")
    chosen = [bug for bug in bugs if not options.planted or bug["name"] in options.planted]
    rows, needed = [], 0
    for bug in chosen:
        found, seconds, why = look_for(swarm, bug["name"], options)
        needed = max(needed, found or 0)
        rows.append((bug, found, seconds, why))
        print(f"{bug['name']}: {f'after {found} seeds' if found else 'not noticed'}, {seconds:.0f} s: {why}", flush=True)
    print("\n| bug | what is wrong | seeds until it was noticed | by |\n|---|---|---|---|")
    for bug, found, _, why in rows:
        print(f"| `{bug['name']}` | {bug['what']} | {found or f'not in {options.seeds}'} | {why} |")
    if needed:
        healthy, _, why = look_for(swarm, "", options, needed)
        if healthy:
            sys.exit(f"and without any of them, seed {options.first + healthy - 1} fails too: {why}")
        print(f"\nWithout any of them, the same build passes {needed} seeds.")
    missed = [bug["name"] for bug, found, *_ in rows if not found]
    if missed:
        print(f"not noticed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def read(file):
    return tomllib.loads((ROOT / file).read_text())["bug"]


def plant(bugs):
    """The files that the bugs change, with their new text."""
    changed = {f"{CORE}/planted.rs": SWITCH}
    changed[f"{CORE}/lib.rs"] = (ROOT / CORE / "lib.rs").read_text() + "\nmod planted;\n"
    for bug in bugs:
        for edit in bug["edit"]:
            name = edit["file"]
            text = changed.get(name) or (ROOT / name).read_text()
            if text.count(edit["before"]) != 1:
                sys.exit(f"{bug['name']}: {name} has changed; give its row other words to look for")
            after = edit["after"].replace("PLANTED", f'crate::planted::is("{bug["name"]}")')
            changed[name] = text.replace(edit["before"], after)
    return changed


def copy_tree(tree, changed):
    """Writes what differs only, or everything would be built each time."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, [*names, *changed]):
        source, target = ROOT / name, tree / name
        if name not in changed and not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        new = changed[name].encode() if name in changed else source.read_bytes()
        if not target.exists() or target.read_bytes() != new:
            target.write_bytes(new)
            if name not in changed:
                shutil.copymode(source, target)


def build(tree, package, program):
    """The program, of the copy: in the profile without debug assertions, so that what notices a bug is its own checks."""
    command = "cargo build --locked --quiet --profile plain".split()
    subprocess.run([*command, "-p", package, "--bin", program, "--target-dir", PLACE / "target"], cwd=tree, check=True)
    return PLACE / "target/plain" / program


def look_for(swarm, name, options, seeds=None):
    """How many seeds it took to notice, or None; seconds; and what the swarm said."""
    command = [swarm, "run", "--from", str(options.first), "--seeds", str(seeds or options.seeds)]
    began = time.monotonic()
    limit = options.patience
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PLANTED": name}, timeout=limit)
    except subprocess.TimeoutExpired:
        return None, time.monotonic() - began, f"stopped after {limit} s"
    seconds = time.monotonic() - began
    if done.returncode == 0:
        return None, seconds, "every seed passed"
    failed = re.search(r"failed seed: (\d+)\n(.*)", done.stderr, re.S)
    if not failed:
        sys.exit(f"{name}: {done.stderr}")
    return int(failed[1]) - options.first + 1, seconds, failed[2].strip().split("\n")[0][:110].replace("|", "/")
