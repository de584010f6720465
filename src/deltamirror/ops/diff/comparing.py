"""Whether two states of tables are the same: if not, the first difference, and how many there are of each kind."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from itertools import chain
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.layout import FILES
from deltamirror.deltalog.checkpoint.reconciliation import are_ascending, by_ranges, keys_of
from deltamirror.deltalog.checkpoint.state import CheckpointState

ONLY_IN_A: Final = "only_in_a"
ONLY_IN_B: Final = "only_in_b"
DIFFERING: Final = "differing"

# The path is what files are found by; whether an action changed data is a fact of its commit, not of the table.
_LONGEST: Final = 200
_COMPARED: Final = tuple(name for name in FILES.names if name not in ("path", "dataChange"))
_KINDS: Final = (ONLY_IN_A, ONLY_IN_B, DIFFERING, *(f"{DIFFERING}.{name}" for name in _COMPARED))
_DOCUMENT: Final = msgspec.json.Decoder(float_hook=Decimal)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedDifference:
    """What tells state A from state B."""

    examples: Mapping[str, str]
    """One difference of each kind as a sentence, with both values."""
    counts: Mapping[str, int]
    """How many there are of each kind that there is.

    ``protocol`` and ``metaData`` count fields and properties, ``txn`` applications, ``domainMetadata`` domains,
    ``only_in_a``, ``only_in_b`` and ``differing`` files, ``differing.stats`` the files that differ in this field.
    """

    @property
    def first(self) -> str | None:
        """The first of the examples; None where there is no difference."""
        return next(iter(self.examples.values()), None)

    @property
    def equal(self) -> bool:
        """Whether the states are the same."""
        return not self.counts


@dataclass(frozen=True, slots=True)
class _Finding:
    kind: str
    count: int
    first: str


def compare(one: CheckpointState, other: CheckpointState) -> ComparedDifference:
    """What tells two states apart, in whatever order they hold their files: A is ``one``, B the ``other``.

    Versions are not compared, so that a table may be compared with itself at another time; nor are tombstones, of which
    a log keeps as many as its age allows. Statistics are compared by what they say, not by their spelling.
    """
    findings = [*_among_others(one, other), *_among_files(one.files, other.files)]
    return ComparedDifference(
        examples={each.kind: each.first for each in findings}, counts={each.kind: each.count for each in findings}
    )


def _among_others(one: CheckpointState, other: CheckpointState) -> Iterator[_Finding]:
    yield from _among_values("protocol", _of_protocol(one.protocol), _of_protocol(other.protocol))
    yield from _among_values("metaData", _of_metadata(one.metadata), _of_metadata(other.metadata))
    transactions = ({each.app_id: _fields(each) for each in state.transactions} for state in (one, other))
    yield from _among_values("txn", *transactions)
    domains = ({each.domain: each.configuration for each in state.domains} for state in (one, other))
    yield from _among_values("domainMetadata", *domains)


def _of_protocol(protocol: Protocol) -> dict[str, object]:
    features = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
    return {**_fields(protocol), **{name: sorted(each or ()) for name, each in features.items()}}


def _of_metadata(metadata: Metadata) -> dict[str, object]:
    properties = {f"configuration {name}": value for name, value in metadata.configuration.items()}
    return {name: value for name, value in _fields(metadata).items() if name != "configuration"} | properties


def _fields(action: msgspec.Struct) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(action)
    return fields


def _among_values(kind: str, one: Mapping[str, object], other: Mapping[str, object]) -> Iterator[_Finding]:
    differing = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if differing:
        name = differing[0]
        yield _Finding(kind, len(differing), f"{kind} {name} {_both(one.get(name), other.get(name))}")


def _among_files(one: pa.Table, other: pa.Table) -> Iterator[_Finding]:
    """One finding of each kind; of many files, those of a few ranges of keys are in memory at a time."""
    if _is_same(one, other):
        return
    found: dict[str, _Finding] = {}
    for each in chain.from_iterable(in_threads(lambda pair: list(_among_these(*pair)), by_ranges(one, other))):
        before = found.get(each.kind)
        found[each.kind] = each if before is None else replace(before, count=before.count + each.count)
    yield from (found[kind] for kind in _KINDS if kind in found)


def _is_same(one: pa.Table, other: pa.Table) -> bool:
    """Whether both surely have the same files: row for row, each of them once."""
    columns = ["path", *_COMPARED]
    return bool(one.select(columns).equals(other.select(columns))) and are_ascending(one)


def _among_these(one: pa.Table, other: pa.Table) -> Iterator[_Finding]:
    keys, others = keys_of(one), keys_of(other)
    places = pc.index_in(keys, others)
    yield from _on_one_side(ONLY_IN_A, one, places.is_null(), "is in A and not in B")
    yield from _on_one_side(ONLY_IN_B, other, pc.invert(pc.is_in(others, keys)), "is in B and not in A")
    pairs = _Pairs(one, pc.indices_nonzero(places.is_valid()), other, places.drop_null())
    yield from pairs.findings()


def _on_one_side(kind: str, files: pa.Table, alone: pa.BooleanArray, where: str) -> Iterator[_Finding]:
    rows = pc.indices_nonzero(alone)
    if len(rows):
        yield _Finding(kind, len(rows), f"{_named(files, rows[0].as_py())} {where}")


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Files of the same key: rows of one table, and those of the other that face them."""

    one: pa.Table
    rows: pa.Array
    other: pa.Table
    other_rows: pa.Array

    def findings(self) -> Iterator[_Finding]:
        """What differs between the two files of any pair."""
        found = {name: differing for name in _COMPARED if len(differing := self._differing(name))}
        findings = [self._finding(name, differing) for name, differing in found.items()]
        if findings:
            files = pc.unique(pa.concat_arrays(list(found.values())))
            yield _Finding(DIFFERING, len(files), findings[0].first)
            yield from findings

    def _differing(self, name: str) -> pa.Array:
        """The pairs that differ in a field."""
        mine = self.one.column(name).combine_chunks().take(self.rows)
        theirs = self.other.column(name).combine_chunks().take(self.other_rows)
        return pc.indices_nonzero((_unequal_documents if name == "stats" else unequal)(mine, theirs))

    def _finding(self, name: str, differing: pa.Array) -> _Finding:
        pair = differing[0].as_py()
        row, other_row = self.rows[pair].as_py(), self.other_rows[pair].as_py()
        values = _value(self.one, name, row), _value(self.other, name, other_row)
        return _Finding(f"{DIFFERING}.{name}", len(differing), f"{_named(self.one, row)}: {name} {_both(*values)}")


