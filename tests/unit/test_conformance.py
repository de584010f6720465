"""The page of conformance: no section of the protocol, and no rule of ours, is without a test."""

from dataclasses import replace

import pytest

from deltamirror.delta.validation.rules import RULES
from scripts.conformance import (
    ALL_RULES,
    Conformance,
    Section,
    anchors_of,
    conformance_page,
    differences,
    kept_table,
    longest_beginning,
    problems,
)

pytestmark = pytest.mark.requirement("R94")

MISSING = "tests/unit/test_conformance.py::test_that_is_not_there"


def with_section(**fields: object) -> Conformance:
    """The table of the repository with one section more."""
    table = kept_table()
    section = Section(title="New", anchors=("new",), **fields)  # type: ignore[arg-type]
    return replace(table, sections=(*table.sections, section))


def test_every_section_of_the_protocol_and_every_rule_has_a_test() -> None:
    assert list(problems(kept_table())) == []


def test_every_rule_is_on_the_page_once() -> None:
    page = conformance_page()
    assert len(ALL_RULES) > 200
    assert [rule for rule in ALL_RULES if page.count(f"`{rule}`") != 1] == []


def test_a_section_without_a_test_is_a_problem() -> None:
    assert list(problems(with_section())) == ["the section 'New' has neither a rule nor a test"]


def test_a_test_that_is_not_there_is_a_problem() -> None:
    table = with_section(behaviour={"a demand": (MISSING,)})
    assert list(problems(table)) == [f"{MISSING} is no test"]


def test_words_that_stand_for_no_rule_are_a_problem() -> None:
    table = with_section(rules=("add.pat",))
    assert "the section 'New' names rules 'add.pat', and there are none" in list(problems(table))


def test_a_section_that_is_listed_twice_is_a_problem() -> None:
    table = replace(kept_table(), headings=("overview", *kept_table().headings))
    assert list(problems(table)) == ["the section #overview is listed 2 times"]


@pytest.mark.parametrize("rule", ["txn.app-id.empty", "pointer.json"])
def test_a_rule_without_a_section_or_a_case_is_a_problem(rule: str) -> None:
    table, kind = kept_table(), rule.partition(".")[0]
    sections = [replace(each, rules=tuple(name for name in each.rules if name != kind)) for each in table.sections]
    found = list(problems(replace(table, sections=tuple(sections))))
    assert f"the rule {rule} enforces no section" in found
    found = list(problems(replace(table, cases={name: test for name, test in table.cases.items() if name != kind})))
    assert f"the rule {rule} has no case" in found


def test_a_rule_belongs_to_the_most_specific_section() -> None:
    section = kept_table().section_of("add.deletion-vector.bitmap")
    assert section is not None
    assert section.title == "Deletion Vector Format"
    assert longest_beginning("add.path.empty", ["add", "add.pa", "add.path", "add.path.empty.more"]) == "add.path"
    assert {longest_beginning(rule, RULES) for rule in RULES} == RULES.keys()


def test_sections_of_a_later_edition_are_told() -> None:
    text = "# Overview\n## Data Files\n```\n# no heading\n```\n## Data `Files`\n### A <-> B\n"
    assert anchors_of(text) == ["overview", "data-files", "data-files-1", "a---b"]
    table = Conformance(commit="", cases={}, sections=(Section("D", ("data-files", "gone")),), headings=("overview",))
    assert list(differences(table, text)) == [
        "the table lacks #data-files-1",
        "the table lacks #a---b",
        "the protocol has no #gone",
    ]
