#!/usr/bin/env python3
"""Builds the guide (docs/SUMMARY.md, docs/guide) into the folder `guide`, and checks its links.

The pages of docs/kit are listed in docs/SUMMARY.md first. mdBook turns every link to a Markdown page into one to HTML, even if the
page is outside the guide; such links are turned back. Then each local link must lead to a file of the tree or the guide, and each
fragment to an element. mdBook comes from:

    cargo install mdbook --version 0.5.4 --locked --no-default-features --features search
"""

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "guide"
LINK = re.compile(r'(?<=[ \n])(href|src)="([^"]*)"')
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
IDENTITY = re.compile(r'\sid="([^"]*)"')


def main():
    if sys.argv[1:]:
        sys.exit(__doc__)
    list_kit()
    if shutil.which("mdbook") is None:
        print(f"the guide is not built: mdbook is not installed:{__doc__.rsplit(':', 1)[1].rstrip()}")
        return
    shutil.rmtree(BUILT, ignore_errors=True)
    built = subprocess.run(["mdbook", "build", "docs/guide"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    # mdBook reports a page that it cannot read, and goes on without it.
    if built.returncode != 0 or re.search(r"\b(WARN|ERROR)\b", built.stderr):
        sys.exit(f"guide: mdbook failed\n{built.stderr}")
    pages = sorted(BUILT.rglob("*.html"))
    texts = {page: restored(page) for page in pages}
    identities = {page: {html.unescape(name) for name in IDENTITY.findall(text)} for page, text in texts.items()}
    breaches = [breach for page, text in texts.items() for breach in check(page, text, identities)]
    for breach in breaches:
        print(breach, file=sys.stderr)
    if breaches:
        sys.exit(f"guide: {len(breaches)} links lead nowhere")
    print(f"guide: {len(pages)} pages, from guide/index.html on; every link leads somewhere")


def list_kit():
    """Puts the page of each controller under that of the kit."""
    summary = ROOT / "docs/SUMMARY.md"
    pages = [page for page in sorted(ROOT.glob("docs/kit/*.md"), key=lambda page: page.stem) if page.stem != "README"]
    rows = "".join(f"    - [{page.stem}](kit/{page.name})\n" for page in pages)
    summary.write_text(re.sub(r"(?<=\(kit/README\.md\)\n)(?:    - .*\n)*", rows, summary.read_text()))


def restored(page):
    """The text of a page, with links to Markdown restored where the page is outside the guide."""

    def restore(link):
        path, mark, fragment = link[2].partition("#")
        target = page.parent / unquote(path)
        if ELSEWHERE.match(path) or target.suffix != ".html" or target.exists():
            return link[0]
        markdown = target.with_suffix(".md")
        return f'{link[1]}="{path.removesuffix("html")}md{mark}{fragment}"' if markdown.exists() else link[0]

    text = page.read_text()
    changed = LINK.sub(restore, text)
    if changed != text:
        page.write_text(changed)
    return changed


def check(page, text, identities):
    for _, link in LINK.findall(text):
        path, _, fragment = html.unescape(link).partition("#")
        if ELSEWHERE.match(path):
            continue
        target = (page.parent / unquote(path)).resolve() if path else page
        where = page.relative_to(BUILT)
        if not target.exists():
            yield f"{where}: the link to {link} leads nowhere"
        elif fragment and target in identities and unquote(fragment) not in identities[target]:
            yield f"{where}: {link} names a place that does not exist"


if __name__ == "__main__":
    main()
