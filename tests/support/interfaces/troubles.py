"""Every trouble of the guide to troubles, brought about with real parts.

Each is a generator: up to its ``yield`` it brings the trouble about; behind it is what a person does about it that is
no command of ours, between *Check* and *Act*. All begin with the table ``orders`` at version 3, published, and with a
file ``actions.jsonl`` that can be committed.
"""

import json
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import pytest

from deltamirror.config import Settings, load
from deltamirror.ops.alerts.background import evaluate_now
from deltamirror.ops.alerts.delivery import Dispatcher
from deltamirror.ops.alerts.rules import channels_in_force
from deltamirror.txnlog.queue.leases import take
from deltamirror.wiring import open_catalog
from deltamirror.work import Lane
from tests.support.faults.answering import Answer
from tests.support.faults.postgres_proxy import PostgresProxy, Statement
from tests.support.faults.rules import Reset
from tests.support.faults.s3_proxy import S3Proxy
from tests.support.interfaces.commands import variables
from tests.support.interfaces.prompt import Prompt
from tests.support.mirrors.claims import end_leases
from tests.support.monitoring.receivers import http_receiver

_ADD = {"partitionValues": {"day": "2024-01-01"}, "size": 10, "modificationTime": 1, "dataChange": True}
_TIMES = {
    "dl_table_versions": "committed_at",
    "dl_mirror_status": "published_at",
    "dl_mirror_attempts": "ended_at",
    "dl_alert_deliveries": "next_attempt_at",
}
_NEXT = 4
"""The version that is committed next."""


@dataclass(frozen=True)
class Scene:
    """A user at a prompt, and how to get at whatever a trouble needs."""

    prompt: Prompt
    patch: pytest.MonkeyPatch
    fixture: Callable[[str], Any]
    stack: ExitStack
    """What lasts until the end of a drill."""

    @property
    def settings(self) -> Settings:
        """As a command reads them."""
        return load(environment=os.environ).settings

    @property
    def log(self) -> Path:
        """The log of the table on disk."""
        return self.prompt.folder / "lake" / "orders" / "_delta_log"

    def write_actions(self, text: str | None = None) -> None:
        """Let ``actions.jsonl`` hold this, or what can be committed."""
        line = json.dumps({"add": {"path": f"{uuid4()}.parquet", **_ADD}}) + "\n"
        (self.prompt.folder / "actions.jsonl").write_text(line if text is None else text)

    def commit(self) -> None:
        """One version more, which waits to be published."""
        self.prompt("commit", "orders", "actions.jsonl")
        self.write_actions()

    def configure(self, text: str) -> None:
        """Let the settings file be this."""
        (self.prompt.folder / "deltamirror.toml").write_text(text)

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Behind the catalog's back."""
        with closing(sqlite3.connect(self.prompt.folder / "deltamirror.db")) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def pass_time(self, seconds: int) -> None:
        """Everything that is recorded of versions, attempts and notifications happened so much earlier."""
        for table, column in _TIMES.items():
            self.sql(f"UPDATE {table} SET {column} = {column} - ?", seconds * 1000)

    def evaluate(self) -> None:
        """Evaluate the rules of alerts, and send what is due, as a service does every ``alerts.interval``."""
        settings = self.settings
        with open_catalog(settings) as catalog:
            evaluate_now(catalog.database, settings)
            for channel in channels_in_force(settings):
                Dispatcher(catalog.database).drain(channel, settings.alerts)

    def use(self, url: str, **settings: str) -> None:
        """Let commands use another catalog."""
        for name, value in {"CATALOG__URL": url, **settings}.items():
            self.patch.setenv(f"DELTAMIRROR_{name}", value)

    def create_orders(self, location: str) -> None:
        """Make the catalog in use, with the table."""
        columns = ("--schema", "id long, day date", "--partition-by", "day")
        self.prompt("init")
        self.prompt("table", "create", "orders", "--location", location, *columns)

    def on_s3(self) -> S3Proxy:
        """Another catalog, whose table ``orders`` is on S3 and at version 3, too; the way there goes by a proxy."""
        proxy: S3Proxy = self.fixture("s3_proxy")
        settings = proxy.settings(self.fixture("seaweed_server").settings())
        self.use("sqlite:///s3.db", STORAGE__RETRIES="0")
        for name, value in variables(settings).items():
            self.patch.setenv(name, value)
        self.create_orders(f"s3://{self.fixture('s3_bucket')}/{uuid4()}/orders")
        for _ in range(3):
            self.commit()
        self.prompt("mirror", "--once")
        return proxy


