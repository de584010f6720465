"""Lines of the log to Arrow: a row for each add and remove, and the other actions one by one.

Lines of file actions that hold nothing unforeseen are parsed by Arrow, without a Python object for any of them. That is
exact, but knows objects of given keys only. So the keys of partition values and tags are learned from lines that are
decoded singly, by ``delta.lines``, as is every block that Arrow does not take. Both ways lead to the same rows. Fields
that no line had so far are not looked for: each of them costs about as much as one that is there.
"""

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltamirror.delta.actions import Action, Add, Cdc, CommitInfo, Remove
from deltamirror.delta.lines import decode, json_text
from deltamirror.deltalog.checkpoint.columns import combined
from deltamirror.deltalog.checkpoint.decoded import adds_table, removes_table
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES, VECTOR
from deltamirror.deltalog.checkpoint.maps import map_of_struct

_FEW_BYTES: Final = 64 * 1024
"""Up to here, decoding line by line is faster than Arrow is set up."""

_MOST_KEYS: Final = 64
_LEARNED_LINES: Final = 64
_FILE_PREFIXES: Final = (b'{"add":', b'{"remove":')
_TRACELESS_PREFIXES: Final = (b'{"commitInfo":', b'{"cdc":')
_NAMES: Final = frozenset({*FILES.names, *REMOVES.names, *(each.name for each in VECTOR), "add", "remove"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What a block of lines says. ``ordinal`` numbers the rows of both tables by their place in the block."""

    actions: Sequence[Action]
    """Neither files nor provenance, in order."""
    adds: pa.Table
    removes: pa.Table
    num_lines: int


class MapKeys:
    """The keys that partition values and tags had in the lines decoded last, and the fields that no line had.

    What it holds decides on speed alone.
    """

    __slots__ = ("absent", "partitions", "tags")

    def __init__(self) -> None:
        self.partitions: tuple[str, ...] = ()
        self.tags: tuple[str, ...] = ()
        self.absent: frozenset[tuple[str, str]] | None = None
        """Actions and their fields that no line had; None before it is known."""

    def learn(self, actions: Sequence[Action]) -> None:
        """Expect these keys from the next lines on, unless they are too many."""
        files = [each for each in actions if isinstance(each, Add | Remove)]
        partitions = {key for each in files for key in each.partition_values or ()}
        tags = {key for each in files for key in each.tags or ()}.union(self.tags)
        if files and len(partitions) <= _MOST_KEYS:
            self.partitions = tuple(sorted(partitions))
        if len(tags) <= _MOST_KEYS:
            self.tags = tuple(sorted(tags))


class _Unforeseen(Exception):
    """Lines that Arrow would not read exactly."""


def parsed(data: bytes, keys: MapKeys, *, few_bytes: int = _FEW_BYTES) -> Block:
    """What the lines of ``data`` say. Up to ``few_bytes`` they are decoded singly."""
    if len(data) > few_bytes:
        try:
            return _by_arrow(data, keys)
        except _Unforeseen:
            pass
    return _in_parts(data.split(b"\n"), keys, few_bytes)


def _in_parts(lines: Sequence[bytes], keys: MapKeys, few_bytes: int) -> Block:
    """By Arrow, but for the lines that are no file actions."""
    files = [line for line in lines if line.startswith(_FILE_PREFIXES)]
    if sum(map(len, files)) > few_bytes:
        keys.learn([decode(line) for line in files[:: max(len(files) // _LEARNED_LINES, 1)]])
        others = [line for line in lines if not line.startswith(_FILE_PREFIXES)]
        try:
            block = _by_arrow(b"\n".join(files), keys)
        except _Unforeseen:
            return _singly(lines, keys)
        rest = _singly(others, keys)
        if not rest.adds.num_rows and not rest.removes.num_rows:
            return Block(actions=rest.actions, adds=block.adds, removes=block.removes, num_lines=block.num_lines)
    return _singly(lines, keys)


def _singly(lines: Sequence[bytes], keys: MapKeys) -> Block:
    decoded = [decode(line) for line in lines if line.strip() and not line.startswith(_TRACELESS_PREFIXES)]
    keys.learn(decoded)
    adds = [(ordinal, each) for ordinal, each in enumerate(decoded) if isinstance(each, Add)]
    removes = [(ordinal, each) for ordinal, each in enumerate(decoded) if isinstance(each, Remove)]
    others = [each for each in decoded if not isinstance(each, Add | Remove | Cdc | CommitInfo)]
    return Block(actions=others, adds=adds_table(adds), removes=removes_table(removes), num_lines=len(decoded))


def _by_arrow(data: bytes, keys: MapKeys) -> Block:
    lines = _read(data, keys)
    adds, removes = (_actions(lines, name) for name in ("add", "remove"))
    _check_nulls(data, [each.field("partitionValues") for each in (adds, removes) if _has(each, "partitionValues")])
    return Block(actions=(), adds=_table(adds, FILES), removes=_table(removes, REMOVES), num_lines=lines.num_rows)


def _read(data: bytes, keys: MapKeys) -> pa.Table:
    if keys.absent:
        with suppress(_Unforeseen):
            return _read_json(data, _line_schema(keys, without=keys.absent))
    lines = _read_json(data, _line_schema(keys))
    keys.absent = _absent(lines) if keys.absent is None else _absent(lines) & keys.absent
    return lines


def _read_json(data: bytes, schema: pa.Schema) -> pa.Table:
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    reading = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        return pj.read_json(pa.BufferReader(data), parse_options=options, read_options=reading)
    except pa.ArrowInvalid as error:
        raise _Unforeseen from error


def _absent(lines: pa.Table) -> frozenset[tuple[str, str]]:
    """The fields that are null on all lines."""
    columns = {name: combined(lines.column(name)) for name in lines.column_names}
    return frozenset(
        (name, each.name)
        for name, column in columns.items()
        for each in column.type
        if pc.struct_field(column, each.name).null_count == len(column)
    )


def _actions(lines: pa.Table, name: str) -> pa.StructArray:
    return combined(lines.column(name)) if name in lines.column_names else pa.nulls(lines.num_rows, pa.struct([]))


def _has(actions: pa.StructArray, field: str) -> bool:
    return bool(actions.type.get_field_index(field) >= 0)


def _line_schema(keys: MapKeys, without: Container[tuple[str, str]] = ()) -> pa.Schema:
    """What Arrow expects of lines: the fields of both actions, and of maps, the keys that were seen."""
    maps = {
        "partitionValues": pa.struct([(key, pa.string()) for key in keys.partitions]),
        "tags": pa.struct([(key, pa.string()) for key in keys.tags]),
        "deletionVector": pa.struct([each for each in VECTOR if each.name != "maxRowIndex"]),
    }
    actions = {"add": list(FILES), "remove": [*REMOVES, FILES.field("tags"), FILES.field("stats")]}
    structs = {
        name: [each.with_type(maps.get(each.name, each.type)) for each in fields if (name, each.name) not in without]
        for name, fields in actions.items()
    }
    return pa.schema([(name, pa.struct(fields)) for name, fields in structs.items() if fields])


def _check_nulls(data: bytes, structs: Sequence[pa.StructArray]) -> None:
    """A field that Arrow gives as null has to be null on its line, and not absent."""
    for number, each in enumerate(structs[0].type if structs else ()):
        nulls = sum(_nulls(struct, number) for struct in structs)
        if nulls and (each.name in _NAMES or data.count(f"{json_text(each.name)}:null".encode()) != nulls):
            raise _Unforeseen


def _nulls(struct: pa.StructArray, number: int) -> int:
    missing = pc.and_(struct.is_valid(), struct.field(number).is_null())
    return pc.sum(missing).as_py() or 0


def _table(actions: pa.StructArray, schema: pa.Schema) -> pa.Table:
    """The actions that are not null, as rows of a state."""
    valid = actions.is_valid()
    ordinals = pc.indices_nonzero(valid).cast(pa.int64())
    found = actions if actions.null_count == 0 else actions.filter(valid)
    columns = [_column(found, each) for each in schema]
    return pa.table([*columns, ordinals], schema.append(pa.field("ordinal", pa.int64())))


def _column(actions: pa.StructArray, field: pa.Field) -> pa.Array:
    match field.name:
        case "dataChange":  # no file action of a checkpoint changes data
            return pa.repeat(False, len(actions))
        case name if not _has(actions, name):
            return pa.nulls(len(actions), field.type)
        case "partitionValues":
            return map_of_struct(actions.field(field.name), nulls_are_values=True)
        case "tags":
            return map_of_struct(actions.field(field.name), nulls_are_values=False)
        case "deletionVector":
            return _vectors(actions.field(field.name))
        case name:
            return actions.field(name)


def _vectors(vectors: pa.StructArray) -> pa.StructArray:
    children = [vectors.field(number) for number in range(vectors.type.num_fields)]
    largest = pa.nulls(len(vectors), pa.int64())
    return pa.StructArray.from_arrays([*children, largest], fields=list(VECTOR), mask=vectors.is_null())
