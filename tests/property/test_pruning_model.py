"""Random lives of tables, pruned now and then: every version that is kept is what a model of plain Python has."""

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import StorageSettings
from deltamirror.errors import NotFound
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.backlog import count_files
from tests.support.lakes.aging import age, cleaning
from tests.support.lakes.lake import add, paths
from tests.support.readers.reader import Reader

_STEPS = 60


@dataclass(frozen=True)
class _State:
    """What a version is."""

    files: frozenset[str] = frozenset()
    app_version: int | None = None
    owner: str | None = None


@dataclass
class _Life:
    """A table, and what its versions have to be."""

    table: Table
    catalog: Catalog
    engine: MirrorEngine
    chance: random.Random
    model: dict[int, _State] = field(default_factory=lambda: {0: _State()})
    removed: set[str] = field(default_factory=set)

    @property
    def now(self) -> _State:
        return self.model[max(self.model)]

    def step(self) -> None:
        """One commit, drawn by chance, published."""
        acts = [self._append, self._append, self._remove, self._bring_back, self._progress, self._alter]
        after = self.chance.choice(acts)()
        if after is not None:
            self.model[max(self.model) + 1] = after
        if self.chance.random() < 0.7:
            self.engine.mirror("t")

    def prune(self) -> None:
        """Let some versions grow old, clean the log, and prune."""
        age(self.catalog, upto=self.chance.randrange(max(self.model) + 1), days=40)
        self.engine.mirror("t")
        self.engine.clean("t")
        start = self.engine.prune("t", keep=30 * 86_400.0).history_start
        assert start <= self.table.info().log_start
        for version in [each for each in self.model if each < start]:
            del self.model[version]

    def check(self) -> None:
        """Every version that is kept is what it was, and no other is there."""
        assert [entry.version for entry in self.table.history()] == sorted(self.model, reverse=True)
        with self.catalog.database.read() as connection:
            counted = {version: count_files(connection, 1, version) for version in self.model}
        for version, state in self.model.items():
            taken = self.table.snapshot(version=version)
            assert frozenset(paths(self.table, version=version)) == state.files, version
            assert counted[version] == taken.count_files() == len(state.files)
            found = taken.transactions().get("app")
            assert (None if found is None else found.version) == state.app_version
            assert taken.metadata.configuration.get("owner") == state.owner
        if first := min(self.model):
            with pytest.raises(NotFound, match=f"it has {first} to"):
                self.table.snapshot(version=first - 1)

    def _append(self) -> _State:
        path = f"{self.chance.randrange(10**9)}.parquet"
        self.table.append([add(path, stats='{"numRecords":1}')])
        return self._with(files=self.now.files | {path})

    def _remove(self) -> _State | None:
        if not self.now.files:
            return None
        some = self.chance.sample(sorted(self.now.files), self.chance.randint(1, min(3, len(self.now.files))))
        self.table.remove(some)
        self.removed |= set(some)
        return self._with(files=self.now.files - set(some))

    def _bring_back(self) -> _State | None:
        gone = sorted(self.removed - self.now.files)
        if not gone:
            return None
        path = self.chance.choice(gone)
        self.table.append([add(path, stats='{"numRecords":1}')])
        return self._with(files=self.now.files | {path})

    def _progress(self) -> _State:
        version = (self.now.app_version or 0) + 1
        with self.catalog.transaction() as tx:
            tx.set_transaction("t", "app", version)
        return self._with(app_version=version)

    def _alter(self) -> _State:
        owner = f"o{self.chance.randrange(10**6)}"
        self.table.alter(properties={"owner": owner})
        return self._with(owner=owner)

    def _with(self, **changed: Any) -> _State:
        return replace(self.now, **changed)


@pytest.mark.default_on("sqlite")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak)])
def test_pruned_tables_are_what_the_model_says(catalog: Catalog, tmp_path: Path, delta_rs: Reader, seed: int) -> None:
    chance = random.Random(seed)
    with cleaning(catalog) as engine:
        table = catalog.create_table("t", location=tmp_path / "t", schema="id long")
        life = _Life(table, catalog, engine, chance)
        for number in range(1, _STEPS + 1):
            life.step()
            if number % 15 == 0:
                life.prune()
                life.check()
        assert min(life.model) > 0
        engine.mirror("t")
        rebuild(catalog.database, "t", to=store_at(str(tmp_path / "again"), StorageSettings()))
        for place in ("t", "again"):
            assert delta_rs.snapshot(str(tmp_path / place)).paths == sorted(life.now.files)
