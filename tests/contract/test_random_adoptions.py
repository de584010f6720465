"""Random histories of ours and of somebody else, adopted: SQL has what every reader finds, and nothing is lost."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.errors import Conflict
from deltamirror.txnlog.content.superseded import superseded_of
from tests.support.imports.adoptions import (
    PLAIN,
    adopted,
    assert_same,
    delta_rs_appends,
    mirror,
    mirroring,
    their_commit,
)
from tests.support.lakes.lake import add, execute, paths
from tests.support.mirrors.local import committed_files, log_of, make_table, published_files
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.requirement("R39"), pytest.mark.default_on("sqlite")]


@pytest.fixture
def catalog(accepting: Catalog) -> Catalog:
    return accepting


@dataclass
class Lake:
    """One table, ours and somebody else's at once."""

    catalog: Catalog
    engine: MirrorEngine
    table: Table
    chance: random.Random
    files: int = 0
    sent: dict[str, list[str]] = field(default_factory=dict)
    """The files that transactions of ours added, by token."""

    def fresh(self, whose: str) -> str:
        self.files += 1
        return f"{whose}-{self.files}"

    def commit(self) -> None:
        """A commit of ours, of any kind."""
        token, paths_before = f"token-{self.files}-{self.table.info().head}", paths(self.table)
        added = [self.fresh("ours") for _ in range(self.chance.randint(1, 3))]
        kind = self.chance.choices(["append", "remove", "optimize", "alter", "txn"], [6, 2, 2, 1, 2])[0]
        with self.catalog.transaction(token=token) as tx:
            if kind == "alter":
                added = []
                tx.set_metadata("t", properties={self.fresh("property"): "x"})
                return
            tx.append("t", [add(path, data_change=kind != "optimize") for path in added])
            if kind in ("remove", "optimize") and paths_before:
                tx.remove("t", [self.chance.choice(paths_before)], data_change=kind == "remove")
            if kind == "txn":
                tx.set_transaction("t", self.chance.choice("ab"), self.files)
        self.sent[token] = added

    def write_as_others(self) -> None:
        """A commit of somebody else, on top of what the log holds."""
        version, live, metadata = self._log()
        kind = self.chance.choices(["delta-rs", "append", "remove", "alter", "txn"], [2, 3, 2, 1, 1])[0]
        if kind == "delta-rs":
            delta_rs_appends(self.table, self.chance.randint(0, 9))
            return
        added: list[dict[str, Any]] = [{"add": _file(self.fresh("theirs"))}]
        if kind == "remove" and live:
            gone = {"path": self.chance.choice(sorted(live)), "deletionTimestamp": 1, "dataChange": True}
            added.append({"remove": gone})
        if kind == "alter":
            metadata["configuration"][self.fresh("property")] = "x"
            added.append({"metaData": metadata})
        if kind == "txn":
            added.append({"txn": {"appId": self.chance.choice("ab"), "version": self.files}})
        blind = {"isBlindAppend": kind == "append"}
        their_commit(self.table, version + 1, *added, **blind, txnId=f"theirs-{self.files}")

    def _log(self) -> tuple[int, set[str], dict[str, Any]]:
        live, metadata, version = set[str](), dict[str, Any](), -1
        for name, data in published_files(self.table).items():
            version = int(name.partition(".")[0])
            for line in map(msgspec.json.decode, data.splitlines()):
                live |= {line["add"]["path"]} if "add" in line else set()
                live -= {line["remove"]["path"]} if "remove" in line else set()
                metadata = line.get("metaData", metadata)
        return version, live, metadata

    def adopt(self) -> None:
        """Adopt; what was foreseen is what comes of it."""
        before = {path: path.read_bytes() for path in log_of(self.table).glob("*.json")}
        foreseen = adopted(self.engine, dry_run=True)
        done = adopted(self.engine, drop_conflicting=True)
        assert (done.adopted, done.rebased, done.dropped) == (foreseen.adopted, foreseen.rebased, foreseen.dropped)
        assert {path: path.read_bytes() for path in log_of(self.table).glob("*.json")} == before
        for lost in done.dropped:
            assert lost.reason

    def check(self, reader: Reader) -> None:
        """SQL and log agree, and every commit of ours is in the history once, or was dropped with a reason."""
        assert published_files(self.table) == committed_files(self.table)
        assert_same(self.table, reader)
        assert self._log()[1] == set(paths(self.table))
        history = [entry.txn_id for entry in self.table.history()]
        assert len(set(history)) == len(history)
        known = {
            row.token: row for row in execute(self.catalog, "SELECT token, txn_id, versions FROM dl_commit_tokens")
        }
        with self.catalog.database.read() as connection:
            dropped = {each.txn_id for each in superseded_of(connection, 1) if each.new_version is None}
        for token, added in self.sent.items():
            if token not in known:
                assert dropped
                continue
            version = msgspec.json.decode(known[token].versions)["t"]
            assert known[token].txn_id not in dropped
            data = self.table.commit_file(version).decode()
            assert all(f'"{path}"' in data for path in added)


