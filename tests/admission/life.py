"""A table that is tried: each step is admitted, and then the model has it, too, or it is refused."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror import Add, Catalog
from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.errors import DeltaMirrorError
from tests.admission.kinds import Column, Uids, arrow_field, draw_value, is_known, schema_json, stored, walked
from tests.admission.model import File, Model
from tests.admission.spelling import spelled


@dataclass(frozen=True, slots=True)
class Definition:
    """A table that is asked for."""

    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    folder: str = "table"
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A step, and what became of it: ``refusal`` is empty if it was admitted."""

    kind: str
    what: str
    refusal: str = ""
    is_finding: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}: {self.refusal or 'admitted'}"


@dataclass(frozen=True, slots=True)
class Written:
    """A data file that exists: its add, the path that a reader opens, and what it holds."""

    add: Add
    path: str
    file: File


@dataclass
class Life:
    """One table of a catalog from its creation on."""

    catalog: Catalog
    name: str
    root: Path
    definition: Definition
    model: Model
    uids: Uids
    events: list[Event] = field(default_factory=list)
    metadata: dict[int, dict[str, Any]] = field(default_factory=dict)
    written: list[Written] = field(default_factory=list)
    created: bool = False
    expects_rows: bool = True

    @classmethod
    def begin(cls, catalog: Catalog, name: str, root: Path, definition: Definition, uids: Uids) -> "Life":
        """Ask for the table."""
        by_name = {column.name: column.uid for column in definition.columns}
        partitioning = tuple(by_name[each] for each in definition.partition_by if each in by_name)
        life = cls(catalog, name, root, definition, Model(definition.columns, partitioning), uids)
        life.attempt("create", repr(definition.properties), life._create)
        return life

    @property
    def folder(self) -> Path:
        """Where the table lies."""
        return self.root / self.definition.folder

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties of the table."""
        return self.catalog.table(self.name).snapshot().metadata.configuration

    @property
    def foundation(self) -> tuple[Metadata, Protocol]:
        """Metadata and protocol."""
        snapshot = self.catalog.table(self.name).snapshot()
        return snapshot.metadata, snapshot.protocol

    def _create(self) -> None:
        definition = self.definition
        self.catalog.create_table(
            self.name,
            location=str(self.folder),
            schema=schema_json(definition.columns, {}),
            partition_by=definition.partition_by,
            properties=definition.properties,
            features=definition.features,
        )
        self.created = True

    def attempt(
        self,
        kind: str,
        what: str,
        act: Callable[[], object],
        effect: Callable[[], object] | None = None,
        *,
        wrong: bool = False,
    ) -> bool:
        """Try a step; whether it was admitted. ``wrong``: it has to be refused, whatever readers say."""
        try:
            act()
        except DeltaMirrorError as error:
            rule = getattr(error, "rule", "")
            self.events.append(
                Event(kind, what, f"{type(error).__name__} {rule} {error}"[:300], error.code == "internal")
            )
            return False
        except Exception as error:  # noqa: BLE001  anything but an error of the product's own is a finding
            self.events.append(Event(kind, what, f"raised {type(error).__name__}: {error}"[:300], is_finding=True))
            return False
        if effect is not None:
            effect()
        self.events.append(Event(kind, what, is_finding=wrong))
        self.look()
        return True

    def look(self) -> None:
        """Learn physical names and ids."""
        fields = json.loads(str(self.catalog.table(self.name).snapshot().metadata.schema_string))["fields"]
        self.metadata = walked(self.model.columns, fields)

    def commit(self, actions: Sequence[Any], *, read: bool = False) -> None:
        """Stage actions, on what is there."""
        with self.catalog.transaction(rows_checked=True) as tx:
            head = self.catalog.table(self.name).info().head
            tx.stage(self.name, actions, read_version=head if read else None)

    def append(self, adds: Sequence[Any]) -> None:
        """Add files, by the road of engines that vouch for rows."""
        with self.catalog.transaction(rows_checked=True) as tx:
            tx.append(self.name, adds)

    def write(
        self,
        random: Random,
        *,
        rows: int | None = None,
        spelling: str | None = None,
        path: str | None = None,
        texts: Mapping[int, tuple[str | None, Any]] | None = None,
        **fields: Any,
    ) -> Written:
        """Write a data file, and describe it. ``spelling`` is the path in the log, ``path`` the one to be opened.

        ``texts``: for partition columns, the text in the log and the value that it stands for.
        """
        path = path or f"part-{len(self.written):05d}-{random.getrandbits(32):08x}.parquet"
        partition = self._partition(random, texts or {})
        file = self._file(random, random.randint(0, 3) if rows is None else rows, partition)
        table = self._stored(file)
        target = Path(path) if path.startswith("/") else self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target)
        values = {self._physical(uid): text for uid, (text, _) in partition.items()}
        described: dict[str, Any] = {
            "path": quote(path) if spelling is None else spelling,
            "partition_values": values,
            "size": target.stat().st_size,
            "modification_time": time.time_ns() // 1_000_000,
            "data_change": True,
            "stats": json.dumps(self.stats(file), ensure_ascii=False),
        }
        written = Written(Add(**{**described, **fields}), path, file)
        self.written.append(written)
        return written

    def _partition(
        self, random: Random, texts: Mapping[int, tuple[str | None, Any]]
    ) -> dict[int, tuple[str | None, Any]]:
        found = {}
        for uid in self.model.partitioning:
            column = self.column(uid)
            if column is None:
                continue
            value = draw_value(random, column.kind, nullable=column.nullable)
            value = None if value == b"\xff\x00\x01" or value in ("", b"") else value
            if value is None and not column.nullable:
                value = draw_value(random, "integer", nullable=False) if column.kind == "integer" else None
            found[uid] = texts.get(uid, (spelled(value), value))
        return found

    def column(self, uid: int) -> Column | None:
        """The column as it is by now, if it is there."""
        return next((column for column in self.model.columns if column.uid == uid), None)

    def _file(self, random: Random, rows: int, partition: Mapping[int, tuple[str | None, Any]]) -> File:
        known = tuple(column for column in self.model.columns if is_known(column.kind))
        columns = [column for column in known if column.uid not in partition]
        drawn = [
            {column.uid: draw_value(random, column.kind, nullable=column.nullable) for column in columns}
            for _ in range(rows)
        ]
        values = {uid: value for uid, (_, value) in partition.items()}
        return File(known, tuple(drawn), values)

    def _stored(self, file: File) -> pa.Table:
        columns = [column for column in file.columns if column.uid not in file.partition]
        fields = [arrow_field(column, self.metadata) for column in columns]
        arrays = [
            pa.array([stored(column.kind, row[column.uid], self.metadata) for row in file.rows], each.type)
            for column, each in zip(columns, fields, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def stats(self, file: File) -> dict[str, Any]:
        """True statistics: the number of rows; bounds of integers; numbers of nulls of top columns that are plain."""
        found: dict[str, Any] = {"numRecords": len(file.rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
        for column in file.columns:
            if column.uid in file.partition or column.kind not in ("long", "integer", "short", "byte"):
                continue
            values = [row[column.uid] for row in file.rows if row[column.uid] is not None]
            name = self._physical(column.uid)
            found["nullCount"][name] = len(file.rows) - len(values)
            if values:
                found["minValues"][name], found["maxValues"][name] = min(values), max(values)
        return found

    def _physical(self, uid: int) -> str:
        known = self.metadata.get(uid, {}).get("delta.columnMapping.physicalName")
        column = self.column(uid)
        return known or (column.name if column else "?")

    def live(self, written: Written) -> None:
        """The model has the file."""
        self.model.files[written.path] = written.file

    def deleted(self, written: Written, positions: frozenset[int]) -> None:
        """The model has the file without some of its rows."""
        self.model.files[written.path] = replace(written.file, deleted=positions)

    def gone(self, path: str) -> None:
        """The model does not have the file."""
        self.model.files.pop(path, None)
