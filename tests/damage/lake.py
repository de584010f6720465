"""Small tables that all damage begins with, and a donor whose objects end up in their logs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltamirror import Catalog
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.wiring import open_importer
from tests.support.mirrors.local import append, local_settings, make_table, mirror_of

INTERVAL = 3
KINDS = ("classic", "v2", "behind", "imported")
"""Tables with checkpoints of either form; one with versions that are not published; one whose log has no beginning."""

_SAME = 3
_MORE = 3
_V2 = {"delta.checkpointPolicy": "v2"}


@dataclass(frozen=True, slots=True)
class Lake:
    """A table in a folder, with its database; what it was is kept beside it, and can be had again at any time."""

    folder: Path
    kind: str

    @property
    def table(self) -> Path:
        """The folder of the table."""
        return self.folder / "t"

    @property
    def log(self) -> Path:
        """The folder of its log."""
        return self.table / LOG_DIRECTORY

    @property
    def donor(self) -> Path:
        """The log of a longer history of the same table, of which the first versions are the same."""
        return self.folder / "donor"

    @property
    def kept_log(self) -> Path:
        """The folder of the log as it was kept."""
        return self.folder / "kept" / "t" / LOG_DIRECTORY

    @contextmanager
    def opened(self) -> Iterator[Catalog]:
        """The catalog, as a process that has not looked at anything."""
        with Catalog(f"sqlite:///{self.folder / 'lake.db'}", settings=local_settings()) as catalog:
            yield catalog

    def keep(self) -> None:
        """What it is at this moment is what it will be again."""
        shutil.rmtree(self.folder / "kept", ignore_errors=True)
        shutil.copytree(self.table, self.folder / "kept" / "t")
        shutil.copy(self.folder / "lake.db", self.folder / "kept")

    def restore(self) -> None:
        """As it was when it was kept."""
        for path in self.folder.glob("lake.db*"):
            path.unlink()
        shutil.copy(self.folder / "kept" / "lake.db", self.folder)
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self.folder / "kept" / "t", self.table)


def prepared(folder: Path, kind: str) -> Lake:
    """A lake of one kind, in an empty folder."""
    lake = Lake(folder, kind)
    with lake.opened() as catalog:
        catalog.init()
        properties = {"delta.checkpointInterval": str(INTERVAL), **(_V2 if kind == "v2" else {})}
        make_table(catalog, folder, properties=properties)
        _commit(catalog, _SAME, prefix="same")
        if kind == "imported":
            _import(catalog, lake)
    lake.keep()
    with lake.opened() as catalog:
        for _ in range(_MORE):
            _commit(catalog, INTERVAL, prefix="theirs")
    shutil.copytree(lake.log, lake.donor)
    lake.restore()
    with lake.opened() as catalog:
        _commit(catalog, INTERVAL, prefix="ours")
        catalog.table("t").remove([f"same-{1}-0.parquet"])
        _mirror(catalog)
        if kind == "behind":
            append(catalog.table("t"), 2, prefix="waiting")
    lake.keep()
    return lake


def _import(catalog: Catalog, lake: Lake) -> None:
    """Take the table in anew, from its checkpoint on: there is nothing before that."""
    catalog.drop_table("t")
    for path in lake.log.iterdir():
        if path.name < f"{INTERVAL:020}":
            path.unlink()
    with open_importer(catalog, local_settings(), runner="local") as importer:
        importer.run(ImportOrder(location=str(lake.table), name="t"))


def _commit(catalog: Catalog, count: int, *, prefix: str) -> None:
    append(catalog.table("t"), count, prefix=prefix)
    _mirror(catalog)


def _mirror(catalog: Catalog) -> None:
    with mirror_of(catalog) as engine:
        assert engine.run(once=True).failures == []
