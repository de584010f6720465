"""Fails for sentences that do not name who acts: in the texts of src/, in docs/ and in the documents at the root.

Usage: check_words.py [FILE OR FOLDER ...]

A subject is a reader, another writer, an operator, a process: a term of docs/glossary.md, no riddle. Of Python files
the docstrings, comments and other texts are read; of documents all but code.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("src", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
SUFFIXES = {".py", ".md", ".toml", ".sql"}
CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]*`")
BE = "is|are|was|were|has|have|had|does|did"
# Verbs that clauses after "what" have, and verbs that such a clause is the subject of.
INNER = rf"(?:{BE}|asks?|changed|depends? on|finds?|got|handed in|hands in|holds?|leaves|put|reads?|says?|took|wrote)"
OUTER = (
    rf"(?:{BE}|becomes|belongs|can|cannot|comes|counts|ends|fails|follows|gets|goes|keeps|leaves|makes|matters|may|means|must|"
    "stays|stops|succeeded|succeeds|takes|waits|will)"
)
AT_ONCE = r"(?:\w+(?:s|ed)|may|can|cannot|would|could|will|no \w+|(?:it|we|they|you) \w+)"
# What may be inside of a clause: neither the end of a sentence nor another clause; in a list no comma either.
OTHERS = "before|where|when|while|which|if|unless|as|that|once|until|than|who|whose|how|whether|what"
CLAUSE = rf"(?:(?!\b(?:{OTHERS})\b|[.;:?](?:\s|$)).)*?"
ITEM = rf"(?:(?!\b(?:{OTHERS})\b|[.;:?](?:\s|$)|,).)*?"
START = r"(?:^[\s*#|-]*|[.;:]\s+\**)"
LINK = r"(?:,|\band|\bbut|\bso|\bsince|\bthat)\s+"


@dataclass(frozen=True)
class Rule:
    """A way of writing that is refused, and what to write instead."""

    pattern: re.Pattern[str]
    advice: str


def rule(pattern: str, advice: str) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE | re.DOTALL), advice)


SUBJECT = "name the subject: the objects, versions or tables that …"
RULES = (
    rule(
        r"\b(?:some|any|every|no)body\b|\b(?:some|any|every)one\b|\bwho(?:m|so)?ever\b",
        "name who acts: another writer, another process, an operator, a reader, no service",
    ),
    # A clause that begins with "what" and has two verbs: the second one has the clause as its subject.
    rule(rf"{START}what\s{CLAUSE}\b{INNER}\b{CLAUSE}\b{OUTER}\s+\w+", SUBJECT),
    rule(rf"{LINK}what\s{ITEM}\b{INNER}\b{ITEM}\b{OUTER}\s+\w+", SUBJECT),
    rule(rf"{START}what\s{AT_ONCE}\b{CLAUSE}\b(?:is|are|was|were|goes|stays|belongs)\s+\w+", SUBJECT),
    rule(r"\bleft alone\b|\bleaves? \w+ (?:\w+ )?alone\b", "say that the circuit is open, or that nothing is changed"),
    rule(r"\bgets? on by itself\b", "say how often it failed and when it is tried again"),
    rule(r"\bwhat (?:it|we|they) (?:does|do) not know\b", "say that the error is unexpected, or name what is unknown"),
)


@dataclass(frozen=True)
class Text:
    """A piece of prose, and the line that it begins with."""

    path: Path
    line: int
    prose: str

    def problems(self) -> Iterator[str]:
        for each in RULES:
            for match in each.pattern.finditer(self.prose):
                line = self.line + self.prose.count("\n", 0, match.end())
                found = " ".join(match.group().strip(".;:*#|- \n").split())
                yield f'{self.path}:{line}: "{found}": {each.advice}'


def texts_of_python(path: Path, source: str) -> Iterator[Text]:
    """Strings, with those that are written side by side as one, and comments, line after line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(path, node.lineno, node.value)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [(each.start[0], each.string.lstrip("# ")) for each in tokens if each.type == tokenize.COMMENT]
    for _, block in groupby(enumerate(comments), lambda item: item[1][0] - item[0]):
        lines = [comment for _, comment in block]
        yield Text(path, lines[0][0], "\n".join(words for _, words in lines))


def without_code(source: str) -> str:
    blocks = CODE_BLOCK.sub(lambda block: "\n" * block.group().count("\n"), source)
    return CODE_SPAN.sub("code", blocks)


def texts_of_document(path: Path, source: str) -> Iterator[Text]:
    """Paragraphs; each cell of a table and each item of a list is one."""
    line = 1
    for paragraph in re.split(r"(\n(?=\s*\n|\s*[-*|#] |\|)|\s\|\s)", without_code(source)):
        yield Text(path, line, paragraph)
        line += paragraph.count("\n")


def texts(path: Path) -> Iterator[Text]:
    source = path.read_text()
    return texts_of_python(path, source) if path.suffix == ".py" else texts_of_document(path, source)


def files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (path for path in found if path.suffix in SUFFIXES)


def main(arguments: list[str]) -> int:
    places = [Path(each) for each in arguments] or [ROOT / place for place in PLACES]
    problems = [problem for path in files(places) for text in texts(path) for problem in text.problems()]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
