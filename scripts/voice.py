#!/usr/bin/env python3
"""Holds what readers meet against the house's voice: native English, subject first, the RFCs' words (CONTRIBUTING.md).

A list of phrases that read as if translated is refused, in documents and in the comments and strings of sources. Words
between backticks are names and are not read. Each breach is printed as `file:line: "phrase": what to say instead`.
Comments and sentences in them that begin with a clause ("What ..", "The same ..") instead of a noun or a verb are
counted, and their number may only fall.

    scripts/voice.py            prints breaches, and fails if there are any
    scripts/voice.py --check    the same
    scripts/voice.py --clauses  prints where comments begin with a clause
    scripts/voice.py PATH..     reads these files instead
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Documents are read whole, sources for comments and strings.
DOCUMENTS = [
    "*.md",
    "docs/*.md",
    "docs/guide/*.md",
    "docs/*.toml",
    "docs/*.tsv",
    "docs/kit/*.md",
    "crates/*/*.md",
    "crates/ackclock/src/*.md",
    "benches/results/*.md",
]
SOURCES = [f"{folder}/**/*.rs" for folder in ("benches", "crates", "examples", "fuzz", "mutants", "tests")]

# What is refused, and what to say instead. A pattern matches whole words, in any case.
PHRASES = {
    r"anew": "again, or a new ..",
    r"how-?manieth": "the number of ..",
    r"nobody|somebody": "name the actor: a peer, a user, another program; or never",
    r"so many": "the number; that many",
    r"who(so)?ever": "any user, any process",
    r"one's own|of one's": "your own, its own",
    r"(the|an) own": "its own, the stack's own",
    r"as one likes": "as you like",
    r"that there (is|are)( not)?": "existing; missing",
    r"never (is|are) to": "never .., must not ..",
    r"(is|are|was|were|be|been) (told|said)(?! (from|apart))": "learns, reports, states: with the actor as the subject",
    r"(unless|if|as|what|who) told": "by default; if asked",
    r"(?<!none\s)of (which|whom) (the|a|an|each|some|most|all)\b(?! of)": "whose .., or a sentence of its own",
    r"(?<!there\s)(is|are) no (?!longer|other|more|less|fewer|later|earlier|larger|smaller|better|worse|higher|lower|slower|faster)[a-z]+": "is not a ..",
    r"(to|by|of|with|from) who (?!is\b)[a-z]+": "for those that ..; name the actor",
    r"who (asks|wants|takes|gives|reads|has)": "name the actor",
    r"but for": "except for, except by",
    r"mend(s|ed|ing)?": "fix, repair, restore",
    r"makes? use of": "uses",
    r"stands? in (the table|\[|docs)": "is in",
    r"in earnest": "honest ones never ..",
    r"for it (is|has|was|would|takes|says|may)": "because it ..",
    r"whither|thereto|therein|wherein|whereof|wherefore": "to which, in which, why",
    r"not yet more": "not yet ..",
}
# A comment that begins so says late, or not at all, what the thing is; a sentence that begins with "What" has a clause for a subject.
CLAUSE = re.compile(r"\s*//(?:[/!]? (?:What|The same|As there)|.*[.:;] What)\b")
CLAUSES_MAX = 0
# A phrase may be wrapped over two lines.
REFUSED = [(re.compile(r"(?<![\w-])(?:" + phrase.replace(" ", r"\s+") + r")(?![\w-])", re.IGNORECASE), instead)
           for phrase, instead in PHRASES.items()]
# A name may be wrapped, too; what a fence encloses is read, without its marks.
NAMES = re.compile(r"`[^`]*`|\{\w*(?::[^}]*)?\}")
FENCE = re.compile(r"```\w*")
# Comments, strings and characters of Rust.
TOKEN = re.compile(
    r"""
      //[/!]?(?P<comment>[^\n]*)
    | \bb?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)
    | b?"(?P<string>(?:\\.|[^"\\])*)"
    | b?'(?:\\(?:u\{[^}]*\}|x[0-9a-fA-F]{2}|.)|[^'\\\n])'
    """,
    re.VERBOSE | re.DOTALL,
)


def main():
    words = [word for word in sys.argv[1:] if word not in ("--check", "--clauses")]
    if any(word.startswith("-") for word in words):
        sys.exit(__doc__)
    whole = [Path(word).resolve() for word in words] or files(DOCUMENTS) + files(SOURCES)
    breaches = [breach for path in whole for breach in check(path)]
    for breach in breaches:
        print(breach, file=sys.stderr)
    if breaches:
        sys.exit(f"voice: {len(breaches)} phrases to be said otherwise")
    found = [place for path in whole for place in clauses(path)]
    if "--clauses" in sys.argv:
        print(*found, sep="\n")
    if len(found) > CLAUSES_MAX:
        sys.exit(f"voice: {len(found)} comments begin with What, The same or As there; {CLAUSES_MAX} is the bound")
    print(f"voice: {len(whole)} files speak plainly; {len(found)} comments begin with a clause")


def files(patterns):
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if not path.is_symlink()}
    return sorted(path for path in found if "target" not in path.relative_to(ROOT).parts)


def check(path):
    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    text = path.read_text()
    for first, block in blocks(text) if path.suffix == ".rs" else [(1, text)]:
        block = NAMES.sub(lambda name: "`" + "\n" * name[0].count("\n") + "`", FENCE.sub("", block))
        found = [(match, instead) for pattern, instead in REFUSED for match in pattern.finditer(block)]
        for match, instead in sorted(found, key=lambda one: one[0].start()):
            phrase = " ".join(match[0].split())
            yield f"{where}:{first + block.count(chr(10), 0, match.start())}: \"{phrase}\": {instead}"


def clauses(path):
    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    lines = path.read_text().splitlines() if path.suffix == ".rs" else []
    return [f"{where}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if CLAUSE.match(line)]


def blocks(text):
    """What of a source is read, each with the number of its first line: strings, and comments of consecutive lines as one."""
    number, at, first, together = 1, 0, 0, []
    for token in TOKEN.finditer(text):
        number, at = number + text.count("\n", at, token.start()), token.start()
        if token["comment"] is None:
            # A string goes on behind a backslash at the end of a line.
            yield number, re.sub(r"\\(?=\n)", " ", token["string"] or token["raw"] or "")
            continue
        if together and number != first + len(together):
            yield first, "\n".join(together)
            together = []
        if not together:
            first = number
        together.append(token["comment"])
    yield first, "\n".join(together)


if __name__ == "__main__":
    main()
