"""Row ids are handed out once, in order, above the mark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.actions import Action, Add, DeletionVector, DomainMetadata, Remove, Txn
from deltamirror.delta.rowtracking import ROW_TRACKING_DOMAIN, assign, high_water_mark
from deltamirror.errors import InvalidAction

pytestmark = pytest.mark.requirement("R37")


def add(path: str, records: int | None = None, *, base: int | None = None, since: int | None = None) -> Add:
    stats = None if records is None else f'{{"numRecords":{records},"minValues":{{"k":1.50}}}}'
    return Add(
        path=path,
        partition_values={},
        size=1,
        modification_time=1,
        data_change=True,
        stats=stats,
        base_row_id=base,
        default_row_commit_version=since,
    )


def ids(actions: list[Action]) -> list[tuple[int | None, int | None]]:
    return [(a.base_row_id, a.default_row_commit_version) for a in actions if isinstance(a, Add)]


def test_ids_follow_one_another_by_the_number_of_records() -> None:
    actions, domain = assign([add("a", 5), add("b", 3), add("c", 2)], high_water_mark=None, version=4)
    assert ids(actions) == [(0, 4), (5, 4), (8, 4)]
    assert domain is not None
    assert domain.configuration == '{"rowIdHighWaterMark":9,"domainName":"delta.rowTracking"}'


def test_ids_begin_above_the_mark() -> None:
    actions, domain = assign([add("a", 5)], high_water_mark=9, version=4)
    assert ids(actions) == [(10, 4)]
    assert high_water_mark({ROW_TRACKING_DOMAIN: domain} if domain else {}) == 14


def test_the_domain_is_the_last_action() -> None:
    txn = Txn(app_id="x", version=1)
    actions, domain = assign([txn, add("a", 1)], high_water_mark=None, version=1)
    assert actions[0] is txn
    assert actions[-1] is domain


def test_a_file_that_is_added_again_keeps_its_ids() -> None:
    vector = DeletionVector(storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)
    again = Add(
        path="a",
        partition_values={},
        size=1,
        modification_time=1,
        data_change=True,
        stats='{"numRecords":5}',
        deletion_vector=vector,
        base_row_id=0,
        default_row_commit_version=1,
    )
    gone = Remove(path="a", data_change=True, base_row_id=0, default_row_commit_version=1)
    actions, domain = assign([again, gone, add("b", 1)], high_water_mark=9, version=3)
    assert actions[:2] == [again, gone]
    assert ids(actions) == [(0, 1), (10, 3)]
    assert domain is not None


def test_without_fresh_rows_the_mark_stays_and_no_domain_is_written() -> None:
    again = add("a", 5, base=0, since=1)
    assert assign([again], high_water_mark=9, version=3) == ([again], None)
    assert assign([], high_water_mark=None, version=0) == ([], None)


def test_an_empty_file_has_an_id_but_takes_none() -> None:
    actions, domain = assign([add("a", 0), add("b", 2)], high_water_mark=9, version=3)
    assert ids(actions) == [(10, 3), (10, 3)]
    assert domain is not None
    assert assign([add("a", 0)], high_water_mark=9, version=3)[1] is None


def test_a_missing_commit_version_is_filled_in_even_where_the_row_id_is_known() -> None:
    assert ids(assign([add("a", 5, base=0)], high_water_mark=9, version=3)[0]) == [(0, 3)]


@pytest.mark.parametrize(
    "stats", [None, "", "{}", '{"numRecords":"5"}', '{"numRecords":-1}', "[", '{"numRecords":null}']
)
def test_a_file_without_a_number_of_records_is_refused(stats: str | None) -> None:
    bare = Add(path="a", partition_values={}, size=1, modification_time=1, data_change=True, stats=stats)
    with pytest.raises(InvalidAction) as caught:
        assign([add("z", 1), bare], high_water_mark=None, version=1)
    assert caught.value.rule == "add.stats.num-records"
    assert (caught.value.action, caught.value.index, caught.value.field) == ("add", 1, "stats")


def test_an_id_that_was_never_handed_out_is_refused() -> None:
    with pytest.raises(InvalidAction) as caught:
        assign([add("a", 5, base=10, since=1)], high_water_mark=9, version=3)
    assert caught.value.rule == "add.baseRowId.beyond-mark"
    with pytest.raises(InvalidAction):
        assign([add("a", 5, base=0, since=1)], high_water_mark=None, version=3)


def test_a_file_that_is_added_again_takes_no_ids_that_others_will_get() -> None:
    """With more rows than before, it would run into those of the next file."""
    assign([add("a", 5, base=5, since=1)], high_water_mark=9, version=3)
    with pytest.raises(InvalidAction, match="states baseRowId 5 for 6 rows") as caught:
        assign([add("a", 6, base=5, since=1)], high_water_mark=9, version=3)
    assert caught.value.rule == "add.baseRowId.beyond-mark"


def test_row_ids_end_before_they_leave_64_bits() -> None:
    last = 2**63 - 1
    actions, domain = assign([add("a", 4)], high_water_mark=last - 5, version=3)
    assert ids(actions[:1]) == [(last - 4, 3)]
    assert domain is not None
    for files in ([add("a", 5)], [add("a", 3), add("b", 2)]):
        with pytest.raises(InvalidAction) as caught:
            assign(files, high_water_mark=last - 5, version=3)
        assert caught.value.rule == "add.baseRowId.exhausted"


def test_a_rebased_commit_is_assigned_afresh_from_its_bare_actions() -> None:
    bare: list[Action] = [add("a", 5)]
    assert ids(assign(bare, high_water_mark=9, version=3)[0]) == [(10, 3)]
    assert ids(assign(bare, high_water_mark=29, version=4)[0]) == [(30, 4)]


def test_a_table_without_the_domain_has_no_mark() -> None:
    assert high_water_mark({}) is None
    tombstone = DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration="", removed=True)
    assert high_water_mark({ROW_TRACKING_DOMAIN: tombstone}) is None


def test_a_domain_without_a_mark_is_refused() -> None:
    broken = DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration="{}", removed=False)
    with pytest.raises(InvalidAction, match="rowIdHighWaterMark"):
        high_water_mark({ROW_TRACKING_DOMAIN: broken})


@given(st.lists(st.lists(st.integers(min_value=0, max_value=50), max_size=5), max_size=8))
def test_ids_of_a_whole_history_never_overlap(history: list[list[int]]) -> None:
    mark: int | None = None
    taken: list[int] = []
    for version, commit in enumerate(history):
        actions, domain = assign([add(f"{version}-{n}", n) for n in commit], high_water_mark=mark, version=version)
        for (base, since), records in zip(ids(actions), commit, strict=True):
            assert base is not None
            assert since == version
            taken.extend(range(base, base + records))
        mark = mark if domain is None else high_water_mark({ROW_TRACKING_DOMAIN: domain})
    assert taken == list(range(len(taken)))
