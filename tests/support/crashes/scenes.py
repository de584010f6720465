"""What processes of the crash matrix are at when they are struck: a state of a lake, an act, and the act again."""

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from msgspec import json
from msgspec.structs import replace
from sqlalchemy import update

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import AlertRule, AlertSettings, Settings, StorageSettings
from deltamirror.ops.adopt.adoption import adopt
from deltamirror.ops.alerts.background import evaluate_now
from deltamirror.ops.alerts.delivery import Dispatcher
from deltamirror.ops.alerts.rules import channels_in_force
from deltamirror.ops.reconcile.reconciling import Reconciler, Strategy
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.txnlog.commit import committing as commit_module
from deltamirror.txnlog.database.schema import deliveries, heads, versions
from tests.support.lakes.lake import add, remove_of

_LATER: Final = 4_102_444_800_000
"""The time of the heads: the next commit is a millisecond later, whatever the clock says."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A copy of a lake in this process."""

    catalog: Catalog
    settings: Settings

    @property
    def storage(self) -> StorageSettings:
        """How to reach its stores."""
        return self.settings.storage

    def store(self, table: str = "t") -> Store:
        """The store of a table."""
        return store_at(self.catalog.table(table).location, self.storage)


@dataclass(frozen=True, slots=True)
class Scene:
    """Where it begins, what is done, and what is done by whoever comes after."""

    part: str
    act: Callable[[Lake], object]
    prepare: Callable[[Lake], object] = lambda _: None
    again: Callable[[Lake], object] | None = None
    """None: the same act."""
    databases: tuple[str, ...] = ("sqlite", "duckdb", "postgresql")
    sound: bool = True
    """Whether the log is as it should be when the act begins."""

    def restart(self, lake: Lake) -> None:
        """What a process does that comes after one that died."""
        (self.again or self.act)(lake)


@contextmanager
def engine_of(lake: Lake) -> Any:
    """An engine on the lake's own database."""
    with MirrorEngine(settings=lake.settings, database=lake.catalog.database) as engine:
        yield engine


def keep_ids() -> None:
    """Let every transaction of this process have the same id, so that the bytes of its commit are always the same."""
    patched: Any = commit_module
    patched.uuid = SimpleNamespace(uuid4=lambda: UUID(int=7), UUID=UUID)


def _mirror(lake: Lake) -> None:
    with engine_of(lake) as engine:
        engine.run(once=True)


def _reconcile(lake: Lake) -> None:
    with engine_of(lake) as engine, Logs(engine, LocalInspector(engine.settings)) as logs:
        Reconciler(logs).run(Strategy.FULL)


def _reconcile_until_equal(lake: Lake) -> None:
    """As a service does, again and again: what is published behind the first loss is compared the next time."""
    for _ in range(2):
        _reconcile(lake)


def _lose_objects(lake: Lake) -> None:
    """A commit, the newest checkpoint, and a checksum after it are gone."""
    names = ("00000000000000000003.json", "00000000000000000010.checkpoint.parquet", "00000000000000000010.crc")
    lake.store().delete(f"_delta_log/{name}" for name in names)


def _write_as_others(lake: Lake) -> None:
    """Somebody else has changed a commit, and another one is gone."""
    store = lake.store()
    store.delete(["_delta_log/00000000000000000004.json"])
    store.put("_delta_log/00000000000000000002.json", b'{"commitInfo":{}}\n')


def _mislead(lake: Lake) -> None:
    """The pointer leads readers to nothing."""
    lake.store().put("_delta_log/_last_checkpoint", b'{"version":99,"size":1}')


def _keep_time(lake: Lake) -> None:
    with lake.catalog.database.write() as session:
        session.execute(update(heads).values(committed_at=_LATER))


def _commit_two_tables(lake: Lake) -> None:
    with lake.catalog.transaction(token="two tables") as tx:
        tx.stage("t", [remove_of(add("h")), add("after.parquet")], read_version=10)
        tx.append("u", [add("after.parquet")])