Trouble: TypeAlias = Callable[[Scene], Iterator[None]]


def damaged_rows(scene: Scene) -> Iterator[None]:
    """The database holds another commit than the one that it acknowledged."""
    scene.commit()
    database, backup = (scene.prompt.folder / name for name in ("deltamirror.db", "backup.db"))
    with closing(sqlite3.connect(backup)) as copy, closing(sqlite3.connect(database)) as own:
        own.backup(copy)
    [(data,)] = scene.sql("SELECT data FROM dl_commit_chunks ORDER BY rowid DESC LIMIT 1")
    scene.sql("UPDATE dl_commit_chunks SET data = ? WHERE data = ?", bytes(data).replace(b"WRITE", b"WROTE"), data)
    yield
    for file in scene.prompt.folder.glob("deltamirror.db*"):
        file.unlink()
    shutil.copy(backup, database)


def foreign_commit(scene: Scene) -> Iterator[None]:
    now = int(time.time() * 1000)
    info = {"commitInfo": {"inCommitTimestamp": now, "timestamp": now, "operation": "WRITE"}}
    lines = [info, {"add": {"path": "foreign.parquet", **_ADD}}]
    (scene.log / f"{_NEXT:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    yield


def nothing(scene: Scene) -> Iterator[None]:
    """The commands of the section bring it about themselves."""
    yield


def wrong_action(scene: Scene) -> Iterator[None]:
    scene.write_actions(json.dumps({"add": {"path": "a.parquet", **_ADD, "size": -1}}) + "\n")
    yield
    scene.write_actions()


def wrong_line(scene: Scene) -> Iterator[None]:
    scene.write_actions('{"add":\n')
    yield
    scene.write_actions()


def wrong_settings(scene: Scene) -> Iterator[None]:
    scene.configure("[mirror]\nretires = 3\n")
    yield
    scene.configure("[mirror]\nattempts = 3\n")


def used_token(scene: Scene) -> Iterator[None]:
    scene.prompt("commit", "orders", "actions.jsonl", "--token", "load-7")
    scene.write_actions()
    yield


def unknown_feature(scene: Scene) -> Iterator[None]:
    log = scene.prompt.folder / "lake" / "events" / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {
        "id": str(uuid4()), "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema),
        "partitionColumns": [], "configuration": {}, "createdTime": 1,
    }  # fmt: skip

    def write(**protocol: object) -> None:
        lines = [{"commitInfo": {"operation": "CREATE TABLE"}}, {"protocol": protocol}, {"metaData": metadata}]
        (log / f"{0:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))

    write(minReaderVersion=3, minWriterVersion=7, readerFeatures=["wonder"], writerFeatures=["wonder"])
    yield
    write(minReaderVersion=1, minWriterVersion=2)


def unpublished(scene: Scene) -> Iterator[None]:
    scene.commit()
    yield


def no_catalog(scene: Scene) -> Iterator[None]:
    for file in scene.prompt.folder.glob("deltamirror.db*"):
        file.unlink()
    yield


def missing_library(scene: Scene) -> Iterator[None]:
    scene.use("duckdb:///lake.duckdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "deltamirror.txnlog.database.engines.duckdb", raising=False)
        patch.setitem(sys.modules, "duckdb", None)
        yield


def database_away(scene: Scene) -> Iterator[None]:
    scene.use("postgresql://127.0.0.1:9/lake")
    yield
    scene.use("sqlite:///deltamirror.db")


def wrong_key(scene: Scene) -> Iterator[None]:
    scene.on_s3()
    scene.commit()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY", "expired")
        yield


def answering(answer: Answer) -> Trouble:
    """The store answers every request so, until it is mended."""

    def trouble(scene: Scene) -> Iterator[None]:
        proxy = scene.on_s3()
        scene.commit()
        proxy.fail(answer, times=None)
        yield
        proxy.heal()

    return trouble


def lost_reply(scene: Scene) -> Iterator[None]:
    """The database commits, its reply is lost, and it cannot be asked afterwards."""
    proxy: PostgresProxy = scene.fixture("postgres_proxy")
    scene.use(proxy.url(scene.fixture("postgres_database")), WRITER__RETRIES="0")
    scene.create_orders("lake/elsewhere")
    before = len(proxy.log)
    proxy.fail(Reset.AFTER, _is_append)
    proxy.fail(Reset.BEFORE, lambda _: any(map(_is_append, proxy.log[before:])), times=None)
    yield
    proxy.heal()


def _is_append(statement: Statement) -> bool:
    """One statement appends, and commits."""
    return "dl_append(" in statement.text


def lost_object(scene: Scene) -> Iterator[None]:
    scene.commit()
    (scene.log / f"{_NEXT - 1:020}.json").unlink()
    yield


def held_lease(scene: Scene) -> Iterator[None]:
    scene.patch.setenv("DELTAMIRROR_MIRROR__LEASE", "0.2")
    with open_catalog(scene.settings) as catalog:
        table_id = catalog.table("orders").info().id
        assert take(catalog.database, table_id, lane=Lane.COMMITS, owner="elsewhere:1:x", seconds=600)
        yield
        end_leases(catalog.database)


def late(seconds: int) -> Trouble:
    """A version waits for so long, and nothing was published meanwhile."""

    def trouble(scene: Scene) -> Iterator[None]:
        scene.commit()
        scene.pass_time(seconds)
        scene.evaluate()
        yield

    return trouble


def blocked_log(scene: Scene) -> Iterator[None]:
    """A file is in the place of the table's folder."""
    table, aside = scene.log.parent, scene.log.parent.with_name("aside")
    scene.commit()
    table.rename(aside)
    table.touch()
    scene.prompt("mirror", "--once", exits=10)
    scene.evaluate()
    yield
    table.unlink()
    aside.rename(table)


def foreign_commit_noticed(scene: Scene) -> Iterator[None]:
    scene.commit()
    next(foreign_commit(scene))
    scene.prompt("mirror", "--once", exits=2)
    scene.evaluate()
    yield


def store_away(scene: Scene) -> Iterator[None]:
    proxy = scene.on_s3()
    scene.patch.setenv("DELTAMIRROR_BREAKER__FAILURES", "1")
    scene.commit()
    with proxy.refusing():
        scene.prompt("mirror", "--once", exits=20)
        scene.evaluate()
        yield


def lost_and_found(scene: Scene) -> Iterator[None]:
    (scene.log / f"{_NEXT - 1:020}.json").unlink()
    scene.prompt("reconcile", "orders")
    scene.evaluate()
    yield
    scene.pass_time(3600)


def no_checkpoint(scene: Scene) -> Iterator[None]:
    scene.configure('[[alerts.rules]]\nname = "checkpoint-age"\nthreshold = 2\n')
    scene.evaluate()
    yield


def failing_channel(scene: Scene) -> Iterator[None]:
    receiver = scene.stack.enter_context(http_receiver(503))
    scene.configure(f'[[alerts.channels]]\nname = "hook"\nkind = "webhook"\nurl = "{receiver.url}"\n')
    scene.commit()
    for _ in range(4):
        scene.pass_time(100)
        scene.evaluate()
    yield
    receiver.status = 200
    scene.pass_time(100)
    scene.evaluate()


TROUBLES: Mapping[str, Trouble] = {
    "internal": damaged_rows,
    "diverged": foreign_commit,
    "late": nothing,
    "invalid-action": wrong_action,
    "invalid-input": nothing,
    "invalid-line": wrong_line,
    "invalid-location": nothing,
    "invalid-schema": nothing,
    "invalid-settings": wrong_settings,
    "not-found": nothing,
    "already-exists": nothing,
    "conflict": nothing,
    "token-reused": used_token,
    "unsupported": unknown_feature,
    "refused": unpublished,
    "catalog-mismatch": no_catalog,
    "missing-extra": missing_library,
    "unavailable": database_away,
    "permission-denied": wrong_key,
    "capacity-exceeded": answering(Answer(507, "InsufficientStorage")),
    "commit-unknown": lost_reply,
    "log-changed": lost_object,
    "throttled": answering(Answer(503, "SlowDown")),
    "transient": answering(Answer(409, "OperationAborted")),
    "lease-lost": held_lease,
    "lag-warning": late(100),
    "lag-critical": late(400),
    "failure-escalated": blocked_log,
    "quarantined": foreign_commit_noticed,
    "circuit-open": store_away,
    "drift-found": lost_and_found,
    "checkpoint-age": no_checkpoint,
    "no-progress": late(130),
    "notification-failed": failing_channel,
}
