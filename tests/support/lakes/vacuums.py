"""Random histories of a table on disk, years shorter than they look, and a model of what a vacuum of it deletes."""

import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from msgspec.structs import replace

from deltamirror import Add, Catalog, DeletionVector, MirrorEngine, Remove, Table
from deltamirror.catalog.rows import removed_file
from deltamirror.deltalog.retention import DAY
from tests.admission.vectors import written_vector
from tests.support.lakes.lake import execute

_VALUES = ("a", "b c/d%", "ünï:#", "x'y", None)
_DAYS = 21


@dataclass
class History:
    """A table whose versions and files get older days; ``published`` is the version up to which its log goes."""

    catalog: Catalog
    engine: MirrorEngine
    folder: Path
    chance: random.Random
    days: dict[int, int] = field(default_factory=dict)
    """How many days ago each version was committed."""
    file_days: dict[str, int] = field(default_factory=dict)
    """How many days ago each file in the table's folder was written, by its key."""
    vectors: dict[str, str] = field(default_factory=dict)
    """The files of deletion vectors, by what the log names them."""
    protected: set[str] = field(default_factory=set)
    """Files that no vacuum may touch, by their keys."""
    day: int = _DAYS
    published: int = -1
    _count: int = 0

    @property
    def table(self) -> Table:
        return self.catalog.table("t")

    def live(self, steps: int) -> None:
        """Some steps, each on a day of its own or on that of the one before; then all gets as old as it is."""
        self.catalog.create_table(
            "t",
            location=self.folder / "t",
            schema="id long, _p string",
            partition_by=["_p"],
            properties={"delta.enableDeletionVectors": True},
        )
        self.days[0] = self.day
        publication = self.chance.randrange(steps)
        kinds = [
            self._append,
            self._append,
            self._overwrite,
            self._delete_rows,
            self._respell,
            self._leave,
            self._clone,
        ]
        for step in range(steps):
            self.day = max(0, self.day - self.chance.choice((0, 1, 2, 4)))
            self.chance.choice(kinds)()
            self._note()
            if step == publication:
                self.engine.mirror("t")
                self.published = self.table.info().head
        self._place_links()
        backdate(self.catalog, self.days)
        for key, days in self.file_days.items():
            _touch(self.folder / "t" / key, days)

    def retained(self, days: int) -> list[int]:
        """The versions that were current that many days ago, or later, or are not replaced by a published one."""
        head = max(self.days)
        return [v for v in self.days if v == head or v >= self.published or self.days[v + 1] <= days]

    def expected(self, days: int) -> set[str]:
        """What a vacuum deletes that retains that many days."""
        named = {key for version in self.retained(days) for key in self._keys(version)}
        old = {key for key, age in self.file_days.items() if age > days}
        return {key for key in old - named - self.protected if (self.folder / "t" / key).exists()}

    def _keys(self, version: int) -> set[str]:
        root, found = f"{(self.folder / 't').as_uri()}/", set()
        for add in self.table.snapshot(version).adds():
            found.add(unquote(add.path.removeprefix(root)))
            if add.deletion_vector is not None:
                found.add(self.vectors[add.deletion_vector.path_or_inline_dv])
        return found

    def _note(self) -> None:
        for version in range(max(self.days) + 1, self.table.info().head + 1):
            self.days[version] = self.day
        for key in contents(self.folder / "t"):
            self.file_days.setdefault(key, self.day)

    def _append(self) -> None:
        self.table.append(self._rows())

    def _overwrite(self) -> None:
        value = self.chance.choice(_VALUES)
        replaced = self.chance.choice([None, {"_p": value}])
        self.table.overwrite(self._rows(value), replace_where=replaced)

    def _rows(self, value: object = ...) -> pa.Table:
        self._count += 1
        ids = range(10 * self._count, 10 * self._count + 5)
        values = [self.chance.choice(_VALUES) if value is ... else value for _ in ids]
        return pa.table({"id": pa.array(ids, pa.int64()), "_p": pa.array(values, pa.string())})

    def _delete_rows(self) -> None:
        """Give a file a deletion vector, or another one."""
        plain = [each for each in self.table.snapshot().adds() if not each.path.startswith("file:")]
        if not plain:
            return
        self._count += 1
        old, prefix = self.chance.choice(plain), self.chance.choice(("", "Zy"))
        new, gone = first_row_deleted(old, self.folder / "t", seed=self._count, prefix=prefix)
        assert new.deletion_vector is not None
        name = next(key for key in contents(self.folder / "t") if key not in self.file_days)
        self.vectors[new.deletion_vector.path_or_inline_dv] = name
        with self.catalog.transaction() as tx:
            tx.stage("t", [new, gone])

    def _respell(self) -> None:
        """Another writer names a file by its whole path, as a clone does: the file is the same one."""
        plain = [each for each in self.table.snapshot().adds() if not each.path.startswith("file:")]
        if plain:
            old = self.chance.choice(plain)
            path = f"{(self.folder / 't').as_uri()}/{old.path}"
            if old.deletion_vector is None:
                self._as_another_writer([{"remove": {"path": old.path, "dataChange": False}}, _line(old, path)])

    def _clone(self) -> None:
        """Another writer adds a file that lies outside of the table."""
        self._count += 1
        outside = self.folder / "outside" / f"{self._count}.parquet"
        if (found := next(iter(self.table.snapshot().adds()), None)) is None or found.path.startswith("file:"):
            return
        outside.parent.mkdir(exist_ok=True)
        outside.write_bytes((self.folder / "t" / unquote(found.path)).read_bytes())
        _touch(outside, 2 * _DAYS)
        self._as_another_writer([_line(replace(found, deletion_vector=None), outside.as_uri())])

    def _as_another_writer(self, lines: list[dict[str, object]]) -> None:
        info = self.table.info()
        time = info.head_timestamp + 1
        first = {"commitInfo": {"inCommitTimestamp": time, "timestamp": time, "operation": "CLONE", "txnId": str(time)}}
        with self.catalog.transaction() as tx:
            tx.stage_lines("t", [json.dumps(each) for each in (first, *lines)], at_version=info.head + 1)

    def _leave(self) -> None:
        """Files that no commit names: of a failed task, of change data, hidden ones, and another table's."""
        self._count += 1
        name = f"{self._count}.parquet"
        left = self.chance.choice(("", "_p=a/", "deep/er/", "_change_data/", "_p=odd %41/"))
        hidden = self.chance.choice(("_spark_metadata/", ".", "_p=a/_", "other/_delta_log/", "deep/.x/", "other/"))
        for folder in (left, hidden):
            path = self.folder / "t" / f"{folder}{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"left")
        self.protected.add(f"{hidden}{name}")
        if hidden == "other/":
            log = self.folder / "t" / "other" / "_delta_log" / "00000000000000000000.json"
            log.parent.mkdir(exist_ok=True)
            log.write_bytes(b"{}")
            self.protected.add("other/_delta_log/00000000000000000000.json")

    def _place_links(self) -> None:
        """Links to files outside, which are no files of the table."""
        target = self.folder / "linked"
        target.mkdir()
        (target / "kept.parquet").write_bytes(b"kept")
        _touch(target / "kept.parquet", 2 * _DAYS)
        (self.folder / "t" / "link").symlink_to(target)
        (self.folder / "t" / "link.parquet").symlink_to(target / "kept.parquet")


