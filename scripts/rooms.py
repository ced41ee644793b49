#!/usr/bin/env python3
"""Measures how far the types of core and `ackclock` own their state.

    scripts/rooms.py [TREE]     prints the measures of this tree, or of another

Code is what remains without comments, blank lines and `#[cfg(test)]` items. A door is a restricted `pub`. A field counts as
assigned in a file that has `self.field = ..` in an `impl` of its type.
"""

import collections
import pathlib
import re
import sys

CRATES = ("ackclock-core", "ackclock")
CONDUCTORS = ("Connection", "Endpoint")
IMPL = re.compile(r"^impl(?:<[^{]*?>)?\s+([A-Z]\w*)(?:<[^{]*>)?\s*\{", re.MULTILINE)
DOOR = re.compile(r"\bpub\((?:super|crate|in [^)]*)\)")
ASSIGNMENT = re.compile(r"\bself((?:\.\w+)+)\s*(?:[|&+\-]?=)(?!=)")
# Comments; raw strings, strings and characters.
NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\(?:u\{\w+\}|x..|.)|[^'\\])'""", re.DOTALL
)


def main() -> None:
    tree = pathlib.Path(sys.argv[1] if sys.argv[1:] else __file__).resolve()
    root = tree if tree.is_dir() else tree.parent.parent
    for crate in CRATES:
        measure(crate, dict(sources(root / "crates" / crate / "src")))


def measure(crate: str, texts: dict[str, str]) -> None:
    code = sum(1 for text in texts.values() for line in text.split("\n") if line.strip())
    doors = sum(len(DOOR.findall(text)) for text in texts.values())
    print(f"{crate}: {code:,} lines of code in {len(texts)} files, {doors:,} doors: {1000 * doors / code:.1f} in 1,000 lines")
    files, methods, calls, assigned = (collections.defaultdict(set), collections.defaultdict(dict), [], collections.defaultdict(set))
    for name, text in texts.items():
        for found in IMPL.finditer(text):
            type_, body = found[1], text[found.end() : end_of_block(text, found.end() - 1)]
            files[type_].add(name)
            methods[type_].update((method, name) for method in re.findall(r"\bfn (\w+)", body))
            calls += [(type_, method, name) for method in re.findall(r"\bself\.(\w+)\(", body)]
            for field in ASSIGNMENT.findall(body):
                assigned[type_ + field].add(name)
    for type_, names in sorted(files.items(), key=lambda found: -len(found[1]))[:6]:
        print(f"  impl {type_} in {len(names)} files")
    for type_ in CONDUCTORS:
        own = [(method, name) for owner, method, name in calls if owner == type_ and method in methods[type_]]
        if own:
            across = sum(methods[type_][method] != name for method, name in own)
            print(f"  {type_}: {across} of {len(own)} calls of its own methods cross a file")
    many = sorted(field for field, names in assigned.items() if len(names) > 2)
    print(f"  fields assigned in three files or more: {', '.join(many) or 'none'}")


def sources(folder: pathlib.Path):
    for path in sorted(folder.rglob("*.rs")):
        name = str(path.relative_to(folder))
        if "tests" not in path.parts and not name.endswith(("tests.rs", "walks.rs", "testing.rs")):
            yield name, without_tests(path.read_text())


def without_tests(text: str) -> str:
    text = NO_CODE.sub(lambda found: " " if found[0].startswith("/") else "0", text)
    kept, start = [], 0
    while found := text.find("#[cfg(test)]", start) + 1:
        kept.append(text[start : found - 1])
        opened = re.compile(r"[;{]").search(text, found)
        start = opened.end() if opened[0] == ";" else end_of_block(text, opened.start()) + 1
    return "".join([*kept, text[start:]])


def end_of_block(text: str, opened: int) -> int:
    """Where the brace that opens at this place is closed."""
    depth = 0
    for place in range(opened, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError("a brace is not closed")


if __name__ == "__main__":
    main()
