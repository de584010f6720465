"""Schemas, partitions, files and actions, from any of the forms in which programs have them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from types import NoneType
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec
import pyarrow as pa

from deltamirror.arguments import PARTITION_VALUES, listed, mapping, partition_filter, shown, text, text_map
from deltamirror.config.overrides import ignored_properties
from deltamirror.delta.actions import Action, Add, Cdc, Remove
from deltamirror.delta.lines import json_bytes, wire_name, with_end
from deltamirror.delta.paths import partition_text
from deltamirror.delta.schema import StructType, from_ddl, parse_schema, schema_string, validate_schema
from deltamirror.delta.schema.arrow import from_arrow
from deltamirror.delta.validation.rules import violation
from deltamirror.errors import InvalidInput, InvalidSchema

Schema: TypeAlias = str | StructType | Mapping[str, Any] | pa.Schema | Any
"""Column definitions, the JSON of Delta and Spark (as text or decoded), or a schema of Spark, Arrow or delta-rs."""

_FORMS = 'give "id long, day date", a schema of Spark or Arrow, or the JSON of Delta'
A = TypeVar("A", bound=Action)
F = TypeVar("F", bound=Add | Remove | Cdc)
_ACTIONS = get_args(Action)
_CUT_BYTES = 1024 * 1024


def schema_of(schema: object) -> StructType:
    """The schema, valid but for names, which depend on the table. Libraries are recognised by what their schemas do."""
    found = _read_schema(schema)
    validate_schema(found, column_mapping=True)
    return found


def table_properties(value: object) -> dict[str, str]:
    """The properties of a table. One that is a setting of the mirror has to have a value that it can have."""
    properties = text_map(value, "properties")
    for name, kind in ignored_properties(properties):
        if not name.startswith("delta."):  # those have rules of their own
            message = f"property {name}: expected {kind}, found {properties[name]!r}"
            raise InvalidInput(message, hint="the reference of settings names the properties and what they mean")
    return properties


def _read_schema(schema: object) -> StructType:
    if isinstance(schema, str):
        return parse_schema(schema) if schema.lstrip().startswith("{") else from_ddl(schema)
    if isinstance(schema, StructType):
        return _whole(schema)
    if isinstance(schema, Mapping):
        return _from_json(schema)
    if isinstance(schema, pa.Schema):
        return from_arrow(schema)
    for method, read in _FOREIGN.items():
        if not isinstance(schema, type) and callable(found := getattr(schema, method, None)):
            return read(schema, found)
    hint = f"{_FORMS}; of Arrow data, its schema" if hasattr(schema, "schema") else _FORMS
    raise InvalidSchema(f"schema has to be a schema, not {shown(schema)}", hint=hint)


def _whole(schema: StructType) -> StructType:
    """A schema that was put together in Python, where nothing keeps ``Field("id", "long")`` from being made."""
    try:
        return parse_schema(schema_string(schema))
    except (AssertionError, AttributeError, TypeError) as error:
        hint = 'a type is a value: Field("id", Primitive("long")); or write "id long"'
        raise InvalidSchema(f"the schema is not made of fields and types: {error}", hint=hint) from error


def _from_json(decoded: object) -> StructType:
    try:
        return parse_schema(json.dumps(decoded, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSchema(f"the schema is no JSON: {error}", hint=_FORMS) from error


def _from_json_text(_: object, method: Callable[[], object]) -> StructType:
    return parse_schema(text(method(), "the JSON of the schema"))


def _from_capsule(schema: object, _: Callable[[], object]) -> StructType:
    return from_arrow(pa.schema(schema))


_FOREIGN: Mapping[str, Callable[[object, Callable[[], object]], StructType]] = {
    "jsonValue": lambda _, method: _from_json(method()),  # Spark
    "to_json": _from_json_text,  # delta-rs
    "__arrow_c_schema__": _from_capsule,  # whatever speaks Arrow
}


def partition_columns(value: object, name: str, schema: StructType) -> tuple[str, ...]:
    """Names of columns; a text is one name. Commas separate nothing: a mapped column may have one in its name."""
    if isinstance(value, str) and "," in value and schema.get(value) is None:
        parts = ", ".join(f'"{part.strip()}"' for part in value.split(","))
        raise InvalidInput(f"there is no column {value!r}", hint=f"name several columns by a list: {name}=[{parts}]")
    found = [] if value is None else listed(value, name, one=str, of="names of columns")
    return tuple(text(column, f"each of {name}") for column in found)


def operation_parameters(value: object) -> Mapping[str, object] | None:
    """What describes an operation in the history: anything that JSON can hold."""
    if value is None:
        return None
    found = mapping(value, "parameters")
    json_bytes(found)
    return found


def moment(value: object) -> int | str | datetime | None:
    """A time: milliseconds since 1970, ISO text, ``datetime``, or a ``date``, which is its midnight in UTC."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, datetime) and value == value:  # pandas' NaT is a datetime, and differs from itself
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    hint = "give milliseconds since 1970, a datetime, or a text like 2024-05-01T12:00:00Z"
    raise InvalidInput(f"as_of has to be a time, not {shown(value)}", hint=hint)


