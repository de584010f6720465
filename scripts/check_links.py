"""Fails for every link in the Markdown files of this repository that leads nowhere.

Relative links must name a file that exists, and a heading in it if they name one. Addresses elsewhere are not fetched.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def documents() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).exists()]


def prose(document: Path) -> str:
    return CODE_SPAN.sub("", CODE_BLOCK.sub("", document.read_text()))


def anchors(document: Path) -> set[str]:
    headings = HEADING.findall(CODE_BLOCK.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(document: Path) -> Iterator[str]:
    for inline, reference in LINK.findall(prose(document)):
        target, _, anchor = (inline or reference).partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        found = (document.parent / target).resolve() if target else document
        if not found.exists():
            yield f"{target} does not exist"
        elif anchor and found.suffix == ".md" and anchor not in anchors(found):
            yield f"{target or document.name} has no heading #{anchor}"


def main() -> int:
    problems = [f"{path.relative_to(ROOT)}: {problem}" for path in documents() for problem in dead_links(path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
