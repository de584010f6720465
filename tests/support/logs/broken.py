"""A small published log, and ways to break one rule of log files each."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror import Catalog
from deltamirror.delta.bounds import LONGEST_LINE
from deltamirror.delta.lastcheckpoint import content_checksum
from deltamirror.delta.names import LOG_DIRECTORY, checkpoint_name, checksum_name, commit_name
from tests.support.lakes.lake import add
from tests.support.mirrors.local import local_settings, mirror_of

KINDS = ("classic", "v2")
CHECKPOINT = 4
"""The version that has a checkpoint."""
NEWEST = 6


class Log:
    """The log of a table on disk, to be changed."""

    def __init__(self, table: Path) -> None:
        self.table = table
        self.folder = table / LOG_DIRECTORY

    def copied(self, folder: Path) -> "Log":
        """A copy that may be broken."""
        shutil.copytree(self.table, folder / self.table.name)
        return Log(folder / self.table.name)

    def commit(self, version: int) -> Path:
        """The file of a commit."""
        return self.folder / commit_name(version)

    def checksum(self, version: int) -> Path:
        """The file of a version checksum."""
        return self.folder / checksum_name(version)

    @property
    def pointer(self) -> Path:
        """The file that names the newest checkpoint."""
        return self.folder / "_last_checkpoint"

    @property
    def checkpoint(self) -> Path:
        """The file of the checkpoint that bears its version."""
        [found] = self.folder.glob(f"{CHECKPOINT:020}.checkpoint.*")
        return found

    @property
    def sidecar(self) -> Path:
        """The first sidecar."""
        return min((self.folder / "_sidecars").iterdir())

    def change_line(self, action: str, change: Callable[[dict[str, Any]], object], version: int = NEWEST) -> None:
        """Change the first action of this name in a commit; its checksum goes."""
        path, done = self.commit(version), False
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if action in line and not done:
                change(line[action])
                done = True
        assert done
        self.write_lines(path, lines)
        self.checksum(version).unlink(missing_ok=True)

    def write_lines(self, path: Path, lines: list[dict[str, Any]]) -> None:
        """Actions as a file of lines."""
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))

    def add_line(self, text: str, version: int = NEWEST) -> None:
        """One more line at the end of a commit; its checksum goes."""
        path = self.commit(version)
        path.write_text(path.read_text() + text + "\n")
        self.checksum(version).unlink(missing_ok=True)

    def drop_lines(self, action: str, version: int = NEWEST) -> None:
        """Drop the lines of an action from a commit; its checksum goes."""
        path = self.commit(version)
        lines = [line for line in path.read_text().splitlines() if not line.startswith(f'{{"{action}"')]
        path.write_text("".join(f"{line}\n" for line in lines))
        self.checksum(version).unlink(missing_ok=True)

    def keep_commits_alone(self) -> None:
        """Delete all that says the same in short."""
        for path in [self.checkpoint, self.pointer, *self.folder.glob("*.crc")]:
            path.unlink()

    def compact(self, first: int, last: int) -> Path:
        """A compaction of commits that none of them contradicts."""
        path = self.folder / f"{first:020}.{last:020}.compacted.json"
        lines = [line for each in range(first, last + 1) for line in self.commit(each).read_text().splitlines()]
        path.write_text("".join(f"{line}\n" for line in lines if not line.startswith('{"commitInfo"')))
        return path

    def change_rows(self, change: Callable[[list[dict[str, Any]]], object], path: Path | None = None) -> None:
        """Change the rows of a Parquet file in place; the pointer, which counts them, goes."""
        path = path or self.checkpoint
        table = pq.read_table(path)
        rows = table.to_pylist()
        change(rows)
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
        self.pointer.unlink(missing_ok=True)

    def change_top(self, change: Callable[[list[dict[str, Any]]], object]) -> None:
        """Change the lines of a V2 checkpoint; the pointer, which repeats them, goes."""
        lines = [json.loads(line) for line in self.checkpoint.read_text().splitlines()]
        change(lines)
        self.write_lines(self.checkpoint, lines)
        self.pointer.unlink(missing_ok=True)

    def change_pointer(self, **fields: object) -> None:
        """Change fields of the pointer, with the checksum that follows from them."""
        content = {**json.loads(self.pointer.read_text()), **fields}
        content["checksum"] = content_checksum(json.dumps(content))
        self.pointer.write_text(json.dumps(content))

    def change_checksum(self, version: int = NEWEST, **fields: object) -> None:
        """Change fields of a version checksum."""
        path = self.checksum(version)
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def made_log(folder: Path, kind: str) -> Log:
    """The log of a new table: seven versions, a checkpoint, a tombstone, a transaction, a domain, checksums."""
    properties = {"delta.checkpointInterval": str(CHECKPOINT), "delta.enableDeletionVectors": "true"}
    properties |= {"delta.checkpointPolicy": "v2"} if kind == "v2" else {}
    with Catalog(f"sqlite:///{folder / 'lake.db'}", settings=local_settings()) as catalog:
        catalog.init()
        table = catalog.create_table(
            "t", location=str(folder / "t"), schema="id long", properties=properties, features=["domainMetadata"]
        )
        table.append([_file("a")])
        with catalog.transaction() as tx:
            tx.append("t", [_file("b")])
            tx.set_transaction("t", "loader", 1)
            tx.set_domain("t", "mine", "{}")
        table.remove(["a.parquet"])
        for name in "cde":
            table.append([_file(name)])
            with mirror_of(catalog) as engine:
                assert engine.run(once=True).failures == []
    return Log(folder / "t")


def _file(name: str) -> Any:
    return add(f"{name}.parquet", stats='{"numRecords":1}')


@dataclass(frozen=True)
class Corruption:
    """A way to break a rule, in a log of one kind."""

    rule: str
    damage: Callable[[Log], object]
    kind: str = "classic"
    also: frozenset[str] = frozenset()
    """Rules that cannot but break with it."""


def _drop(action: str, name: str | None = None) -> Callable[[list[dict[str, Any]]], None]:
    """Drop the rows of an action, or the one of this path."""

    def change(rows: list[dict[str, Any]]) -> None:
        rows[:] = [row for row in rows if not row.get(action) or (name and row[action]["path"] != name)]

    return change


def _repeat(action: str) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: rows.append(next(row for row in rows if row.get(action)))


def _set(action: str, **values: object) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: next(row for row in rows if row.get(action))[action].update(values)


def _merge_rows(rows: list[dict[str, Any]]) -> None:
    """One row gets the action of another."""
    removed = next(row for row in rows if row.get("remove"))
    rows.remove(removed)
    next(row for row in rows if row.get("add"))["remove"] = removed["remove"]


def _live_tombstone(rows: list[dict[str, Any]]) -> None:
    removed = next(row for row in rows if row.get("remove"))
    live = next(row for row in rows if row.get("add"))
    rows.append({**removed, "remove": {**removed["remove"], "path": live["add"]["path"]}})


def _without_column(log: Log) -> None:
    """The files of the checkpoint have no path any more."""
    table = pq.read_table(log.checkpoint)
    adds = table.column("add").combine_chunks()
    fields = [field for field in adds.type if field.name != "path"]
    arrays = [adds.field(field.name) for field in fields]
    struct = pa.StructArray.from_arrays(arrays, fields=fields, mask=adds.is_null())
    pq.write_table(table.set_column(table.schema.get_field_index("add"), "add", struct), log.checkpoint)
    log.pointer.unlink()


def _with_column(name: str) -> Callable[[Log], None]:
    """A further action in a row of its own."""

    def damage(log: Log) -> None:
        table = pq.read_table(log.checkpoint)
        more = pa.table({name: pa.array([{"timestamp": 1}])})
        pq.write_table(pa.concat_tables([table, more], promote_options="default"), log.checkpoint)
        log.pointer.unlink()

    return damage


def _sidecar_with_protocol(log: Log) -> None:
    table = pq.read_table(log.sidecar)
    lines = [json.loads(line) for line in log.checkpoint.read_text().splitlines()]
    versions = pa.struct([pa.field(name, pa.int32()) for name in ("minReaderVersion", "minWriterVersion")])
    more = pa.table({"protocol": pa.array([line["protocol"] for line in lines if "protocol" in line], versions)})
    pq.write_table(pa.concat_tables([table, more], promote_options="default"), log.sidecar)
    size = log.sidecar.stat().st_size
    log.change_top(_set("sidecar", sizeInBytes=size))


def _set_within(action: str, field: str, **values: object) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: next(row for row in rows if row.get(action))[action][field].update(values)


def _with_typed_partition(log: Log) -> None:
    """A file of a table without partitions has a partition value all the same, in a typed column."""
    table = pq.read_table(log.checkpoint)
    rows = table.to_pylist()
    next(row for row in rows if row["add"])["add"]["partitionValues_parsed"] = {"day": 1}
    adds = pa.struct(
        [*table.schema.field("add").type, pa.field("partitionValues_parsed", pa.struct({"day": pa.int64()}))]
    )
    fields = [each.with_type(adds) if each.name == "add" else each for each in table.schema]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), log.checkpoint)
    log.pointer.unlink()


def _forgetful_compaction(log: Log) -> None:
    """It has nothing of a file that its commits add and remove."""
    path = log.compact(1, 3)
    lines = [line for line in path.read_text().splitlines() if '"a.parquet"' not in line]
    path.write_text("".join(f"{line}\n" for line in lines))


def _changed_bins(field: str, name: str) -> Callable[[Log], None]:
    """The first bin of a histogram counts one file more."""

    def damage(log: Log) -> None:
        histogram = json.loads(log.checksum(NEWEST).read_text())[field]
        first, *others = histogram[name]
        changed: dict[str, Any] = {field: {**histogram, name: [first + 1, *others]}}
        log.change_checksum(NEWEST, **changed)

    return damage


def _swapped_times(log: Log) -> None:
    times = [_time_of(log, version) for version in (NEWEST - 1, NEWEST)]
    log.change_line("commitInfo", lambda body: body.update(inCommitTimestamp=times[0] - 1))


def _time_of(log: Log, version: int) -> int:
    return int(json.loads(log.commit(version).read_text().splitlines()[0])["commitInfo"]["inCommitTimestamp"])


def _enabled_without_properties(log: Log) -> None:
    log.keep_commits_alone()
    name = "delta.enableInCommitTimestamps"
    log.change_line("metaData", lambda body: body["configuration"].update({name: "false"}), version=0)
    first = next(line for line in log.commit(0).read_text().splitlines() if line.startswith('{"metaData"'))
    log.add_line(first.replace(f'"{name}":"false"', f'"{name}":"true"'))


def _live_twice(log: Log) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 34}
    again = {"path": "b.parquet", "partitionValues": {}, "size": 100, "modificationTime": 1_700_000_000_000}
    more = {"dataChange": True, "stats": '{"numRecords":1}', "deletionVector": {**vector, "cardinality": 1}}
    log.add_line(json.dumps({"add": {**again, **more}}))


def _changed_compaction(log: Log) -> None:
    path = log.compact(1, 3)
    path.write_text(path.read_text().replace('"b.parquet"', '"z.parquet"'))


def _compaction_with(text: str) -> Callable[[Log], None]:
    def damage(log: Log) -> None:
        path = log.compact(1, 3)
        path.write_text(path.read_text() + text + "\n")

    return damage


def _part(log: Log) -> None:
    shutil.copy(log.checkpoint, log.folder / f"{5:020}.checkpoint.{1:010}.{2:010}.parquet")


def _without_versions(*versions: int) -> Callable[[Log], None]:
    def damage(log: Log) -> None:
        for version in versions:
            log.commit(version).unlink()
            log.checksum(version).unlink()

    return damage


def _hole(log: Log) -> None:
    _without_versions(2)(log)
    for version in range(3, CHECKPOINT):
        log.checksum(version).unlink()


def _no_log(log: Log) -> None:
    for path in log.folder.glob("*"):
        path.unlink()
    (log.folder / "hello.txt").write_text("nothing")


def _ahead(log: Log) -> None:
    log.checkpoint.rename(log.folder / checkpoint_name(NEWEST + 1))
    log.pointer.unlink()


def _with_line(line: str) -> Callable[[Log], None]:
    return lambda log: log.add_line(line)


def _change(action: str, **values: object) -> Callable[[Log], None]:
    return lambda log: log.change_line(action, lambda body: body.update(values))


def _rows(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Log], None]:
    return lambda log: log.change_rows(change)


def _top(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Log], None]:
    return lambda log: log.change_top(change)


def _link(log: Log) -> None:
    log.checksum(NEWEST).rename(log.table / "elsewhere")
    log.checksum(NEWEST).symlink_to(log.table / "elsewhere")


_FILE = {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1_700_000_000_000}
_ADD = {**_FILE, "dataChange": True}


def _add(**values: object) -> str:
    return json.dumps({"add": {**_ADD, **values}})


def _without(body: Mapping[str, object], name: str) -> str:
    return json.dumps({"add": {field: value for field, value in body.items() if field != name}})


def _without_action(action: str) -> Callable[[Log], None]:
    """The log never states an action."""

    def damage(log: Log) -> None:
        log.keep_commits_alone()
        log.drop_lines(action, version=0)

    return damage


def _emptied(log: Log) -> None:
    log.checksum(NEWEST).unlink()
    log.commit(NEWEST).write_text("\n")


def _without_sidecar(log: Log) -> None:
    log.sidecar.unlink()
    log.pointer.unlink()


def _with_path(rows: list[dict[str, Any]], path: str) -> dict[str, Any]:
    found = next(row for row in rows if row.get("add"))
    return {**found, "add": {**found["add"], "path": path}}


def _without_feature(lines: list[dict[str, Any]]) -> None:
    protocol = next(line for line in lines if "protocol" in line)["protocol"]
    for name in ("readerFeatures", "writerFeatures"):
        protocol[name].remove("v2Checkpoint")


def _damaged_sidecar(log: Log) -> None:
    log.sidecar.write_bytes(b"x" * log.sidecar.stat().st_size)
    log.pointer.unlink()


def _other_metadata(log: Log) -> None:
    metadata = json.loads(log.checksum(NEWEST).read_text())["metadata"]
    log.change_checksum(metadata={**metadata, "id": "other"})


def _unreadable_property(log: Log) -> None:
    first = next(line for line in log.commit(0).read_text().splitlines() if line.startswith('{"metaData"'))
    metadata = json.loads(first)["metaData"]
    properties = {**metadata["configuration"], "delta.appendOnly": "yes"}
    log.add_line(json.dumps({"metaData": {**metadata, "configuration": properties}}))


CORRUPTIONS = (
    Corruption("line.json", _with_line('{"add":')),
    Corruption("line.long", lambda log: log.add_line("x" * (LONGEST_LINE + 1))),
    Corruption("line.action.unknown", _with_line('{"future":{}}')),
    Corruption("shape.body", _with_line('{"add":[]}')),
    Corruption("shape.json-text", _with_line(_add(stats={"numRecords": 1}))),
    Corruption("shape.missing-field", _with_line(_without(_ADD, "size"))),
    Corruption("shape.negative-time", _with_line(_add(modificationTime=-1))),
    Corruption("shape.repeated-key", _with_line(_add().replace('"size": 1', '"size": 1, "size": 2'))),
    Corruption("shape.snake-case", _with_line(_add().replace("dataChange", "data_change"))),
    Corruption("shape.wrong-type", _with_line(_add(size="1"))),
    Corruption("add.path.empty", _change("add", path="")),
    Corruption("add.size.negative", _change("add", size=-1)),
    Corruption("add.stats.json", _change("add", stats="none")),
    Corruption("add.partition.unknown", _change("add", partitionValues={"p": "1"})),
    Corruption("metaData.configuration.value", _unreadable_property),
    Corruption("commit.add-twice", lambda log: log.add_line(_add(path="e.parquet"))),
    Corruption(
        "commitInfo.in-commit-timestamp",
        lambda log: log.change_line("commitInfo", lambda b: b.pop("inCommitTimestamp")),
    ),
    Corruption("log.name.misspelt", lambda log: shutil.copy(log.commit(NEWEST), log.folder / "7.json")),
    Corruption("log.obstacle", _link),
    Corruption("log.empty", _no_log),
    Corruption("log.versions.gap", _without_versions(5)),
    Corruption("log.versions.hole", _hole),
    Corruption("log.commit.empty", _emptied),
    Corruption("log.protocol.missing", _without_action("protocol")),
    Corruption("log.metaData.missing", _without_action("metaData")),
    Corruption("log.path.live-twice", _live_twice),
    Corruption("log.path.spelled-twice", _with_line(_add(path="%62.parquet"))),
    Corruption("log.in-commit-timestamp.missing", lambda log: log.drop_lines("commitInfo")),
    Corruption("log.in-commit-timestamp.order", _swapped_times),
    Corruption("log.in-commit-timestamp.enablement", _enabled_without_properties),
    Corruption("checkpoint.empty", lambda log: (log.folder / checkpoint_name(5)).write_bytes(b"")),
    Corruption("checkpoint.parts.missing", _part),
    Corruption("checkpoint.version.ahead", _ahead),
    Corruption("checkpoint.parquet", lambda log: log.checkpoint.write_bytes(b"PAR1 nothing")),
    Corruption("checkpoint.schema", _without_column),
    Corruption("checkpoint.field.missing", _rows(_set("add", dataChange=None))),
    Corruption("checkpoint.action.unknown", _with_column("future")),
    Corruption("checkpoint.action.of-commit", _with_column("commitInfo")),
    Corruption("checkpoint.row.empty", _rows(lambda rows: rows.append(dict.fromkeys(rows[0])))),
    Corruption("checkpoint.row.several", _rows(_merge_rows)),
    Corruption("checkpoint.protocol.once", _rows(_drop("protocol"))),
    Corruption("checkpoint.metaData.once", _rows(_repeat("metaData"))),
    Corruption("checkpoint.txn.twice", _rows(_repeat("txn"))),
    Corruption("checkpoint.domain.twice", _rows(_repeat("domainMetadata"))),
    Corruption("checkpoint.path.twice", _rows(_repeat("add"))),
    Corruption("checkpoint.path.removed", _rows(_live_tombstone)),
    Corruption("checkpoint.files.missing", _rows(_drop("add", "b.parquet"))),
    Corruption("checkpoint.files.extra", _rows(lambda rows: rows.append(_with_path(rows, "z.parquet")))),
    Corruption("checkpoint.files.differing", _rows(_set("add", size=101))),
    Corruption("checkpoint.stats-parsed.differing", _rows(_set_within("add", "stats_parsed", numRecords=2))),
    Corruption("checkpoint.stats-parsed.missing", _rows(_set("add", stats_parsed=None))),
    Corruption("checkpoint.partition-values-parsed.differing", _with_typed_partition),
    Corruption("checkpoint.tombstones.differing", _rows(_set("remove", deletionTimestamp=1))),
    Corruption("checkpoint.tombstones.lost", _rows(_drop("remove"))),
    Corruption("checkpoint.protocol.differing", _rows(_set("protocol", minWriterVersion=5))),
    Corruption("checkpoint.metaData.differing", _rows(_set("metaData", description="other"))),
    Corruption("checkpoint.txn.differing", _rows(_set("txn", version=2))),
    Corruption("checkpoint.domain.differing", _rows(_set("domainMetadata", configuration="[]"))),
    Corruption(
        "checkpoint.v2.feature", _top(_without_feature), kind="v2", also=frozenset({"checkpoint.protocol.differing"})
    ),
    Corruption("checkpoint.v2.head", _top(_set("checkpointMetadata", version=3)), kind="v2"),
    Corruption("sidecar.missing", _without_sidecar, kind="v2"),
    Corruption("sidecar.size", _top(_set("sidecar", sizeInBytes=1)), kind="v2"),
    Corruption("sidecar.parquet", _damaged_sidecar, kind="v2"),
    Corruption("sidecar.actions", _sidecar_with_protocol, kind="v2", also=frozenset({"checkpoint.protocol.differing"})),
    Corruption("pointer.json", lambda log: log.pointer.write_text("{")),
    Corruption(
        "pointer.checksum", lambda log: log.pointer.write_text(log.pointer.read_text().replace('"size":', '"size":1'))
    ),
    Corruption("pointer.target", lambda log: log.change_pointer(version=5)),
    Corruption("pointer.size", lambda log: log.change_pointer(size=1)),
    Corruption("pointer.size-in-bytes", lambda log: log.change_pointer(sizeInBytes=1)),
    Corruption("pointer.num-of-add-files", lambda log: log.change_pointer(numOfAddFiles=1)),
    Corruption("pointer.content", lambda log: log.change_pointer(checkpointSchema={"type": "struct", "fields": []})),
    Corruption("checksum.json", lambda log: log.checksum(NEWEST).write_text("{}")),
    Corruption("checksum.counts", lambda log: log.change_checksum(numMetadata=2)),
    Corruption("checksum.version.ahead", lambda log: shutil.copy(log.checksum(NEWEST), log.checksum(NEWEST + 1))),
    Corruption("checksum.size", lambda log: log.change_checksum(tableSizeBytes=1)),
    Corruption("checksum.files", lambda log: log.change_checksum(numFiles=1)),
    Corruption("checksum.deleted", lambda log: log.change_checksum(numDeletedRecordsOpt=1)),
    Corruption("checksum.vectors", lambda log: log.change_checksum(numDeletionVectorsOpt=1)),
    Corruption("checksum.transactions", lambda log: log.change_checksum(setTransactions=[])),
    Corruption("checksum.domains", lambda log: log.change_checksum(domainMetadata=[])),
    Corruption("checksum.listed", lambda log: log.change_checksum(allFiles=[])),
    Corruption("checksum.sizes", _changed_bins("fileSizeHistogram", "fileCounts")),
    Corruption("checksum.deletions", _changed_bins("deletedRecordCountsHistogramOpt", "deletedRecordCounts")),
    Corruption("checksum.txn-id", lambda log: log.change_checksum(txnId="another")),
    Corruption("checksum.timestamp", lambda log: log.change_checksum(inCommitTimestampOpt=1)),
    Corruption(
        "checksum.protocol", lambda log: log.change_checksum(protocol={"minReaderVersion": 1, "minWriterVersion": 2})
    ),
    Corruption("checksum.metadata", _other_metadata),
    Corruption(
        "compaction.version.ahead", lambda log: log.compact(1, 3).rename(log.folder / f"{5:020}.{7:020}.compacted.json")
    ),
    Corruption("compaction.action.of-commit", _compaction_with('{"commitInfo":{}}')),
    Corruption("compaction.state", _changed_compaction),
    Corruption("compaction.tombstones.lost", _forgetful_compaction),
)
"""A way to break each rule of log files, and some of those of actions."""