def _commit_much(lake: Lake) -> None:
    with lake.catalog.transaction(token="much") as tx:
        files = [add(f"much-{number}.parquet") for number in range(6)]
        tx.stage("t", [remove_of(add("h")), *files], read_version=10)


def _append(lake: Lake) -> None:
    """Without a token: whoever has no answer looks before trying again."""
    table = lake.catalog.table("t")
    if table.info().head == 10:
        table.append([add("after.parquet")])


def _adopt(lake: Lake) -> None:
    with engine_of(lake) as engine, Logs(engine, LocalInspector(engine.settings)) as logs:
        adopt(logs, "t")


def _write_in_place_of_ours(lake: Lake) -> None:
    """Two commits of ours are not published, and somebody else has written to the log in their place."""
    _keep_time(lake)
    for number in range(2):
        lake.catalog.table("t").append([add(f"ours-{number}.parquet")])
    info = {"timestamp": _LATER + 1_000, "inCommitTimestamp": _LATER + 1_000, "operation": "WRITE"}
    file = {"path": "theirs.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    lines = [{"commitInfo": {**info, "operationParameters": {}}}, {"add": file}]
    data = b"".join(json.encode(line) + b"\n" for line in lines)
    lake.store().put("_delta_log/00000000000000000011.json", data)


def _clean(lake: Lake) -> None:
    with engine_of(lake) as engine:
        engine.clean("t")


def _grow_old(lake: Lake) -> None:
    """The versions up to one after the first checkpoint are past their retention."""
    old = (versions.c.version <= 6) & (versions.c.table_id == 1)
    with lake.catalog.database.write() as session:
        session.execute(update(versions).where(old).values(committed_at=1_600_000_000_000 + versions.c.version))


def _ask_for_sidecars(lake: Lake) -> None:
    """There is a checkpoint with sidecars, and the next one falls due, which names some of them again."""
    _keep_time(lake)
    table = lake.catalog.table("t")
    table.alter(properties={"delta.checkpointPolicy": "v2"})
    for number in range(4):
        table.append([add(f"beside-{number}.parquet")])
    _mirror(lake)
    for number in range(5):
        table.append([add(f"beyond-{number}.parquet")])


def _alert(lake: Lake) -> None:
    """Evaluate a rule whose condition holds, and send what is due."""
    rule = AlertRule(name="always", metric="lag_versions", operator=">=", threshold=0.0, tables="t")
    settings = replace(lake.settings, alerts=AlertSettings(rules=(rule,)))
    evaluate_now(lake.catalog.database, settings)
    for channel in channels_in_force(settings):
        Dispatcher(lake.catalog.database).drain(channel, settings.alerts)


def _alert_later(lake: Lake) -> None:
    """Another service, once the claim of the one that died has ended."""
    with lake.catalog.database.write() as session:
        session.execute(update(deliveries).values(claimed_until=0))
    _alert(lake)


SCENES: Final[Mapping[str, Scene]] = {
    "commit": Scene("mirrored", _commit_two_tables, _keep_time),
    "large commit": Scene("mirrored", _commit_much, _keep_time),
    "append": Scene("mirrored", _append, _keep_time, databases=("postgresql", "sqlite")),
    "mirror": Scene("second", _mirror),
    "first checkpoint": Scene("first", _mirror),
    "sidecars": Scene("mirrored", _mirror, _ask_for_sidecars),
    "reconcile": Scene("mirrored", _reconcile, _lose_objects, _reconcile_until_equal, sound=False),
    "altered": Scene("mirrored", _reconcile, _write_as_others, sound=False),
    "misleading": Scene("mirrored", _reconcile, _mislead, databases=("sqlite",), sound=False),
    "adopt": Scene("mirrored", _adopt, _write_in_place_of_ours, sound=False),
    "clean": Scene("mirrored", _clean, _grow_old),
    "alert": Scene("mirrored", _alert, again=_alert_later, databases=("sqlite",)),
}
