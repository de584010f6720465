"""Schemas: their JSON text byte for byte, column definitions, Arrow, and what Delta cannot hold."""

import json
import pickle

import pyarrow as pa
import pytest

from deltamirror.delta.schema import (
    ArrayType,
    Decimal,
    Field,
    MapType,
    Primitive,
    StructType,
    from_ddl,
    parse_schema,
    read_schema,
    schema_string,
    validate_schema,
)
from deltamirror.delta.schema.arrow import from_arrow, to_arrow
from deltamirror.errors import InvalidSchema
from tests.support.reference_logs.golden import reference

REFERENCE = reference()
EVERYTHING = (
    "a tinyint, b byte, c smallint, d short, e int, f integer, g bigint, h long, i real, j float, k double, l string,"
    " m boolean, n binary, o date, p timestamp, q timestamp_ntz, r variant, s void, t decimal, u decimal(12, 3),"
    " v array<map<string, struct<x: int NOT NULL, y array<double>>>>"
)


def of_field(kind: str, metadata: str = "{}") -> str:
    return f'{{"type":"struct","fields":[{{"name":"c","type":{kind},"nullable":true,"metadata":{metadata}}}]}}'


def logged_schemas() -> list[str]:
    lines = (line for log in REFERENCE.logs for path in log.glob("*.json") for line in path.read_bytes().splitlines())
    found = (json.loads(line)["metaData"].get("schemaString") for line in lines if line.startswith(b'{"metaData"'))
    return [text for text in found if text is not None]


@pytest.mark.requirement("R5")
@pytest.mark.reference
def test_every_schema_in_the_reference_logs_keeps_its_bytes() -> None:
    schemas = logged_schemas()
    assert len(schemas) >= REFERENCE.floors.schemas
    assert [schema_string(parse_schema(text)) for text in schemas] == schemas


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    "text",
    [
        of_field('"decimal(10,2)"'),
        of_field('{"type":"array","elementType":"long","containsNull":false}'),
        of_field('{"type":"map","keyType":"string","valueType":"variant","valueContainsNull":false}'),
        of_field('"long"', '{"z":1,"a":1.0,"e":1.50E10,"n":null,"l":[true,{"k":-0.0}],"i":12345678901234567890}'),
        of_field('"string"', '{"comment":"é \\u001F \\" \\\\ / \\n"}'),
        '{"type":"struct","fields":[]}',
    ],
)
def test_a_schema_keeps_its_bytes(text: str) -> None:
    schema = parse_schema(text)
    assert schema_string(schema) == text
    assert schema_string(pickle.loads(pickle.dumps(schema))) == text  # noqa: S301  (our own bytes)


