"""The commits of the reference writer break no rule."""

from collections.abc import Iterator, Sequence

import pytest

from deltamirror.delta.actions import (
    Metadata,
    Protocol,
)
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.validation import check_actions
from deltamirror.errors import InvalidAction, Unsupported
from tests.support.reference_logs.golden import reference

pytestmark = pytest.mark.requirement("R5")

REFERENCE = reference()


def logged_tables() -> Iterator[tuple[str, list[bytes]]]:
    for log in REFERENCE.logs:
        commits = (path for path in sorted(log.glob("*.json")) if path.stem.isdecimal())
        yield REFERENCE.name_of(log), [path.read_bytes() for path in commits]


def check_table(commits: Sequence[bytes]) -> int:
    """Check the commits of a table one after the other, and count them."""
    laws: Protocol | None = None
    table: Metadata | None = None
    checked = 0
    for actions in map(decode_commit, commits):
        laws = next((each for each in actions if isinstance(each, Protocol)), laws)
        table = next((each for each in actions if isinstance(each, Metadata)), table)
        if laws and table:
            check_actions(actions, protocol=laws, metadata=table, verbatim=True)
            checked += 1
    return checked


@pytest.mark.reference
def test_the_commits_of_the_reference_writer_break_no_rule() -> None:
    refused: dict[str, str] = {}
    checked = 0
    for name, commits in logged_tables():
        try:
            checked += check_table(commits)
        except InvalidAction as error:
            refused[name] = error.rule
        except Unsupported as error:
            refused[name] = error.code
    # Tables that their own makers meant to be wrong, or that use what we refuse.
    expected = {name: rule for rule, names in REFERENCE.refused_commits.items() for name in names}
    assert refused == {name: rule for name, rule in expected.items() if not rule.startswith("log.")}
    assert checked >= REFERENCE.floors.commits
