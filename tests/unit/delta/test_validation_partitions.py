"""Partition values are written in the reference writer's spelling, or refused."""

import msgspec
import pytest

from deltamirror.delta.actions import Add, Cdc
from deltamirror.delta.schema import from_ddl, schema_string
from deltamirror.delta.validation import TableRules, plain_block
from deltamirror.errors import InvalidAction
from tests.support.lakes.validation import ADD, ALL_FEATURES, CDC, EXTENDED, PLAIN, REMOVE, VECTOR, mapped, metadata_of

pytestmark = pytest.mark.requirement("R5")


def rules_of(column: str, *, verbatim: bool = False) -> TableRules:
    return TableRules.of(EXTENDED, metadata_of(partition_by=[column]), verbatim=verbatim)


def add_in(column: str, value: str | None) -> Add:
    return msgspec.structs.replace(ADD, partition_values={column: value})


def written(rules: TableRules, column: str, value: str | None) -> str | None:
    admitted = rules.admit(add_in(column, value))
    assert isinstance(admitted, Add)
    return admitted.partition_values[column]


# The column, texts with what is written for them, texts that are refused.
AUTHORED: list[tuple[str, dict[str, str | None], list[str]]] = [
    ("day", {"2024-02-29": "2024-02-29", "2024-1-1": "2024-01-01", "": None}, ["2023-02-29", "20240101", "today"]),
    ("day", {"0001-01-01": "0001-01-01"}, ["+10000-01-01", "0000-01-01", "2024-01-01 00:00:00"]),
    ("h", {"-2147483648": "-2147483648", "07": "7", "+7": "7"}, ["2147483648", "1.0", "x", " 1", "1_0"]),
    ("n", {"127": "127"}, ["128"]),
    ("id", {"9223372036854775807": "9223372036854775807"}, ["9223372036854775808"]),
    ("b", {"true": "true", "False": "false"}, ["1", "yes"]),
    ("d", {"1.5": "1.50", "-999.00": "-999.00", "5": "5.00", "-0": "0.00"}, ["1.505", "1000.00", "1,5", "NaN"]),
    ("f", {"1.0E10": "1.0E10", "1": "1.0", "1e3": "1000.0", "inf": "Infinity", "nan": "NaN"}, ["one", "0x1", "1e999"]),
    (
        "t",
        {
            "2024-07-01T07:00:00.123456Z": "2024-07-01T07:00:00.123456Z",
            "2024-07-01 07:00:00": "2024-07-01T07:00:00.000000Z",
            "2024-07-01T07:00:00": "2024-07-01T07:00:00.000000Z",
            "2024-07-01T07:00:00+02:00": "2024-07-01T05:00:00.000000Z",
        },
        ["2024-07-01T25:00:00Z", "2024-13-01 00:00:00", "2024-07-01 07:00", "2024-07-01 07:00:00.123456789"],
    ),
    (
        "z",
        {"2024-07-01T07:00:00": "2024-07-01 07:00:00", "2024-07-01 07:00:00.50": "2024-07-01 07:00:00.5"},
        ["2024-07-01T07:00:00Z", "07:00:00", "2024-07-01 07:00:00.1234567"],
    ),
    ("s", {"anything at all": "anything at all", "\u0001": "\u0001", "": None}, []),
    ("bin", {"\u0001\u0002": "\u0001\u0002"}, []),
]


@pytest.mark.parametrize(
    ("column", "spellings", "refused"), AUTHORED, ids=lambda each: each if type(each) is str else ""
)
def test_an_authored_value_is_written_as_the_reference_writer_does(
    column: str, spellings: dict[str, str | None], refused: list[str]
) -> None:
    rules = rules_of(column)
    for text, canonical in spellings.items():
        assert written(rules, column, text) == canonical
        assert (plain_block(rules, [add_in(column, text)]) is not None) == (text == canonical)
    for text in refused:
        with pytest.raises(InvalidAction) as caught:
            rules.admit(add_in(column, text))
        assert (caught.value.rule, caught.value.found) == ("add.partition.value", text)
        assert plain_block(rules, [add_in(column, text)]) is None