def partition_reads(value: object) -> list[dict[str, list[Any]]]:
    """Partitions that were read: one mapping from columns to values, or several; a value may be a list of values."""
    found = [] if value is None else listed(value, "partitions", one=Mapping, of="mappings")
    return [partition_filter(each) for each in found]


def paths_to_remove(files: object) -> Iterator[str | Remove]:
    """Files by path, or as complete actions; a single one is a list of one."""
    hint = "give paths as the log has them; of a listing, its column: files.column('path').to_pylist()"
    for file in listed(files, "files", one=(str, Add, Remove), of="paths"):
        if not isinstance(file, str | Add | Remove):
            raise InvalidInput(f"each of files has to be a path, an Add or a Remove, not {shown(file)}", hint=hint)
        yield text(file.path, "path") if isinstance(file, Add) else file


def actions_of(actions: object) -> Iterator[Action]:
    """Actions of any kind, with partition values as texts; a single one is a list of one."""
    return converted(listed(actions, "actions", one=_ACTIONS, of="actions"), _action)


def _action(index: int, action: object) -> Action:
    if isinstance(action, Add | Remove | Cdc):
        return with_partition_texts(action, index)
    if not isinstance(action, _ACTIONS):
        hint = "give Add, Remove, Metadata, …; lines of JSON go to stage_lines, or through `deltamirror commit`"
        raise InvalidInput(f"each of actions has to be an action, not {shown(action)}", hint=hint)
    return action  # type: ignore[no-any-return]  # the classes were looked at


def lines_of(lines: object) -> Iterable[bytes]:
    """Lines of another writer: as one piece, or one by one."""
    if isinstance(lines, str | bytes | bytearray | memoryview):
        return _cut(_line(lines))
    return _ended(_line(each) for each in listed(lines, "lines", one=(), of="lines"))


def _cut(data: bytes) -> Iterator[bytes]:
    """The lines of a text, with their ends; some at a time, because a list of blank lines alone can fill the memory."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _CUT_BYTES) + 1 or len(data)
        yield from data[start:end].splitlines(keepends=True)
        start = end


def _ended(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines with the ends that a caller took off them; a file may lack the last one."""
    held, missing = None, False
    for line in lines:
        if held is not None:
            ended = with_end(held)
            missing |= ended != held
            yield ended
        held = line
    if held is not None:
        yield with_end(held) if missing else held


def _line(line: object) -> bytes:
    if isinstance(line, str):
        return line.encode(errors="surrogatepass")  # half a character is refused where lines are read
    if isinstance(line, bytes | bytearray | memoryview):
        return bytes(line)
    hint = "give the bytes of a commit file, or its lines"
    raise InvalidInput(f"each of lines has to be bytes, not {shown(line)}", hint=hint)


def converted(stream: Iterable[object], convert: Callable[[int, object], A]) -> Iterator[A | Add]:
    """A stream with adds as they are, if their partition values are texts, and everything else converted."""
    for index, each in enumerate(stream):
        if type(each) is Add and type(each.partition_values) is dict:
            # Written out, because a million adds run through it.
            for value in each.partition_values.values():
                if type(value) is not str and value is not None:
                    break
            else:
                yield each
                continue
        yield convert(index, each)


def with_partition_texts(action: F, index: int | None = None) -> F:
    """The action; partition values that are not texts, such as dates, as the log spells them."""
    values = action.partition_values
    if not isinstance(values, dict) or {type(value) for value in values.values()} <= {str, NoneType}:
        return action  # another type than dict is refused with the other fields of a wrong type
    texts = partition_texts(values, action=wire_name(action), index=index)
    return msgspec.structs.replace(action, partition_values=texts)


def partition_texts(values: Mapping[Any, object], *, action: str, index: int | None) -> dict[Any, str | None]:
    """Partition values as the log spells them, from texts and from values of Python and numpy."""
    texts: dict[Any, str | None] = {}
    for column, value in values.items():
        try:
            texts[column] = _partition_text(value)
        except (AttributeError, TypeError, ValueError, ArithmeticError):
            field = f"partitionValues.{column}"
            raise violation(
                f"{action}.partition.value", action=action, index=index, field=field, found=shown(value)
            ) from None
    return texts


def _partition_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value if value is None else str.__str__(value)
    plain = value if isinstance(value, PARTITION_VALUES) else value.item()  # type: ignore[attr-defined]  # numpy's scalars
    if not isinstance(plain, PARTITION_VALUES):
        raise TypeError
    return partition_text(plain)
