"""Statistics fit their columns: judged as delta-rs 1.6 judges them in a table that has a boolean column."""

import json

import pytest

from deltamirror.delta.actions import Add
from deltamirror.delta.schema import from_ddl, schema_string
from deltamirror.delta.validation import TableRules, plain_block
from deltamirror.delta.validation.statistics import stats_rules
from deltamirror.errors import InvalidAction
from tests.support.lakes.validation import ADD, PLAIN, changed, metadata_of

pytestmark = pytest.mark.requirement("R5")

NO_INTEGER = ("9223372036854775808", "1e30", '"1e3"', '"1.5"', '"x"', '""', '"NaN"', "true", "{}", "[]", "[1]")
NOT_SCALAR = ("{}", "[]", "[1]")
VALUES = (
    *("300", "-300", "70000", "3000000000", "1e3", "-1.5", '"1"', '" 1"', '"-Infinity"', "null", "0", "1.0"),
    *NO_INTEGER,
)
REFUSED = {
    "tinyint": ("300", "-300", "70000", "3000000000", "1e3", '"-Infinity"', *NO_INTEGER),
    "smallint": ("70000", "3000000000", '"-Infinity"', *NO_INTEGER),
    "int": ("3000000000", '"-Infinity"', *NO_INTEGER),
    "long": ('"-Infinity"', *NO_INTEGER),
    "float": ('"x"', '""', "true", *NOT_SCALAR),
    "double": ('"x"', '""', "true", *NOT_SCALAR),
    "boolean": tuple(value for value in VALUES if value not in ("true", "null")),
    "decimal(5,2)": NOT_SCALAR,
    "string": NOT_SCALAR,
    "date": NOT_SCALAR,
    "timestamp": NOT_SCALAR,
    "timestamp_ntz": NOT_SCALAR,
    "binary": (),
    "variant": (),
    "array<int>": (),
    "map<string, int>": (),
}
"""Of the values, those at which delta-rs fails as least or largest value of a column."""


def misfit(columns: str, stats: str) -> str | None:
    return stats_rules(schema_string(from_ddl(columns)), mapped=False).misfit(stats)


@pytest.mark.parametrize("kind", REFUSED)
def test_bounds_fit_the_type_of_their_column(kind: str) -> None:
    for part in ("minValues", "maxValues"):
        refused = [value for value in VALUES if misfit(f"c {kind}", f'{{"{part}":{{"c":{value}}}}}') is not None]
        assert set(refused) == set(REFUSED[kind])


@pytest.mark.parametrize("kind", REFUSED)
def test_counts_of_nulls_are_integers_of_64_bits(kind: str) -> None:
    refused = [value for value in VALUES if misfit(f"c {kind}", f'{{"nullCount":{{"c":{value}}}}}') is not None]
    assert set(refused) == {'"-Infinity"', *NO_INTEGER}


@pytest.mark.parametrize("part", ["minValues", "maxValues", "nullCount"])
@pytest.mark.parametrize("value", ["0", "[]", '"x"', "true"])
def test_structs_and_the_parts_of_statistics_are_objects(part: str, value: str) -> None:
    columns = "s struct<x: int, y: struct<z: long>>, b boolean"
    assert misfit(columns, f'{{"{part}":{value}}}') is not None
    assert misfit(columns, f'{{"{part}":{{"s":{value}}}}}') is not None
    assert misfit(columns, f'{{"{part}":{{"s":{{"y":{value}}}}}}}') is not None
    for fitting in ("null", "{}", '{"s":null}', '{"s":{"x":1,"y":{"z":null}}}', '{"other":[1]}'):
        assert misfit(columns, f'{{"numRecords":1,"{part}":{fitting},"tightBounds":"x"}}') is None


