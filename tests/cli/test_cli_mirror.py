import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.cli import progress
from deltamirror.cli.failure import EXIT_INTERRUPTED
from deltamirror.config import Settings, StorageSettings
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.service import engine
from deltamirror.work import Outcome, Unit
from tests.support.databases.emptied import lake_url_of
from tests.support.interfaces.commands import (
    following,
    typed,
    typed_on_a_terminal,
    variables,
)
from tests.support.interfaces.prompt import AddLine, Prompt

LOCAL = ("mirror", "--once", "--runner", "local")
STARTING = "starting Spark…\n"
STOPPING = "stopping when the work in hand is finished; Ctrl-C ends at once\n"
FOLLOWER = {"DELTAMIRROR_MIRROR__RUNNER": "local", "DELTAMIRROR_MIRROR__POLL": "0.05"}
PATIENT = {"DELTAMIRROR_MIRROR__BUDGET": "300"}
"""A unit does all that there is to do, however slow the disk is."""


def log_of(folder: Path, table: str = "orders") -> list[str]:
    log = folder / "lake" / table / "_delta_log"
    return sorted(path.name for path in log.iterdir() if path.suffix == ".json") if log.exists() else []


def commits(versions: range) -> list[str]:
    return [f"{version:020}.json" for version in versions]


def with_backlog(folder: Path, versions: int) -> None:
    """Alterations are the smallest commits."""
    with Catalog(f"sqlite:///{folder / 'deltamirror.db'}") as catalog:
        for number in range(versions):
            catalog.table("orders").alter(properties={"number": str(number)})


@pytest.mark.requirement("R22")
def test_what_is_due_is_published_once_and_the_answer_says_how_much(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add())
    done = orders.json(*LOCAL)
    assert done == {
        "versions": 2,
        "tables": {"orders": 2},
        "checkpoints": 0,
        "failures": [],
        "diverged": {},
        "quarantined": [],
        "unpublished": 0,
        "stopped": False,
    }
    assert log_of(orders.folder) == commits(range(2))
    with Catalog(f"sqlite:///{orders.folder / 'deltamirror.db'}") as catalog:
        for version in range(2):
            published = orders.folder / "lake/orders/_delta_log" / f"{version:020}.json"
            assert published.read_bytes() == catalog.table("orders").commit_file(version=version)
    assert orders(*LOCAL).stdout == "Nothing was due.\n"


def test_the_log_names_tables_by_their_names(orders: Prompt, add: AddLine) -> None:
    settings = {**PATIENT, "DELTAMIRROR_LOG__LEVEL": "info", "DELTAMIRROR_CHECKPOINT__INTERVAL": "1"}
    with_backlog(orders.folder, 1)
    log = orders.folder / "lake/orders/_delta_log"
    log.parent.mkdir(parents=True)
    log.write_text("in the way")
    failed = orders(*LOCAL, exits=10, settings=settings).stderr
    assert "warning pipeline.service.service: version 0 of table 'orders' failed at " in failed
    log.unlink()
    (log / f"{1:020}.crc").mkdir(parents=True)
    done = orders(*LOCAL, settings=settings).stderr
    assert f"_delta_log/{1:020}.crc of table 'orders' is not written: " in done
    assert "table 'orders': versions 0 to 1 published\n" in done
    assert "table 'orders': checkpoint of version 1\n" in done
    orders("commit", "orders", "-", stdin=add())
    assert "table 'orders': version 2 published\n" in orders(*LOCAL, settings=settings).stderr


@pytest.mark.requirement("R86")
def test_lines_for_collectors_have_fields_and_a_trace_for_each_job(orders: Prompt) -> None:
    settings = {**PATIENT, "DELTAMIRROR_LOG__FORMAT": "json", "DELTAMIRROR_LOG__LEVEL": "info"}
    with_backlog(orders.folder, 10)
    said = orders(*LOCAL, settings=settings).stderr
    published, checkpoint = (json.loads(line) for line in said.splitlines())
    told = {name: published[name] for name in ("table", "table_id", "lane", "first_version", "version")}
    assert told == {"table": "orders", "table_id": 1, "lane": "commits", "first_version": 0, "version": 10}
    told = {name: checkpoint[name] for name in ("table", "table_id", "lane", "version")}
    assert told == {"table": "orders", "table_id": 1, "lane": "checkpoints", "version": 10}
    assert published["trace"] != checkpoint["trace"]


def test_the_summary_counts_versions_tables_and_checkpoints(orders: Prompt, add: AddLine) -> None:
    with_backlog(orders.folder, 10)
    orders("table", "create", "other", "--location", "lake/other", "--schema", "id long")
    assert orders(*LOCAL).stdout == "Published 12 versions of 2 tables and wrote 1 checkpoint.\n"
    assert (orders.folder / "lake/orders/_delta_log/_last_checkpoint").exists()