def test_an_object_parses_like_its_text() -> None:
    text = of_field('"long"', '{"comment":"x"}')
    assert parse_schema(json.loads(text)) == parse_schema(text)


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("[", "", "not JSON"),
        ('"long"', "", "struct"),
        ("[]", "", "a name or an object"),
        (of_field('"int"'), "c", "unknown type 'int'"),
        (of_field('"decimal(10)"'), "c", "unknown type"),
        (of_field('{"type":"set"}'), "c", "unknown type 'set'"),
        (of_field('{"type":"array","elementType":"long"}'), "c", "'containsNull' is missing"),
        (of_field('{"type":"array","elementType":"lng","containsNull":true}'), "c.element", "unknown type"),
        (of_field('{"type":"map","keyType":"string","valueType":"x","valueContainsNull":true}'), "c.value", "unknown"),
        (of_field('"long"', '"x"'), "c", "metadata"),
        ('{"type":"struct","fields":{}}', "", "list"),
        ('{"type":"struct","fields":[1]}', "", "object"),
        ('{"type":"struct","fields":[{"type":"long"}]}', "", "no name"),
        ('{"type":"struct","fields":[{"name":"c","type":"long","nullable":"yes"}]}', "c", "true or false"),
        ('{"type":"struct","fields":[{"name":"c","type":"long","nullable":true,"extra":1}]}', "c", "unknown member"),
        ('{"type":"struct","fields":[' * 20_000, "", "too deeply"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_its_column(text: str, column: str, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem) as caught:
        parse_schema(text)
    assert caught.value.column == column


def test_column_definitions_become_deltas_types() -> None:
    schema = from_ddl("id long, day date NOT NULL COMMENT 'the ''day''', s struct<a:int,b:array<string>>")
    assert schema == StructType(
        (
            Field("id", Primitive("long")),
            Field("day", Primitive("date"), nullable=False, metadata={"comment": "the 'day'"}),
            Field(
                "s",
                StructType((Field("a", Primitive("integer")), Field("b", ArrayType(Primitive("string"))))),
            ),
        )
    )


def test_every_alias_of_spark_sql_is_understood() -> None:
    kinds = [each.type for each in from_ddl(EVERYTHING).fields]
    names = " ".join(kind.name for kind in kinds if isinstance(kind, Primitive))
    assert names == (
        "byte byte short short integer integer long long float float double string boolean binary date timestamp"
        " timestamp_ntz variant void"
    )
    assert kinds[19:21] == [Decimal(10, 0), Decimal(12, 3)]


def test_quoted_names_and_escapes_are_taken_literally() -> None:
    schema = from_ddl(r"""`a ``b``, c` int, d string comment "tab\t\"x\"" """)
    assert [each.name for each in schema.fields] == ["a `b`, c", "d"]
    assert schema.fields[1].metadata == {"comment": 'tab\t"x"'}


def test_char_and_varchar_are_strings_that_remember_their_declaration() -> None:
    schema = from_ddl("a varchar(5) comment 'x', b map<char(2), struct<c: varchar(3), d: bigint>>")
    assert schema.fields[0].type == Primitive("string")
    assert list(schema.fields[0].metadata.items()) == [("comment", "x"), ("__CHAR_VARCHAR_TYPE_STRING", "varchar(5)")]
    declared = "map<char(2),struct<c:varchar(3),d:bigint>>"
    assert schema.fields[1].metadata == {"__CHAR_VARCHAR_TYPE_STRING": declared}


@pytest.mark.parametrize(
    ("text", "column", "position"),
    [
        ("", "", 1),
        ("id", "id", 3),
        ("id lng", "id", 4),
        ("id long,", "", 9),
        ("id long day date", "id", 9),
        ("id long not", "id", 12),
        ("id long comment 5", "id", 17),
        ("s struct<a: int, b: lng>", "s.b", 21),
        ("s struct<a int", "s", 15),
        ("a array long", "a", 9),
        ("d decimal(x)", "d", 11),
        ("d decimal(1", "d", 12),
        ("v varchar", "v", 10),
        ("id long $", "id", 9),
        ("id long) x", "", 8),
        ("1.5 long", "1", 2),
    ],
)
def test_a_wrong_column_definition_is_named_with_its_position(text: str, column: str, position: int) -> None:
    with pytest.raises(InvalidSchema, match=rf"position {position}:") as caught:
        from_ddl(text)
    assert caught.value.column == column


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="too deeply"):
        from_ddl("a " + "array<" * 20_000)


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ("a int, A int", "A"),
        ("s struct<x: int, X: int>", "s.X"),
        ("a array<struct<x: int, x: int>>", "a.element.x"),
        ("`a b` int", "a b"),
        ("`a=b` int", "a=b"),
        ("m map<string, struct<`;` int>>", "m.value.;"),
        ("`` int", ""),
        ("`a\0b` int", "a\0b"),
        ("d decimal(39, 0)", "d"),
        ("d decimal(0, 0)", "d"),
        ("a array<decimal(5, 6)>", "a.element"),
    ],
)
def test_a_schema_that_delta_cannot_hold_is_refused_with_its_column(schema: str, column: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        validate_schema(from_ddl(schema))
    assert caught.value.column == column


def test_column_mapping_frees_the_names() -> None:
    validate_schema(from_ddl("`a b` int, `c;d` struct<`=` int>, `\x01\x1f\ufeff\ufffe` int"), column_mapping=True)
    with pytest.raises(InvalidSchema, match="NUL"):
        validate_schema(from_ddl("`a\0` int"), column_mapping=True)


def test_a_schema_is_read_from_definitions_and_from_json() -> None:
    assert read_schema("c long") == read_schema(" " + of_field('"long"'))


def test_names_that_column_mapping_allows_are_left_to_the_table() -> None:
    assert read_schema("`a b` long").fields[0].name == "a b"


def test_arrow_and_back_is_the_same_schema() -> None:
    schema = from_ddl(EVERYTHING.replace("r variant, ", "") + ", w string comment 'kept'")
    assert from_arrow(to_arrow(schema)) == schema
    assert from_arrow(to_arrow(schema)).fields[-1].metadata == {"comment": "kept"}


def test_arrows_variants_of_a_type_are_one_type_of_delta() -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.large_string()),
            pa.field("b", pa.dictionary(pa.int8(), pa.string())),
            pa.field("c", pa.large_list(pa.field("item", pa.int64(), nullable=False))),
            pa.field("d", pa.timestamp("ms", tz="Europe/Paris")),
            pa.field("e", pa.map_(pa.string(), pa.large_binary())),
            pa.field("f", pa.decimal256(38, 4), nullable=False),
            pa.field("g", pa.date64()),
        ]
    )
    assert from_arrow(schema) == StructType(
        (
            Field("a", Primitive("string")),
            Field("b", Primitive("string")),
            Field("c", ArrayType(Primitive("long"), contains_null=False)),
            Field("d", Primitive("timestamp")),
            Field("e", MapType(Primitive("string"), Primitive("binary"))),
            Field("f", Decimal(38, 4), nullable=False),
            Field("g", Primitive("date")),
        )
    )


@pytest.mark.parametrize("kind", [pa.uint32(), pa.float16(), pa.time32("s"), pa.duration("s"), pa.decimal256(50, 2)])
def test_a_type_that_delta_lacks_is_refused_with_its_column(kind: pa.DataType) -> None:
    with pytest.raises(InvalidSchema, match=r"column s\.x: ") as caught:
        from_arrow(pa.schema([pa.field("s", pa.struct([pa.field("x", kind)]))]))
    assert caught.value.column == "s.x"


def test_a_variant_is_two_binaries_in_arrow() -> None:
    kind = to_arrow(from_ddl("v variant")).field("v").type
    assert [each.name for each in kind] == ["metadata", "value"]


def test_leaves_are_the_columns_that_are_not_structs() -> None:
    schema = from_ddl("a int, s struct<b: int, t: struct<c: array<struct<d: int>>>>")
    assert [path for path, _ in schema.leaves()] == [("a",), ("s", "b"), ("s", "t", "c")]
    assert [path for path, _ in schema.walk()][-1] == ("s", "t", "c", "element", "d")


def test_a_field_is_found_without_regard_to_case() -> None:
    schema = parse_schema(of_field('"long"', '{"delta.columnMapping.physicalName":"col-1"}'))
    found = schema.get("C")
    assert found is not None
    assert found.physical_name == "col-1"
    assert schema.get("d") is None