@pytest.mark.parametrize("name", ['`a"b`', "`a\\b`", "`é`", "`a.b`"])
def test_any_name_of_a_column_will_do(name: str) -> None:
    rules = TableRules.of(PLAIN, metadata_of(f"{name} long, b boolean", partition_by=()))
    quoted = json.dumps(name.strip("`"))
    rules.check(changed(ADD, partition_values={}, stats=f'{{"nullCount":{{{quoted}:0}}}}'))
    with pytest.raises(InvalidAction):
        rules.check(changed(ADD, partition_values={}, stats=f'{{"nullCount":{{{quoted}:"x"}}}}'))


def test_the_error_names_place_and_value() -> None:
    stats = '{"numRecords":1,"maxValues":{"id":1,"st":{"x":4294967296}}}'
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(PLAIN, metadata_of()).check(changed(ADD, stats=stats))
    assert (caught.value.rule, caught.value.found) == ("add.stats.type", "maxValues.st.x: 4294967296")


@pytest.mark.parametrize("verbatim", [False, True])
def test_mapped_columns_are_judged_by_their_physical_names(verbatim: bool) -> None:
    mapped = '"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"col-1"}'
    schema = f'{{"type":"struct","fields":[{{"name":"id","type":"long","nullable":true,{mapped}}}]}}'
    metadata = metadata_of(schema, partition_by=(), configuration={"delta.columnMapping.mode": "name"})
    rules = TableRules.of(PLAIN, metadata, verbatim=verbatim)
    rules.check(changed(ADD, partition_values={}, stats='{"nullCount":{"id":"x"}}'))
    with pytest.raises(InvalidAction):
        rules.check(changed(ADD, partition_values={}, stats='{"nullCount":{"col-1":"x"}}'))


@pytest.mark.parametrize("digits", ["9" * 41, "9" * 5_000])
def test_numbers_of_any_length_are_refused_and_no_defect(digits: str) -> None:
    for value in (digits, f'"{digits}"', f"-{digits}"):
        for part in ("minValues", "nullCount"):
            with pytest.raises(InvalidAction):
                TableRules.of(PLAIN, metadata_of()).check(changed(ADD, stats=f'{{"{part}":{{"id":{value}}}}}'))


UNREAD_DATES = ("0000-12-31", "-0001-12-31", "-2024-01-01", "+10000-01-01", "+5881580-07-11", "\\u002d0001-12-31")
READ_DATES = ("0001-01-01", "9999-12-31", "+2024-01-01", "2024-1-1", "10000-01-01", "junk", "")
DATED = metadata_of("s struct<day: date>, name string", partition_by=())


def dated(day: str) -> Add:
    bound = f'{{"s":{{"day":"{day}"}},"name":"-"}}'
    return changed(ADD, partition_values={}, stats=f'{{"numRecords":1,"minValues":{bound},"maxValues":{bound}}}')


def test_dates_that_python_has_not_are_refused_in_files_that_are_new() -> None:
    """At them, delta-rs fails for the whole table, where it is opened as Arrow or pandas data."""
    rules = TableRules.of(PLAIN, DATED)
    for day in UNREAD_DATES:
        with pytest.raises(InvalidAction, match=r"minValues\.s\.day") as caught:
            rules.check(dated(day))
        assert caught.value.rule == "add.stats.date"
        rules.check(changed(dated(day), data_change=False))
        TableRules.of(PLAIN, DATED, verbatim=True).check(dated(day))
    for day in READ_DATES:
        rules.check(dated(day))


def test_a_date_that_python_has_not_is_found_among_many() -> None:
    rules = TableRules.of(PLAIN, DATED)
    plain = changed(dated("2024-01-01"), stats='{"numRecords":1,"minValues":{"s":{"day":"2024-01-01"},"name":"a"}}')
    assert plain_block(rules, [plain, plain]) is not None
    for day in UNREAD_DATES:
        odd = changed(plain, stats=str(plain.stats).replace("2024-01-01", day))
        assert plain_block(rules, [odd, plain]) is None
