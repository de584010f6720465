"""The page conformance.md of docs/reference: what the Delta protocol demands, our rules for it, and their tests.

Usage: conformance.py PROTOCOL.md   (says which sections of an edition of the protocol docs/protocol.toml lacks)

Rules come from the code, the sections that they enforce from docs/protocol.toml. A section without a rule or a test, a
rule without a section or a case, and a test that does not exist are errors.
"""

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

from deltamirror.delta.validation.log_rules import LOG_RULES
from deltamirror.delta.validation.rules import RULES, Rule

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when it is run, only its own folder is there

from scripts.action_reference import cell
from scripts.requirements_table import Module

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "protocol.toml"
ALL_RULES: Mapping[str, Rule] = {**RULES, **LOG_RULES}

INTRODUCTION = """\
# Conformance to the Delta protocol

Each section of the [Delta protocol]({address}) with the rules that hold us, and every log that `deltamirror validate`
reads, to it, and with the tests that show it. Every rule has a case that breaks it alone. [Actions](actions.md) and
[rules of log files](log-rules.md) have the remedies. The sections are kept in
[protocol.toml](../protocol.toml); `make check` fails for one without a test. [Readers](readers.md) has what other
readers make of our tables.
"""
_ADDRESS = "https://github.com/delta-io/delta/blob/{commit}/PROTOCOL.md"
_CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the protocol: where it is, and what shows that we meet it."""

    title: str
    anchors: tuple[str, ...]
    rules: tuple[str, ...] = ()
    """The beginnings of the ids of the rules that enforce it."""
    behaviour: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The tests of each demand that no rule states."""


@dataclass(frozen=True, slots=True)
class Conformance:
    """The hand-kept table."""

    commit: str
    cases: Mapping[str, str]
    """The test that has the cases of rules, by the beginning of their ids."""
    sections: tuple[Section, ...]
    headings: tuple[str, ...]
    """Anchors of headings that demand nothing."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Self:
        """The table from its TOML."""
        return cls(
            commit=table["commit"],
            cases={beginning: test for test, beginnings in table["cases"].items() for beginning in beginnings},
            sections=tuple(Section(**each) for each in table["sections"]),
            headings=tuple(table["headings"]["anchors"]),
        )

    def section_of(self, rule: str) -> Section | None:
        """The section that a rule enforces."""
        owners = {beginning: section for section in self.sections for beginning in section.rules}
        return owners.get(longest_beginning(rule, owners))

    def rules_of(self, section: Section) -> list[Rule]:
        """The rules that enforce a section."""
        return [rule for name, rule in ALL_RULES.items() if self.section_of(name) is section]

    def case_of(self, rule: str) -> str | None:
        """The test that breaks a rule."""
        return self.cases.get(longest_beginning(rule, self.cases))

    def anchors(self) -> list[str]:
        """Where all sections are in the protocol."""
        return [*self.headings, *(anchor for section in self.sections for anchor in section.anchors)]


def longest_beginning(rule: str, beginnings: Iterable[str]) -> str:
    """The most specific of some beginnings of an id, at its full stops; the empty text where none is one."""
    return max((each for each in beginnings if f"{rule}.".startswith(f"{each}.")), key=len, default="")


def problems(table: Conformance) -> Iterator[str]:
    """Sections and rules that no test shows, and words of the table that stand for nothing."""
    for anchor, count in Counter(table.anchors()).items():
        if count > 1:
            yield f"the section #{anchor} is listed {count} times"
    for section in table.sections:
        if not table.rules_of(section) and not section.behaviour:
            yield f"the section {section.title!r} has neither a rule nor a test"
        for beginning in section.rules:
            if not any(longest_beginning(rule, [beginning]) for rule in ALL_RULES):
                yield f"the section {section.title!r} names rules {beginning!r}, and there are none"
    for rule in ALL_RULES:
        if table.section_of(rule) is None:
            yield f"the rule {rule} enforces no section"
        if table.case_of(rule) is None:
            yield f"the rule {rule} has no case"
    yield from (f"{test} is no test" for test in sorted(tests_of(table)) if not is_test(test))


def tests_of(table: Conformance) -> set[str]:
    """All tests that a table names."""
    named = (tests for section in table.sections for tests in section.behaviour.values())
    return {*table.cases.values(), *(test for tests in named for test in tests)}


def is_test(test: str) -> bool:
    """Whether a test with this id exists."""
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and name in tests_in(ROOT / path)


@cache
def tests_in(path: Path) -> frozenset[str]:
    """The names of the tests of a file."""
    return frozenset(name for name, _ in Module(ast.parse(path.read_text(encoding="utf-8"))).tests())


def conformance_page() -> str:
    """The whole page. A table with problems ends the process."""
    table = kept_table()
    if found := list(problems(table)):
        sys.exit("\n".join(f"docs/protocol.toml: {each}" for each in found))
    address = _ADDRESS.format(commit=table.commit)
    sections = [section_text(table, section, address) for section in table.sections]
    return "\n".join([INTRODUCTION.format(address=address), *sections])


def kept_table() -> Conformance:
    """The table of this repository."""
    return Conformance.of(tomllib.loads(TABLE.read_text(encoding="utf-8")))


def section_text(table: Conformance, section: Section, address: str) -> str:
    """One section of the page."""
    parts = ", ".join(f"[#{anchor}]({address}#{anchor})" for anchor in section.anchors)
    head = [f"## {section.title}", "", f"In the protocol: {parts}", "", "| Demand | Rules | Tests |", "|---|---|---|"]
    behaviour = [f"| {cell(demand)} | | {links(tests)} |" for demand, tests in section.behaviour.items()]
    return "\n".join([*head, *behaviour, *rule_rows(table, section), ""])


def rule_rows(table: Conformance, section: Section) -> Iterator[str]:
    """The rules of a section; those of several actions that demand the same are one row."""
    same: dict[tuple[str, str], list[str]] = {}
    for rule in table.rules_of(section):
        same.setdefault((rule.text, table.case_of(rule.id) or ""), []).append(rule.id)
    for (text, test), rules in same.items():
        yield f"| {cell(text)} | {', '.join(f'`{rule}`' for rule in rules)} | {links([test])} |"


def links(tests: Iterable[str]) -> str:
    """Tests as links to their files."""
    return "<br>".join(f"[`{name}`](../../{path})" for path, _, name in (test.partition("::") for test in tests))


def anchors_of(protocol: str) -> list[str]:
    """The anchors of the headings of a Markdown text, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = []
    for heading in _HEADING.findall(_CODE_BLOCK.sub("", protocol)):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.append(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def differences(table: Conformance, protocol: str) -> Iterator[str]:
    """Where an edition of the protocol has other sections than a table."""
    there, listed = anchors_of(protocol), table.anchors()
    yield from (f"the table lacks #{anchor}" for anchor in there if anchor not in listed)
    yield from (f"the protocol has no #{anchor}" for anchor in listed if anchor not in there)


if __name__ == "__main__":
    if apart := list(differences(kept_table(), Path(sys.argv[1]).read_text(encoding="utf-8"))):
        sys.exit("\n".join(apart))