def _file(path: str) -> dict[str, Any]:
    return {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}


@pytest.mark.default_when(parameters=lambda those: those["lake_url"] == "sqlite" and those["seed"] < 2)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_was_written_sql_and_log_agree_after_it_is_adopted(
    catalog: Catalog, tmp_path: Path, seed: int, delta_rs: Reader
) -> None:
    chance = random.Random(seed)
    with mirroring(catalog) as engine:
        lake = Lake(catalog, engine, make_table(catalog, tmp_path, properties=PLAIN), chance)
        mirror(engine)
        for _ in range(4):
            for _ in range(chance.randint(0, 3)):
                lake.commit()
            if chance.random() < 0.5:
                mirror(engine)
            for _ in range(chance.randint(0, 4)):
                lake.commit()
            for _ in range(chance.randint(1, 3)):
                lake.write_as_others()
            if chance.random() < 0.5:
                engine.run(once=True)  # stops, where ours meet theirs
            for _ in range(chance.randint(0, 2)):
                lake.commit()
            lake.adopt()
            mirror(engine)
            lake.check(delta_rs)


def test_a_stale_reader_never_commits_over_an_adoption(catalog: Catalog, tmp_path: Path) -> None:
    with mirroring(catalog) as engine:
        lake = Lake(catalog, engine, make_table(catalog, tmp_path, properties=PLAIN), random.Random(1))
        lake.commit()
        mirror(engine)
        stale = catalog.transaction()
        stale.read("t")
        stale.append("t", [add("stale")])
        their_commit(lake.table, lake.table.info().head + 1, {"add": _file("theirs")})
        lake.adopt()
        with pytest.raises(Conflict):
            stale.commit()


def test_writers_that_go_on_while_logs_are_adopted_lose_nothing(
    catalog: Catalog, tmp_path: Path, delta_rs: Reader
) -> None:
    table = make_table(catalog, tmp_path, properties=PLAIN)
    done, stop = [set[str]() for _ in range(3)], threading.Event()

    def write(number: int) -> None:
        for count in range(100):
            path = f"ours-{number}-{count}"
            table.append([add(path)], token=path if count % 2 else None)
            done[number].add(path)
            if stop.wait(0.01):
                return

    with mirroring(catalog) as engine, ThreadPoolExecutor(3) as threads:
        mirror(engine)
        writers = [threads.submit(write, number) for number in range(3)]
        try:
            for count in range(4):
                version = max(int(name.partition(".")[0]) for name in published_files(table))
                their_commit(table, version + 1, {"add": _file(f"theirs-{count}")}, isBlindAppend=True)
                assert adopted(engine).adopted[0] == version + 1
                engine.mirror("t", table.info().head)
        finally:
            stop.set()
        for writer in writers:
            writer.result()
        mirror(engine)
    assert set(paths(table)) == set().union(*done, {f"theirs-{count}" for count in range(4)})
    assert published_files(table) == committed_files(table)
    assert_same(table, delta_rs)
