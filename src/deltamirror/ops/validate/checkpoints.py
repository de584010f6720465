"""The files of a checkpoint by themselves: Parquet or lines, one action a row, and the sidecars that they name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamirror.delta import names
from deltamirror.delta.actions import Action, CheckpointMetadata, DomainMetadata, Protocol, Sidecar, Txn
from deltamirror.delta.features import writer_features_of
from deltamirror.delta.lines import wire_name
from deltamirror.deltalog.checkpoint_pieces import is_json
from deltamirror.deltalog.commits import read_blocks
from deltamirror.deltalog.listing import CheckpointFiles, CheckpointKind
from deltamirror.deltalog.parquet import opened, rows_at_once, translated
from deltamirror.deltalog.rules.commits import decoded_lines
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.errors import CapacityExceeded, InvalidInput, InvalidLocation
from deltamirror.ops.validate.columns import ACTIONS, ill_typed
from deltamirror.ops.validate.typed_columns import TypedColumns
from deltamirror.storage.store import Meta, Store

_IDENTITIES: Final[Mapping[str, str]] = {
    "txn": "appId",
    "add": "path",
    "remove": "path",
    "metaData": "id",
    "protocol": "minReaderVersion",
    "domainMetadata": "domain",
    "checkpointMetadata": "version",
    "sidecar": "path",
    "commitInfo": "timestamp",
    "cdc": "path",
}
"""The columns of a checkpoint, with the field that is never null where a row has the action."""

_OF_COMMITS: Final = ("commitInfo", "cdc")
_OF_FILES: Final = ("add", "remove")
_BATCH_ROWS: Final = 100_000


@dataclass(slots=True)
class CheckpointCounts:
    """What the rows of a checkpoint hold, counted while they are looked at."""

    num_actions: int = 0
    num_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    applications: Counter[str] = field(default_factory=Counter)
    domains: Counter[str] = field(default_factory=Counter)
    heads: list[int] = field(default_factory=list)
    """The versions that checkpointMetadata states."""
    sidecars: list[tuple[str, int | None]] = field(default_factory=list)
    """Names and stated sizes."""
    features: frozenset[str] = frozenset()
    is_whole: bool = True
    """Whether every file of it could be looked at."""

    def take(self, action: Action) -> None:
        """Count an action of a file of lines."""
        self.num_actions += 1
        self.counts[wire_name(action)] += 1
        match action:
            case Txn():
                self.applications[action.app_id] += 1
            case DomainMetadata():
                self.domains[action.domain] += 1
            case CheckpointMetadata():
                self.heads.append(action.version)
            case Sidecar():
                self.sidecars.append((action.path, action.size_in_bytes))
            case Protocol():
                self.features = writer_features_of(action)


def checkpoint_findings(store: Store, files: CheckpointFiles, facts: CheckpointCounts) -> Iterator[Finding]:
    """The rules that a checkpoint breaks by itself; ``facts`` are filled with what it holds."""
    for meta in files.metas:
        yield from file_findings(store, meta, facts)
    for path, size in list(facts.sidecars):
        yield from _sidecar_findings(store, path, size, facts)
    yield from _whole(LogObject(store.location, files.metas[0].key), files, facts)


def file_findings(store: Store, meta: Meta, facts: CheckpointCounts) -> Iterator[Finding]:
    """The rules that one file of a checkpoint breaks, whatever the others are."""
    facts.num_bytes += meta.size
    subject = LogObject(store.location, meta.key)
    found = list(_of_lines(store, meta, subject, facts) if is_json(meta) else _of_parquet(store, meta, subject, facts))
    facts.is_whole &= not any(each.rule in _UNREADABLE or each.line is not None for each in found)
    yield from found


_UNREADABLE: Final = frozenset(
    {"checkpoint.parquet", "checkpoint.schema", "checkpoint.field.missing", "sidecar.parquet"}
)


def _of_lines(store: Store, meta: Meta, subject: LogObject, facts: CheckpointCounts) -> Iterator[Finding]:
    for number, found in decoded_lines(subject, read_blocks(store, meta)):
        if isinstance(found, Finding):
            yield found
            continue
        facts.take(found)
        if wire_name(found) in _OF_COMMITS:
            yield subject.finding("checkpoint.action.of-commit", line=number, found=wire_name(found))


def _of_parquet(store: Store, meta: Meta, subject: LogObject, facts: CheckpointCounts) -> Iterator[Finding]:
    try:
        yield from _of_columns(store, meta, subject, facts)
    except (InvalidInput, CapacityExceeded) as error:
        yield subject.finding("checkpoint.parquet", found=error.message)


def _of_columns(store: Store, meta: Meta, subject: LogObject, facts: CheckpointCounts) -> Iterator[Finding]:
    """What the columns of a file are, and what they hold; those of another type are not looked into."""
    file = opened(store, meta)
    ill = list(ill_typed(subject, file.schema_arrow))
    yield from (finding for _, finding in ill)
    names = {name for name, _ in ill}
    known = [each.name for each in file.schema_arrow if each.name not in names and _is_action(each)]
    yield from _of_rows(store, meta, subject, file, known, facts)
    if "add" in known:
        with translated(store, meta):
            yield from TypedColumns.of(file).findings(subject, file)


def _is_action(column: pa.Field) -> bool:
    identity = _IDENTITIES.get(column.name)
    return identity is not None and pa.types.is_struct(column.type) and column.type.get_field_index(identity) >= 0


def _of_rows(
    store: Store,
    meta: Meta,
    subject: LogObject,
    file: pq.ParquetFile,
    known: Sequence[str],
    facts: CheckpointCounts,
) -> Iterator[Finding]:
    """Which rows have no action, or several, or one that lacks a field, and what they come to."""
    columns = [f"{name}.{each}" for name in known for each in _needed(file.schema_arrow.field(name))]
    # Rows without an action of these columns may have one of the others.
    first, others = 1, len(known) < len(file.schema_arrow.names)
    with translated(store, meta):
        most = rows_at_once(file.metadata, range(file.num_row_groups), most=_BATCH_ROWS)
        for batch in file.iter_batches(most, columns=columns):
            yield from _of_batch(subject, batch, first, facts, others=others)
            first += batch.num_rows


def _needed(column: pa.Field) -> Iterator[str]:
    yield from dict.fromkeys((_IDENTITIES[column.name], *_required(column.name)))
    if column.name == "protocol":
        yield from (each for each in ("readerFeatures", "writerFeatures") if column.type.get_field_index(each) >= 0)


def _required(name: str) -> list[str]:
    """The fields of an action that it never lacks."""
    return [each.name for each in ACTIONS[name].fields if not each.nullable] if name in ACTIONS else []


def _of_batch(
    subject: LogObject, batch: pa.RecordBatch, first: int, facts: CheckpointCounts, *, others: bool
) -> Iterator[Finding]:
    present = {name: _present(batch.column(name), name) for name in batch.schema.names}
    counts = _sum([each.cast(pa.int8()) for each in present.values()], batch.num_rows)
    several = pc.indices_nonzero(pc.greater(counts, 1))
    empty = pc.indices_nonzero(pc.equal(counts, 0))
    if len(several):
        row = several[0].as_py()
        actions = [name for name, each in present.items() if each[row].as_py()]
        found = f"{', '.join(actions)} ({len(several):,} such rows)"
        yield subject.finding("checkpoint.row.several", row=first + row, found=found)
    if len(empty) and not others:
        yield subject.finding("checkpoint.row.empty", row=first + empty[0].as_py(), found=f"{len(empty):,} such rows")
    for name, each in present.items():
        yield from _incomplete(subject, batch.column(name), name, each, first)
        number = pc.sum(each).as_py() or 0
        facts.counts[name] += number
        facts.num_actions += number
        if number and name in _OF_COMMITS:
            row = pc.index(each, True).as_py()
            yield subject.finding("checkpoint.action.of-commit", row=first + row, found=name)
        if number and name not in _OF_FILES:
            _take(name, batch.column(name).filter(each), facts)


def _incomplete(
    subject: LogObject, column: pa.StructArray, name: str, present: pa.BooleanArray, first: int
) -> Iterator[Finding]:
    for each in _required(name):
        lacking = pc.indices_nonzero(pc.and_(present, pc.struct_field(column, each).is_null()))
        if len(lacking):
            row, found = first + lacking[0].as_py(), f"null ({len(lacking):,} such rows)"
            yield subject.finding("checkpoint.field.missing", row=row, field=f"{name}.{each}", found=found)


def _present(column: pa.StructArray, name: str) -> pa.BooleanArray:
    return pc.and_(column.is_valid(), pc.struct_field(column, _IDENTITIES[name]).is_valid())


def _sum(columns: Sequence[pa.Array], length: int) -> pa.Array:
    total = pa.repeat(pa.scalar(0, pa.int8()), length)
    for each in columns:
        total = pc.add(total, each)
    return total


def _take(name: str, rows: pa.StructArray, facts: CheckpointCounts) -> None:
    bodies: list[dict[str, Any]] = rows.to_pylist()
    identities = [body[_IDENTITIES[name]] for body in bodies]
    match name:
        case "txn":
            facts.applications.update(identities)
        case "domainMetadata":
            facts.domains.update(identities)
        case "checkpointMetadata":
            facts.heads += identities
        case "sidecar":
            facts.sidecars += [(body["path"], body.get("sizeInBytes")) for body in bodies]
        case "protocol":
            facts.features = frozenset(bodies[-1].get("writerFeatures") or ())


def _sidecar_findings(store: Store, path: str, size: int | None, facts: CheckpointCounts) -> Iterator[Finding]:
    key = f"{names.SIDECARS}/{unquote(path.rpartition('/')[2])}"
    subject = LogObject(store.location, key)
    try:
        meta, instead = store.head(key), "nothing"
    except InvalidLocation as error:  # a link, which is not followed
        meta, instead = None, error.message
    if meta is None:
        facts.is_whole = False
        yield subject.finding("sidecar.missing", found=instead)
        return
    if size is not None and meta.size != size:
        yield subject.finding("sidecar.size", field="sizeInBytes", expected=size, found=meta.size)
    facts.num_bytes += meta.size
    own = CheckpointCounts()
    try:
        for each in _of_sidecar_rows(store, meta, subject, own):
            facts.is_whole &= each.rule not in _UNREADABLE
            yield each
    except (InvalidInput, CapacityExceeded) as error:
        facts.is_whole = False
        yield subject.finding("sidecar.parquet", found=error.message)
    facts.num_actions += own.num_actions
    facts.counts.update({name: own.counts[name] for name in _OF_FILES})


def _of_sidecar_rows(store: Store, meta: Meta, subject: LogObject, own: CheckpointCounts) -> Iterator[Finding]:
    yield from _of_columns(store, meta, subject, own)
    if wrong := [name for name, number in own.counts.items() if number and name not in _OF_FILES]:
        yield subject.finding("sidecar.actions", found=", ".join(wrong))


def _whole(subject: LogObject, files: CheckpointFiles, facts: CheckpointCounts) -> Iterator[Finding]:
    """What all files of a checkpoint come to."""
    if facts.is_whole:
        for name in ("protocol", "metaData"):
            if facts.counts[name] != 1:
                yield subject.finding(f"checkpoint.{name}.once", field=name, expected=1, found=facts.counts[name])
    yield from _repeated(subject, "checkpoint.txn.twice", "txn.appId", facts.applications)
    yield from _repeated(subject, "checkpoint.domain.twice", "domainMetadata.domain", facts.domains)
    if files.kind is not CheckpointKind.V2 and not facts.sidecars:
        return
    if facts.heads != [files.version] and facts.is_whole:
        field, found = "checkpointMetadata.version", ", ".join(map(str, facts.heads)) or "nothing"
        yield subject.finding("checkpoint.v2.head", field=field, expected=files.version, found=found)
    if "v2Checkpoint" not in facts.features and facts.is_whole:
        found = ", ".join(sorted(facts.features)) or "no features"
        yield subject.finding("checkpoint.v2.feature", field="protocol.writerFeatures", found=found)


def _repeated(subject: LogObject, rule: str, field: str, counts: Mapping[str, int]) -> Iterable[Finding]:
    return [subject.finding(rule, field=field, found=name) for name, number in counts.items() if number > 1]
