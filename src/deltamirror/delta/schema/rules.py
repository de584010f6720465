"""What makes a schema one that Delta can hold."""

from collections.abc import Iterator

from deltamirror.delta.schema.types import ArrayType, DataType, Decimal, MapType, StructType
from deltamirror.errors import InvalidSchema

# Parquet readers of the reference implementation cannot address a column with one of these in its name.
_FORBIDDEN = frozenset(" ,;{}()\n\t=")
_MAX_PRECISION = 38


def validate_schema(schema: StructType, *, column_mapping: bool = False) -> None:
    """Raise InvalidSchema, naming the column, unless Delta can hold this schema.

    Names are unique in their struct without regard to case, free of NUL, and, unless the table maps columns to
    physical names, of `` ,;{}()=``, tabs and line ends; decimals have 1 to 38 digits; a struct inside of the schema
    has a field, because Parquet has no empty one.
    """
    for path, kind in _types((), schema):
        if isinstance(kind, StructType):
            _check_names(path, kind, column_mapping)
        elif isinstance(kind, Decimal):
            _check_decimal(path, kind)


def _types(path: tuple[str, ...], kind: DataType) -> Iterator[tuple[tuple[str, ...], DataType]]:
    yield path, kind
    match kind:
        case StructType(fields):
            for each in fields:
                yield from _types((*path, each.name), each.type)
        case ArrayType(element):
            yield from _types((*path, "element"), element)
        case MapType(key, value):
            yield from _types((*path, "key"), key)
            yield from _types((*path, "value"), value)


def _check_names(path: tuple[str, ...], struct: StructType, column_mapping: bool) -> None:
    seen: set[str] = set()
    if path and not struct.fields:
        raise _wrong(path, "a struct has at least one field: neither Parquet nor the readers have an empty one")
    for each in struct.fields:
        where = (*path, each.name)
        if not each.name:
            raise _wrong(path, "a column has an empty name")
        if "\0" in each.name:
            raise _wrong(where, "a name may not hold the character NUL: delta-rs reads no table with such a column")
        if each.name.lower() in seen:
            raise _wrong(where, "the name occurs twice; names differ by more than case")
        if not column_mapping and not _FORBIDDEN.isdisjoint(each.name):
            raise _wrong(where, "a name may not hold any of ' ,;{}()=', tabs or line ends without column mapping")
        seen.add(each.name.lower())


def _check_decimal(path: tuple[str, ...], kind: Decimal) -> None:
    if not 1 <= kind.precision <= _MAX_PRECISION:
        raise _wrong(path, f"a decimal has 1 to {_MAX_PRECISION} digits, not {kind.precision}")
    if not 0 <= kind.scale <= kind.precision:
        raise _wrong(path, f"a decimal({kind.precision},{kind.scale}) has more digits behind the point than it has")


def _wrong(path: tuple[str, ...], problem: str) -> InvalidSchema:
    column = ".".join(path)
    return InvalidSchema(f"column {column}: {problem}" if column else problem, column=column)