def first_row_deleted(file: Add, folder: Path, *, seed: int, prefix: str = "") -> tuple[Add, Remove]:
    """The actions that give a file a deletion vector, which is written to a file of its own."""
    vector = DeletionVector(**written_vector(folder, [0], seed=seed, prefix=prefix))
    return replace(file, deletion_vector=vector, data_change=True), removed_file(file, data_change=True)


def backdate(catalog: Catalog, days: dict[int, int], *, table_id: int = 1) -> None:
    """Let versions of a table have been committed so many days ago, and what they removed have gone then."""
    of_version = "SELECT commit_id FROM dl_table_versions WHERE table_id = :table_id AND version = :version"
    own = f"WHERE table_id = :table_id AND commit_id = ({of_version})"
    for version, ago in days.items():
        back = {"back": ago * DAY, "version": version, "table_id": table_id}
        execute(catalog, f"UPDATE dl_removes SET deletion_timestamp = deletion_timestamp - :back {own}", **back)
        execute(catalog, f"UPDATE dl_table_versions SET committed_at = committed_at - :back {own}", **back)


def contents(folder: Path) -> set[str]:
    """The keys of all files below a folder, links and the log left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {key for path in found if not (key := path.relative_to(folder).as_posix()).startswith("_delta_log/")}


def _line(add: Add, path: str) -> dict[str, object]:
    values = {"partitionValues": add.partition_values, "size": add.size, "modificationTime": add.modification_time}
    return {"add": {"path": path, **values, "dataChange": False, "stats": add.stats}}


def _touch(path: Path, days: int) -> None:
    found = path.stat().st_mtime - days * DAY / 1_000
    os.utime(path, (found, found))
