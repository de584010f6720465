"""Writers that publish themselves: what they do at once, and what they leave to the service."""

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog
from deltamirror.config import Settings
from deltamirror.pipeline.service import inline as inline_module
from deltamirror.pipeline.service.engine import PublishingEngine
from tests.support.lakes.lake import add
from tests.support.mirrors.claims import status_of
from tests.support.mirrors.local import (
    append,
    committed_files,
    local_settings,
    log_of,
    make_table,
    mirror_of,
    published_files,
)


def inline_catalog(url: str, **changed: Any) -> Catalog:
    limits = {"inline": True, "inline_timeout": 30.0, "inline_bytes": 10_000}
    return Catalog(url, settings=local_settings(Settings(), **{**limits, **changed}))


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.requirement("R110")
def test_a_writer_publishes_small_commits_itself_when_told_so(lake_url: str, tmp_path: Path) -> None:
    with inline_catalog(lake_url) as catalog:
        table = make_table(catalog, tmp_path)
        append(table, 3)
        assert published_files(table) == committed_files(table)
        assert table.info().published == 3
        table.append([add("big.parquet", stats=f'{{"numRecords":1,"x":"{"y" * 20_000}"}}')])
        assert table.info().published == 3


@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R110")
def test_trouble_of_the_store_fails_no_commit_of_a_writer_that_publishes(lake_url: str, tmp_path: Path) -> None:
    with inline_catalog(lake_url) as catalog:
        table = make_table(catalog, tmp_path)
        log = log_of(table)
        aside = log.rename(tmp_path / "aside")
        log.write_text("in the way")
        append(table, 2)
        assert (table.info().head, table.info().published) == (2, 0)
        log.unlink()
        aside.rename(log)
        with mirror_of(catalog) as engine:
            engine.run(once=True)
        assert table.info().published == 2


@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R8")
@pytest.mark.requirement("R110")
def test_the_checkpoint_that_inline_commits_make_due_is_asked_for_and_left_to_the_service(
    lake_url: str, tmp_path: Path
) -> None:
    with inline_catalog(lake_url) as catalog:
        table = make_table(catalog, tmp_path)
        append(table, 12)
        assert not list(log_of(table).glob("*.checkpoint.parquet"))
        with mirror_of(catalog) as engine:
            summary = engine.run(once=True)
        assert (summary.versions, summary.checkpoints) == (0, 1)
        checkpoint = status_of(catalog).checkpoint
        assert checkpoint is not None
        assert checkpoint.version == 10
        assert [path.name[:20] for path in log_of(table).glob("*.checkpoint.parquet")] == [f"{10:020}"]


class Watch:
    """A clock that is set by hand."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def append_to_all(catalog: Catalog, names: str) -> dict[str, int]:
    with catalog.transaction() as transaction:
        for name in names:
            transaction.append(name, [add("f.parquet", stats='{"numRecords":1}')])
    return dict(transaction.result.versions)


def test_a_commit_waits_once_however_many_tables_it_has(
    sqlite_lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, waited, released, result = Watch(), list[float](), threading.Event(), Future.result

    def out_of_time(future: Future[Any], timeout: float | None = None) -> Any:
        if timeout is None:
            return result(future)
        waited.append(timeout)
        watch.now += timeout
        raise TimeoutError

    with inline_catalog(sqlite_lake, inline_timeout=2.0) as catalog:
        for name in "abc":
            make_table(catalog, tmp_path, name)
        monkeypatch.setattr(PublishingEngine, "mirror", lambda *_, **__: released.wait())
        monkeypatch.setattr(inline_module, "time", watch, raising=False)
        monkeypatch.setattr(Future, "result", out_of_time)
        assert append_to_all(catalog, "abc") == {"a": 1, "b": 1, "c": 1}
        released.set()
    assert sum(waited) == 2.0


@pytest.mark.requirement("R110")
def test_closing_the_catalog_meanwhile_fails_no_commit(
    sqlite_lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled, cancel, result = threading.Event(), Future.cancel, Future.result
    catalog = inline_catalog(sqlite_lake, concurrency=1)
    closing = threading.Thread(target=catalog.close)

    def seen(future: Future[Any]) -> bool:
        if done := cancel(future):
            cancelled.set()
        return done

    def closed_meanwhile(future: Future[Any], timeout: float | None = None) -> Any:
        if timeout is not None and closing.ident is None:
            closing.start()
        return result(future, timeout)

    for name in "ab":
        make_table(catalog, tmp_path, name)
    monkeypatch.setattr(PublishingEngine, "mirror", lambda *_, **__: cancelled.wait())
    monkeypatch.setattr(Future, "cancel", seen)
    monkeypatch.setattr(Future, "result", closed_meanwhile)
    assert append_to_all(catalog, "ab") == {"a": 1, "b": 1}
    closing.join()
    assert cancelled.is_set()


@pytest.mark.requirement("R110")
def test_what_is_committed_as_the_catalog_closes_is_left_to_the_service(
    sqlite_lake: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with inline_catalog(sqlite_lake) as catalog:
        make_table(catalog, tmp_path)
        publisher = catalog._inline
        assert publisher is not None
        publisher.close()
        publisher.publish({"t": 0})
    assert "left to the service" in caplog.text


@pytest.mark.requirement("R110")
def test_an_error_that_nobody_expected_of_publishing_fails_no_commit(
    sqlite_lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    with inline_catalog(sqlite_lake) as catalog:
        table = make_table(catalog, tmp_path)
        monkeypatch.setattr(PublishingEngine, "mirror", broken)
        append(table)
        assert table.info().head == 1
    assert "ZeroDivisionError" in caplog.text