def test_the_runner_comes_from_the_settings_unless_the_command_names_one(
    orders: Prompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTAMIRROR_MIRROR__RUNNER", "local")
    assert orders.json("mirror", "--once")["versions"] == 1


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--once", "--follow"],
        ["--once", "--runner", "flink"],
        ["--once", "--master", ""],
        ["--once", "--runner", "local", "--master", "spark://host:7077"],
    ],
    ids=" ".join,
)
def test_what_to_run_has_to_be_clear(orders: Prompt, options: list[str]) -> None:
    before = orders.dump()
    assert orders.error("mirror", *options, exits=64)["code"] == "usage"
    assert orders.dump() == before


def test_a_database_without_a_catalog_points_to_init(prompt: Prompt) -> None:
    assert "deltamirror init" in prompt.error(*LOCAL, exits=17)["hint"]


def test_a_run_that_was_interrupted_says_what_is_left(
    orders: Prompt, add: AddLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(engine: MirrorEngine, **_: object) -> None:
        """As if the signal came before anything was claimed."""
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(MirrorEngine, "run", interrupted)
    left = orders(*LOCAL, exits=EXIT_INTERRUPTED).stdout
    assert left == "Nothing was published.\n1 version not published; `deltamirror mirror --once` goes on.\n"


def test_a_diverged_log_ends_with_2_names_the_object_and_leaves_it_alone(orders: Prompt, add: AddLine) -> None:
    orders("table", "create", "other", "--location", "lake/other", "--schema", "id long")
    theirs = orders.folder / "lake/orders/_delta_log" / f"{1:020}.json"
    orders(*LOCAL)
    orders("commit", "orders", "-", stdin=add())
    orders("table", "alter", "other", "--set", "a=1")
    theirs.write_text('{"commitInfo":{}}\n')
    done = json.loads(orders(*LOCAL, "--json", exits=2).stdout)
    (failure,) = done["failures"]
    assert (failure["table"], failure["version"], failure["code"]) == ("orders", 1, "diverged")
    assert failure["key"] == f"_delta_log/{1:020}.json"
    assert "deltamirror adopt orders" in failure["hint"]
    assert (done["tables"], done["unpublished"]) == ({"other": 1}, 1)
    assert orders.json("status", "orders")["tables"][0]["state"] == "quarantined"
    assert theirs.read_text() == '{"commitInfo":{}}\n'
    assert log_of(orders.folder, "other") == commits(range(2))
    theirs.unlink()
    orders("repair", "orders")
    assert log_of(orders.folder, "orders") == commits(range(2))


def test_a_long_backlog_is_counted_down_in_lines_but_not_for_programs(
    orders: Prompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LONG_BACKLOG", 10)
    settings = {**PATIENT, "DELTAMIRROR_MIRROR__BATCH_VERSIONS": "5"}
    with_backlog(orders.folder, 8)
    assert orders(*LOCAL, settings=settings).stderr == ""  # 9 versions are not many
    with_backlog(orders.folder, 11)
    told = orders(*LOCAL, settings=settings).stderr.splitlines()
    assert told == [f"{n} of 11 versions published" for n in (5, 10, 11)]
    with_backlog(orders.folder, 11)
    done = orders(*LOCAL, "--json", settings=settings)
    assert (done.stderr, json.loads(done.stdout)["versions"]) == ("", 11)


SOON_LONG = (
    sys.executable,
    "-c",
    "from deltamirror.cli import main, progress; progress.LONG_BACKLOG = 10; main()",
)
"""The command, to which ten versions are many."""


def test_a_long_backlog_is_a_bar_on_a_terminal(orders: Prompt) -> None:
    with_backlog(orders.folder, 11)
    shown = typed_on_a_terminal(*LOCAL, folder=orders.folder, columns=100, program=SOON_LONG)
    assert "published" in shown
    assert "12/12 versions" in shown
    assert "Published 12 versions of 1 table" in shown


@pytest.mark.requirement("R23")
def test_a_service_publishes_commits_and_checkpoints_as_they_come_and_ends_in_order(
    orders: Prompt, add: AddLine
) -> None:
    with following(folder=orders.folder, settings=FOLLOWER) as service:
        assert service.started.startswith("Mirroring sqlite:///deltamirror.db in this process; ")
        for version in range(1, 11):
            done = orders.json("commit", "orders", "-", "--wait", "60", stdin=add(path=f"{version}.parquet"))
            assert done["version"] == version
        status, said, complained = service.stop()
    assert (status, complained) == (0, STOPPING)
    assert said.startswith("Stopped; the work in hand is finished.\nPublished 11 versions of 1 table")
    assert log_of(orders.folder) == commits(range(11))
    assert orders.json("mirror", "--once", "--runner", "local")["versions"] == 0
    pointer = json.loads((orders.folder / "lake/orders/_delta_log/_last_checkpoint").read_text())
    assert pointer["version"] == 10


@pytest.mark.postgres
def test_the_password_of_the_catalog_is_not_in_the_first_line(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = lake_url_of("postgresql", request, tmp_path)
    with following("--catalog", url, folder=tmp_path, settings=FOLLOWER) as service:
        assert service.started.startswith("Mirroring postgresql://")
        assert "deltamirror-tests" not in service.started
        assert service.stop()[0] == 0


def test_a_second_interrupt_ends_at_once_whatever_hangs(
    orders: Prompt, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    create = ["table", "create", "hung", "--location", f"s3://{s3_bucket}/hung", "--schema", "id long"]
    assert typed(*create, folder=orders.folder, settings=variables(s3_settings)).returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as silent:
        elsewhere = replace(s3_settings, endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=600.0)
        settings = {**FOLLOWER, **variables(elsewhere)}
        with (
            following(folder=orders.folder, settings=settings) as service,
            silent.accept()[0],  # a look past the head, which is given up after two seconds
            silent.accept()[0],  # the work has begun, and will never get an answer
        ):
            assert "the work in hand" in service.told(signal.SIGINT)
            status, _, complained = service.stop(signal.SIGINT)
    assert status == 130
    assert "ended at once" in complained
    assert "Traceback" not in complained


@pytest.mark.requirement("R33")
def test_pausing_one_table_or_all_takes_effect_without_a_restart(orders: Prompt, add: AddLine) -> None:
    """Also: what a service tells programs when it starts and when it has ended."""
    orders("table", "create", "other", "--location", "lake/other", "--schema", "id long")
    orders(*LOCAL)
    with following("--json", folder=orders.folder, settings=FOLLOWER) as service:
        started = json.loads(service.started)["started"]
        assert (started["catalog"], started["runner"]) == ("sqlite:///deltamirror.db", "local")
        orders("table", "pause", "--all")
        orders("commit", "orders", "-", stdin=add())
        orders("table", "pause", "orders", "--unpublished")
        assert {each["state"] for each in orders.json("status")["tables"]} == {"paused"}
        orders("table", "resume", "--all")
        orders("table", "alter", "other", "--set", "a=1")
        line = '{"txn":{"appId":"a","version":1}}\n'
        orders("commit", "other", "-", "--wait", "60", stdin=line)
        # The other table was published since; this one waits, and its log is as it was.
        assert log_of(orders.folder) == commits(range(1))
        orders("commit", "orders", "-", stdin=add(path="b.parquet"))
        orders("table", "resume", "orders")
        orders("commit", "orders", "-", "--wait", "60", stdin=add(path="c.parquet"))
        assert log_of(orders.folder) == commits(range(4))
        status, said, complained = service.stop(signal.SIGINT)
    assert (status, complained) == (0, "")
    assert json.loads(said)["stopped"]


@pytest.mark.requirement("R33")
def test_with_everything_paused_nothing_is_written(orders: Prompt, add: AddLine) -> None:
    orders("table", "pause", "--all")
    orders("commit", "orders", "-", stdin=add())
    assert orders(*LOCAL).stdout == "Nothing was due.\n2 versions not published; `deltamirror status` shows why.\n"
    assert not (orders.folder / "lake").exists()
    said = orders("table", "resume", "orders").stdout
    assert "all tables are paused" in said
    assert orders.json(*LOCAL)["versions"] == 0
    orders("table", "resume", "--all")
    assert orders.json(*LOCAL)["versions"] == 2


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize("target", [[], ["orders", "--all"]])
def test_pause_and_resume_need_a_table_or_all(orders: Prompt, command: str, target: list[str]) -> None:
    assert orders.error("table", command, *target, exits=64)["code"] == "usage"


def test_a_wait_in_vain_ends_with_3_and_the_version_that_is_committed(orders: Prompt, add: AddLine) -> None:
    error = orders.error("commit", "orders", "-", "--wait", "0.01", stdin=add(), exits=3)
    assert (error["code"], error["table"], error["version"]) == ("late", "orders", 1)
    assert "version 1" in error["message"]
    assert orders.json("table", "show", "orders")["table"]["head"] == 1


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "soon"])
def test_a_wait_is_a_number_of_seconds(orders: Prompt, add: AddLine, seconds: str) -> None:
    before = orders.dump()
    assert orders.error("commit", "orders", "-", "--wait", seconds, stdin=add(), exits=64)["code"] == "usage"
    assert orders.dump() == before


def test_who_gives_up_waiting_is_told_the_version(
    orders: Prompt, add: AddLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Catalog, "wait_until_published", interrupted)
    done = orders("commit", "orders", "-", "--wait", "60", stdin=add(), exits=130)
    assert done.stdout.startswith("orders is at version 1 (")


@pytest.mark.requirement("R110")
def test_a_writer_publishes_its_own_small_commits_if_told_to(
    orders: Prompt, add: AddLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders("commit", "orders", "-", stdin=add())
    assert log_of(orders.folder) == []
    monkeypatch.setenv("DELTAMIRROR_MIRROR__INLINE", "true")
    monkeypatch.setenv("DELTAMIRROR_MIRROR__INLINE_TIMEOUT", "60")
    orders("commit", "orders", "-", "--wait", "0", stdin=add(path="b.parquet"))
    assert log_of(orders.folder) == commits(range(3))


@pytest.mark.requirement("R110")
def test_a_writer_that_cannot_publish_has_committed_all_the_same(
    orders: Prompt, add: AddLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orders.folder / "lake").write_text("in the way")
    monkeypatch.setenv("DELTAMIRROR_MIRROR__INLINE", "true")
    done = orders("commit", "orders", "-", stdin=add())
    assert done.stdout.startswith("orders is at version 1 (")
    assert "left to the service" in done.stderr
    (orders.folder / "lake").unlink()
    assert orders.json(*LOCAL)["versions"] == 2


def test_a_spark_that_nobody_answers_for_is_unavailable_and_fails_no_table(orders: Prompt) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        error = orders.error("mirror", "--once", "--master", f"spark://127.0.0.1:{nobody.getsockname()[1]}", exits=20)
    assert "spark.master" in error["hint"]
    [table] = orders.json("status")["tables"]
    assert (table["pending"], table["failed"]) == (1, 0)


@pytest.mark.spark
@pytest.mark.slow
def test_a_service_on_spark_publishes_with_the_settings_of_the_command_and_ends_in_order(
    s3_settings: StorageSettings, s3_bucket: str, tmp_path: Path, add: Callable[..., str]
) -> None:
    keys = variables(s3_settings)
    lines = [f"{name.rpartition('__')[2].lower()} = {_toml(value)}" for name, value in keys.items()]
    (tmp_path / "elsewhere.toml").write_text("\n".join(["[storage]", *lines]))
    common = ("--config", "elsewhere.toml", "--catalog", "sqlite:///mine.db")
    with Catalog(f"sqlite:///{tmp_path / 'mine.db'}", settings=Settings(storage=s3_settings)) as catalog:
        catalog.init()
        catalog.create_table(
            "orders", location=f"s3://{s3_bucket}/orders", schema="id long, day date", partition_by=["day"]
        )
    with following("--master", "local[1]", *common, folder=tmp_path) as service:
        assert "on Spark (local[1])" in service.started
        waited = typed("commit", "orders", "-", "--wait", "300", *common, folder=tmp_path, stdin=add())
        assert waited.returncode == 0, waited.stderr
        status, said, complained = service.stop()
    lines = [line for line in complained.splitlines(keepends=True) if line in (STARTING, STOPPING)]
    assert (status, lines) == (0, [STARTING, STOPPING]), complained  # Spark may warn that the machine is slow
    assert "Published 2 versions of 1 table" in said


def _toml(value: str) -> str:
    return value if value == "true" else json.dumps(value)


class SparkLike:
    """A runner in the place of Spark, which says when it is started, and when it runs something."""

    def __init__(self, inner: InProcessRunner, *, then: Callable[[], None] = lambda: None) -> None:
        self._inner, self._then = inner, then

    def start(self) -> bool:
        click.echo("[started]", err=True)
        self._then()
        return True

    def is_ready(self) -> bool:
        return True

    def run(self, units: Sequence[Unit]) -> Generator[Sequence[Outcome]]:
        click.echo("[run]", err=True)
        return self._inner.run(units)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def spark_like(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts it there."""

    def put(**options: Any) -> None:
        monkeypatch.setattr(
            engine, "open_runner", lambda settings, *rest: SparkLike(InProcessRunner(rest[0], settings), **options)
        )

    return put


def test_a_service_says_that_spark_starts_and_starts_it_though_nothing_is_due(
    orders: Prompt, spark_like: Callable[..., None]
) -> None:
    orders(*LOCAL)
    spark_like(then=lambda: os.kill(os.getpid(), signal.SIGTERM))
    said = orders("mirror", "--follow", "--runner", "spark").stderr
    assert said.index(STARTING) < said.index("[started]")


def test_one_run_starts_spark_before_it_runs_anything_and_only_if_something_waits(
    orders: Prompt, add: AddLine, spark_like: Callable[..., None]
) -> None:
    spark_like()
    assert orders("mirror", "--once", "--runner", "spark").stderr == f"{STARTING}[started]\n[run]\n"
    assert orders("mirror", "--once", "--runner", "spark").stderr == ""
    orders("commit", "orders", "-", stdin=add())
    assert STARTING not in orders("mirror", "--once", "--runner", "spark", "--json").stderr