# The column, texts that every reader takes, texts at which the kernel fails or DuckDB sees another value.
VERBATIM: list[tuple[str, list[str], list[str]]] = [
    ("h", ["7", "07", "+7"], ["7.0", " 7", "2147483648"]),
    ("b", ["true", "TRUE"], ["t", "1"]),
    ("day", ["2024-01-01", "2024-1-1"], ["2024", "2024-01-01 00:00:00", "10000-01-01"]),
    ("d", ["1.50", "+1.50", "0.00", "-1.50"], ["1.5", "1.500", "1", "1.555", "1000.00", "NaN"]),
    ("f", ["1", "1e3", "NaN", "-Infinity"], ["1d", "x"]),
    (
        "t",
        [
            "2024-01-01T00:00:00.000000Z",
            "2024-01-01T00:00:00Z",
            "2024-01-01 00:00:00",
            "2024-01-01 00:00:00.1",
            "2024-01-01 00:00:00.123456789",
        ],
        ["2024-01-01T00:00:00", "2024-01-01 02:00:00+02:00", "2024-01-01", "2024-01-01 25:00:00"],
    ),
    ("z", ["2024-01-01 00:00:00", "2024-01-01 00:00:00.123456"], ["2024-01-01T00:00:00", "2024-01-01 00:00:00Z"]),
]


@pytest.mark.parametrize(
    ("column", "readable", "unreadable"), VERBATIM, ids=lambda each: each if type(each) is str else ""
)
def test_a_verbatim_value_is_one_that_every_reader_takes(
    column: str, readable: list[str], unreadable: list[str]
) -> None:
    rules = rules_of(column, verbatim=True)
    for text in readable:
        assert written(rules, column, text) == text
    for text in unreadable:
        with pytest.raises(InvalidAction) as caught:
            rules.admit(add_in(column, text))
        assert caught.value.rule == "add.partition.value"


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("verbatim", [True, False])
def test_a_partition_column_that_is_not_null_has_a_value(value: str | None, verbatim: bool) -> None:
    schema = schema_string(from_ddl("id long, day date not null"))
    rules = TableRules.of(PLAIN, metadata_of(schema), verbatim=verbatim, rows_checked=True)
    with pytest.raises(InvalidAction) as caught:
        rules.check(add_in("day", value))
    assert caught.value.rule == "add.partition.null"
    assert plain_block(rules, [add_in("day", value)]) is None
    rules.check(msgspec.structs.replace(REMOVE, partition_values={"day": value}))


@pytest.mark.parametrize("restated", [{"data_change": False}, {"deletion_vector": VECTOR}])
def test_a_file_that_is_added_again_keeps_a_spelling_that_readers_take(restated: dict[str, object]) -> None:
    """Delta Spark reads a time without a zone in its own zone: respelled in UTC, the rows of the file would move."""
    rules = rules_of("t")
    again = msgspec.structs.replace(add_in("t", "2024-01-01 00:00:00"), **restated)
    assert rules.admit(again) == again
    odd = msgspec.structs.replace(add_in("t", "2024-01-01T00:00:00"), **restated)
    admitted = rules.admit(odd)
    assert isinstance(admitted, Add)
    assert admitted.partition_values == {"t": "2024-01-01T00:00:00.000000Z"}


@pytest.mark.parametrize("restated", [{"data_change": False}, {"deletion_vector": VECTOR}])
def test_a_negative_fraction_is_refused_only_in_files_that_are_new(restated: dict[str, object]) -> None:
    """At it, delta-rs fails for the whole table: "The string '-1.-50' is not a valid decimal128 number"."""
    rules, new = rules_of("d"), add_in("d", "-1.5")
    with pytest.raises(InvalidAction) as caught:
        rules.admit(new)
    assert (caught.value.rule, caught.value.found) == ("add.partition.negative-fraction", "-1.50")
    assert plain_block(rules, [add_in("d", "-1.50")]) is None
    assert isinstance(rules.admit(msgspec.structs.replace(add_in("d", "-1.50"), **restated)), Add)


def test_a_remove_repeats_the_values_of_its_file() -> None:
    remove = msgspec.structs.replace(REMOVE, partition_values={"d": "1.5"})
    assert rules_of("d").admit(remove) == remove


def test_change_data_is_written_as_the_reference_writer_does() -> None:
    metadata = metadata_of(partition_by=["d"], configuration={"delta.enableChangeDataFeed": "true"})
    admitted = TableRules.of(EXTENDED, metadata).admit(msgspec.structs.replace(CDC, partition_values={"d": "1.5"}))
    assert isinstance(admitted, Cdc)
    assert admitted.partition_values == {"d": "1.50"}


def test_partition_values_go_by_physical_name_under_column_mapping() -> None:
    metadata = msgspec.structs.replace(mapped((1, "col-1"), (2, "col-2")), partition_columns=["c0"])
    rules = TableRules.of(ALL_FEATURES, metadata)
    rules.check(msgspec.structs.replace(ADD, partition_values={"col-1": "7"}))
    with pytest.raises(InvalidAction) as caught:
        rules.check(msgspec.structs.replace(ADD, partition_values={"c0": "7"}))
    assert caught.value.rule == "add.partition.unknown"
