"""The fast road of a large commit says "in order" only where the rules do."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deltamirror.delta.actions import Add, DeletionVector, Metadata, Protocol, Remove
from deltamirror.delta.definition import TableDefinition, first_actions
from deltamirror.delta.schema import from_ddl
from deltamirror.delta.validation import OncePerCommit, TableRules, are_plain_removes, plain_block
from deltamirror.errors import InvalidAction


def made_rules(columns: str = "id long, day date", **properties: str) -> TableRules:
    definition = TableDefinition(
        name="t",
        location="/t",
        schema=from_ddl(columns),
        partition_by=("day",),
        properties={key.replace("__", "."): value for key, value in properties.items()},
    )
    metadata, protocol, *_ = first_actions(definition, created_time=0, fresh=lambda: "x")
    assert isinstance(metadata, Metadata)
    assert isinstance(protocol, Protocol)
    return TableRules.of(protocol, metadata)


RULES = made_rules()
PLAIN = Add(
    path="day=2024-05-01/part-0.parquet",
    partition_values={"day": "2024-05-01"},
    size=10,
    modification_time=1,
    data_change=True,
    stats='{"numRecords":3}',
)
PLAIN_REMOVE = Remove(
    path=PLAIN.path,
    deletion_timestamp=1,
    data_change=True,
    extended_file_metadata=True,
    partition_values=PLAIN.partition_values,
    size=10,
    stats='{"numRecords":3}',
)


class Name(str):
    """A text that is more than a text."""


def block(*adds: Add) -> bool:
    return plain_block(RULES, adds) is not None


def test_a_plain_block_comes_back_as_columns() -> None:
    second = replace(PLAIN, path="b", partition_values={"day": None}, stats='{"minValues":{}}')
    columns = plain_block(RULES, [PLAIN, second])
    assert columns is not None
    assert list(columns.paths) == [PLAIN.path, "b"]
    assert list(columns.partition_values) == ['{"day":"2024-05-01"}', '{"day":null}']
    assert list(columns.num_records) == [3, None]


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    "odd",
    [
        {"path": "a b"},
        {"path": "a\nb"},
        {"path": "a\n"},
        {"path": "../a"},
        {"path": "/.a"},
        {"path": ""},
        {"path": "C:/a"},
        {"size": -1},
        {"size": True},
        {"size": 1.0},
        {"modification_time": -1},
        {"data_change": 1},
        {"stats": "{"},
        {"stats": "[]"},
        {"stats": ""},
        {"stats": '{"numRecords":-1}'},
        {"stats": '{"numRecords":1}\n{"numRecords":2}'},
        {"stats": '{"numRecords":1,"nullCount":{"id":"x"}}'},
        {"stats": '{"x":' * 128 + "1" + "}" * 128},
        {"stats": '{"x":' + "[" * 127 + "]" * 127 + "}"},
        {"stats": '{"x":' * 10_000 + "1" + "}" * 10_000},
        {"partition_values": {}},
        {"partition_values": {"other": "x"}},
        {"partition_values": {"day": "tomorrow"}},
        {"partition_values": {"day": 5}},
        {"partition_values": {"day": ["x"]}},
        {"tags": {"k": "v"}},
        {"base_row_id": 0},
    ],
)
def test_whatever_is_odd_is_left_to_the_rules(odd: dict[str, object]) -> None:
    assert block(PLAIN, replace(PLAIN, path="b"))
    assert not block(PLAIN, replace(PLAIN, **{"path": "b", **odd}))


def test_what_only_has_the_json_of_a_text_is_no_partition_value() -> None:
    for odd in ({"day": date(2024, 5, 1)}, {Name("day"): "2024-05-01"}):
        assert not block(replace(PLAIN, path="b", partition_values=odd), PLAIN)


@pytest.mark.parametrize(
    "special",
    [
        {"tags": {}},
        {"deletion_vector": DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)},
        {"base_row_id": 0},
        {"default_row_commit_version": 0},
        {"clustering_provider": ""},
    ],
)
def test_an_add_with_more_than_a_plain_one_has_makes_no_block(special: dict[str, object]) -> None:
    assert not block(PLAIN, replace(PLAIN, path="b", **special))


def test_texts_that_would_pass_only_together_do_not_pass() -> None:
    first, second = replace(PLAIN, stats='{"a":[{}'), replace(PLAIN, path="b", stats="{}]}")
    assert not block(first, second, replace(PLAIN, path="c", stats="{}\n{}"))


@given(st.lists(st.builds(replace, st.just(PLAIN), path=st.text(max_size=6), stats=st.text(max_size=6)), min_size=1))
def test_what_passes_as_a_block_passes_one_by_one(adds: list[Add]) -> None:
    if block(*adds):
        for add in adds:
            RULES.check(add)


def test_a_path_that_comes_twice_is_noticed_across_blocks() -> None:
    once = OncePerCommit()
    assert once.see_plain(["a", "b"])
    assert not once.see_plain(["c", "a"])
    assert not once.see_plain(["d", "d"])
    assert once.see_plain(["c", "d"])
    with pytest.raises(InvalidAction, match="c"):
        once.see(replace(PLAIN, path="c"))


@pytest.mark.requirement("R5")
def test_every_set_of_statistics_is_looked_at_where_delta_rs_does() -> None:
    """Without a boolean column, one of those with equally many keys is an example for all."""
    right, wrong = '{"nullCount":{"id":0}}', '{"nullCount":{"id":"x"}}'
    adds = [replace(PLAIN, path=path, stats=stats) for path, stats in (("a", right), ("b", wrong), ("c", right))]
    assert block(*adds)
    assert not block(*adds[:2])
    assert plain_block(made_rules("id long, day date, is_paid boolean"), adds) is None
    assert plain_block(made_rules("id long, day date, is_paid boolean"), [adds[0], adds[2]]) is not None


def test_a_table_that_needs_statistics_gets_no_block_without() -> None:
    needing = made_rules(delta__enableIcebergCompatV2="true", delta__columnMapping__mode="name")
    assert plain_block(needing, [replace(PLAIN, stats=None)]) is None


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    "odd",
    [
        {"path": "a b"},
        {"path": "a\n"},
        {"path": "../a"},
        {"path": ""},
        {"size": -1},
        {"size": True},
        {"size": None},
        {"deletion_timestamp": None},
        {"deletion_timestamp": -1},
        {"data_change": 1},
        {"extended_file_metadata": 1},
        {"stats": "{"},
        {"stats": '{"numRecords":-1}'},
        {"stats": '{"numRecords":1,"numRecords":2}'},
        {"stats": '{"x":' * 128 + "1" + "}" * 128},
        {"partition_values": None},
        {"partition_values": {"other": "x"}},
        {"partition_values": {"day": 5}},
        {"partition_values": {Name("day"): "2024-05-01"}},
        {"partition_values": {"day": "\ud800"}},
        {"tags": {"k": "v"}},
        {"deletion_vector": DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)},
        {"base_row_id": 0},
        {"default_row_commit_version": 0},
    ],
)
def test_a_remove_that_is_odd_is_left_to_the_rules(odd: dict[str, object]) -> None:
    assert are_plain_removes(RULES, [PLAIN_REMOVE, replace(PLAIN_REMOVE, path="b", extended_file_metadata=None)])
    assert not are_plain_removes(RULES, [PLAIN_REMOVE, replace(PLAIN_REMOVE, **{"path": "b", **odd})])


def test_a_remove_that_leaves_out_or_misspells_values_of_its_file_is_plain() -> None:
    for values in ({}, {"day": None}, {"day": "tomorrow"}):
        removes = [replace(PLAIN_REMOVE, partition_values=values)]
        assert are_plain_removes(RULES, removes)
        assert [RULES.admit(each) for each in removes] == removes


def test_rows_are_not_removed_from_a_table_that_only_takes_more() -> None:
    rules = made_rules(delta__appendOnly="true")
    assert not are_plain_removes(rules, [PLAIN_REMOVE])
    assert are_plain_removes(rules, [replace(PLAIN_REMOVE, data_change=False)])


PARTED = (
    '{"numRecords":1,"x":{}',
    ',"y":{}}',
    '{"numRecords":1}\n{"numRecords":1}',
    '{"numRecords":1,"x":{}}',
    '{"numRecords":1}',
)
"""As many objects as texts, none of which is an object by itself at the beginning."""
TWICE = ('{"numRecords":1,"minValues":{"id":1,"id":2}}', '{"numRecords":1,"minValues":{"id":1,"size":2}}')
"""One key twice, in a text that has as many keys as another one."""


@pytest.mark.parametrize("texts", [PARTED, TWICE], ids=["parted", "twice"])
def test_statistics_of_removes_do_not_pass_in_the_company_of_others(texts: tuple[str, ...]) -> None:
    removes = [replace(PLAIN_REMOVE, path=f"part-{number}", stats=text) for number, text in enumerate(texts)]
    assert not are_plain_removes(RULES, removes)
    assert are_plain_removes(RULES, removes[-1:])


def test_statistics_of_adds_that_are_no_objects_do_not_pass_in_the_company_of_others() -> None:
    adds = [replace(PLAIN, path=f"part-{number}", stats=text) for number, text in enumerate(PARTED)]
    assert not block(*adds)
    assert block(*adds[-2:])


@given(
    st.lists(st.builds(replace, st.just(PLAIN_REMOVE), path=st.text(max_size=6), stats=st.text(max_size=6)), min_size=1)
)
def test_removes_that_pass_together_pass_one_by_one(removes: list[Remove]) -> None:
    if are_plain_removes(RULES, removes):
        for remove in removes:
            assert RULES.admit(remove) is remove
