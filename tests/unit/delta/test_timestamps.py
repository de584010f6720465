"""In-commit timestamps increase, and state since when they hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.actions import Format, Metadata
from deltamirror.delta.order import ordered
from deltamirror.delta.timestamps import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, next_timestamp, with_enablement

pytestmark = pytest.mark.requirement("R36")

ENABLED = {"delta.enableInCommitTimestamps": "true"}


def metadata(**configuration: str) -> Metadata:
    return Metadata(
        id="t",
        format=Format(provider="parquet", options={}),
        schema_string='{"type":"struct","fields":[]}',
        partition_columns=[],
        configuration=configuration,
    )


def test_the_first_commit_takes_the_clock() -> None:
    assert next_timestamp(17, None) == 17


def test_a_clock_that_stands_still_still_moves_the_log() -> None:
    assert next_timestamp(1_000, 1_000) == 1_001


@given(st.lists(st.integers(min_value=0, max_value=10**13), min_size=1))
def test_timestamps_increase_strictly_under_any_clock(clock: list[int]) -> None:
    previous: int | None = None
    for now in clock:
        timestamp = next_timestamp(now, previous)
        assert timestamp >= now
        assert previous is None or timestamp > previous
        previous = timestamp


def test_enabling_on_an_existing_table_states_version_and_time() -> None:
    after = with_enablement(metadata(a="1"), metadata(a="1", **ENABLED), version=7, timestamp=1_700)
    assert list(after.configuration.items()) == [
        ("a", "1"),
        ("delta.enableInCommitTimestamps", "true"),
        (ENABLEMENT_VERSION, "7"),
        (ENABLEMENT_TIMESTAMP, "1700"),
    ]


def test_more_than_four_properties_stand_in_the_reference_writers_order() -> None:
    after = with_enablement(metadata(), metadata(a="1", b="2", c="3", **ENABLED), version=7, timestamp=1_700)
    assert list(after.configuration) == list(ordered(after.configuration))
    assert len(after.configuration) == 6


@pytest.mark.parametrize("before", [None, metadata()])
def test_a_table_that_is_created_with_timestamps_states_nothing(before: Metadata | None) -> None:
    created = metadata(**ENABLED)
    assert with_enablement(before, created, version=0, timestamp=1_700) is created


def test_without_timestamps_nothing_is_stated() -> None:
    after = metadata(a="1")
    assert with_enablement(metadata(), after, version=7, timestamp=1_700) is after


def test_a_rebased_enablement_states_its_final_version_and_time() -> None:
    before = metadata()
    first = with_enablement(before, metadata(**ENABLED), version=7, timestamp=1_700)
    second = with_enablement(before, first, version=9, timestamp=1_900)
    assert second.configuration[ENABLEMENT_VERSION] == "9"
    assert second.configuration[ENABLEMENT_TIMESTAMP] == "1900"


def test_metadata_of_an_enabled_table_keeps_its_provenance() -> None:
    before = with_enablement(metadata(), metadata(**ENABLED), version=7, timestamp=1_700)
    replaced = with_enablement(before, metadata(**ENABLED), version=12, timestamp=2_000)
    assert replaced.configuration[ENABLEMENT_VERSION] == "7"
    assert replaced.configuration[ENABLEMENT_TIMESTAMP] == "1700"


def test_a_table_enabled_from_its_creation_never_gets_provenance() -> None:
    after = metadata(a="1", **ENABLED)
    assert with_enablement(metadata(**ENABLED), after, version=12, timestamp=2_000) is after


def test_enabling_once_more_after_disabling_states_the_second_time() -> None:
    first = with_enablement(metadata(), metadata(**ENABLED), version=7, timestamp=1_700)
    disabled = metadata(**{**first.configuration, "delta.enableInCommitTimestamps": "false"})
    again = with_enablement(disabled, metadata(**{**disabled.configuration, **ENABLED}), version=20, timestamp=3_000)
    assert again.configuration[ENABLEMENT_VERSION] == "20"
    assert again.configuration[ENABLEMENT_TIMESTAMP] == "3000"


def test_nothing_is_said_of_an_enablement_where_timestamps_hold_from_version_0_on() -> None:
    stale = metadata(a="1", **{ENABLEMENT_VERSION: "7", ENABLEMENT_TIMESTAMP: "1700"}, **ENABLED)
    for before, version in ((metadata(**ENABLED), 12), (None, 0)):
        after = with_enablement(before, stale, version=version, timestamp=2_000)
        assert after.configuration == {"a": "1", **ENABLED}