def _value(files: pa.Table, name: str, row: int) -> object:
    value: object = files.column(name)[row].as_py(maps_as_pydicts="strict")
    return value


def _named(files: pa.Table, row: int) -> str:
    vector = files.column("deletionVector")[row].as_py()
    suffix = "" if vector is None else f" (deletion vector {vector['storageType']}{vector['pathOrInlineDv']})"
    return f"file {files.column('path')[row].as_py()}{suffix}"


def _both(one: object, other: object) -> str:
    """``is 1 in A and absent in B``."""
    mine, theirs = _shortened(_shown(one), _shown(other))
    return f"is {mine} in A and {theirs} in B"


def _shown(value: object) -> str:
    return "absent" if value in (None, []) else msgspec.json.encode(value).decode()


def _shortened(*texts: str) -> Iterable[str]:
    """Long texts from a little before the place where they begin to differ."""
    if max(map(len, texts)) <= _LONGEST:
        return texts
    pairs = enumerate(zip(*texts, strict=False))
    apart = next((place for place, pair in pairs if len(set(pair)) > 1), min(map(len, texts)))
    start = max(apart - _LONGEST // 4, 0)
    return [_cut(text, start) for text in texts]


def _cut(text: str, start: int) -> str:
    before, after = "…" if start else "", "…" if len(text) > start + _LONGEST else ""
    return f"{before}{text[start : start + _LONGEST]}{after}"


def unequal(one: pa.Array, other: pa.Array) -> pa.BooleanArray:
    """For each row whether the values differ. Two nulls are equal, and a null map is an empty one."""
    if pa.types.is_map(one.type):
        return _unequal_maps(one, other)
    present = pc.xor(one.is_valid(), other.is_valid())
    if pa.types.is_struct(one.type):
        fields = zip(one.flatten(), other.flatten(), strict=True)
        return reduce(pc.or_, (unequal(*pair) for pair in fields), present)
    return pc.coalesce(pc.not_equal(one, other), present)


def _unequal_documents(one: pa.Array, other: pa.Array) -> pa.BooleanArray:
    """For each row whether the JSON texts say something else; only texts that differ are looked into."""
    differing = unequal(one, other)
    rows = pc.indices_nonzero(differing)
    texts = zip(one.take(rows), other.take(rows), strict=True)
    found = [not _is_same_document(*(text.as_py() for text in pair)) for pair in texts]
    return pc.replace_with_mask(differing, differing, pa.array(found, pa.bool_()))


def _is_same_document(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return False
    try:
        return bool(_DOCUMENT.decode(one) == _DOCUMENT.decode(other))
    except msgspec.DecodeError:
        return False


def _unequal_maps(one: pa.MapArray, other: pa.MapArray) -> pa.BooleanArray:
    """Entries are in the order of their keys on both sides: where there are equally many, they face each other."""
    by_length = pc.not_equal(_lengths(one), _lengths(other))
    rows = pc.indices_nonzero(pc.invert(by_length))
    mine, theirs = one.take(rows), other.take(rows)
    entries = pc.or_(unequal(mine.keys, theirs.keys), unequal(mine.items, theirs.items))
    parents = pc.list_parent_indices(pa.ListArray.from_arrays(mine.offsets, mine.keys))
    by_entry = pc.is_in(pa.array(range(len(one)), rows.type), rows.take(parents.filter(entries)))
    return pc.or_(by_length, by_entry)


def _lengths(maps: pa.MapArray) -> pa.Array:
    lengths = pc.subtract(maps.offsets.slice(1), maps.offsets.slice(0, len(maps)))
    return pc.if_else(maps.is_valid(), lengths, pa.scalar(0, lengths.type))
