"""What each safeguard of publishing prevents: with it a check holds, and without it the same check fails.

Safeguards that show only over many schedules (order, tokens, retries, comparing logs, never overwriting) are switched
off one by one in ``tests/simulation``.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.names import commit_name
from deltamirror.errors import Unavailable
from deltamirror.pipeline.run.lease_guard import LeaseGuard
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.storage.store import Created, Data, Store
from deltamirror.work import Unit
from tests.support.lakes.lake import execute
from tests.support.logs.commit_units import watched
from tests.support.mirrors.local import ScriptedRunner, local_settings, log_of, make_table, mirror_of, published_files
from tests.support.stores.faulty import runner_over

pytestmark = pytest.mark.requirement("R106")

BOTH = pytest.mark.parametrize("guarded", [True, False], ids=["with", "without"])


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with Catalog(sqlite_lake) as found:
        yield found


class HalfKept:
    """A store that keeps half of what it is given, and says that it has it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, key: str, data: Data, **options: bool) -> object:
        answer = self._store.create(key, bytes(data)[: len(data) // 2], **options)
        assert isinstance(answer, Created)
        return answer


@contextmanager
def runner(catalog: Catalog, wrap: Callable[[Store], Store], **settings: Any) -> Iterator[InProcessRunner]:
    made = runner_over(catalog, local_settings(**settings), wrap)
    try:
        yield made
    finally:
        made.close()


def says_what_is_there(catalog: Catalog, table: Table) -> bool:
    """Whether every version that counts as published is in the log, with the bytes that were committed."""
    states = execute(catalog, "SELECT version FROM dl_mirror_status WHERE state = 'SUCCESS' ORDER BY version")
    return all(published_files(table).get(commit_name(each)) == table.commit_file(each) for (each,) in states)


@BOTH
def test_reading_back_finds_an_object_that_a_store_did_not_keep_whole(
    catalog: Catalog, tmp_path: Path, guarded: bool
) -> None:
    table = make_table(catalog, tmp_path)
    verify = "strict" if guarded else "basic"
    with (
        runner(catalog, lambda store: cast("Store", HalfKept(store)), verify=verify) as torn,
        mirror_of(catalog, runner=torn, verify=verify) as engine,
    ):
        failures = engine.run(once=True).failures
    assert says_what_is_there(catalog, table) is guarded
    assert [failure.error.code for failure in failures] == (["diverged"] if guarded else [])


@BOTH
def test_the_digest_keeps_what_was_damaged_in_the_database_out_of_the_log(
    catalog: Catalog, tmp_path: Path, guarded: bool
) -> None:
    table = make_table(catalog, tmp_path)
    committed = hashlib.sha256(table.commit_file(0)).hexdigest()
    [(data,)] = execute(catalog, "SELECT data FROM dl_commit_chunks")
    damaged = bytes(data).replace(b'"id\\"', b'"ie\\"')
    assert damaged != data
    execute(catalog, "UPDATE dl_commit_chunks SET data = :data", data=damaged)
    with mirror_of(catalog, verify="basic" if guarded else "off") as engine:
        failures = engine.run(once=True).failures
    found = [hashlib.sha256(each).hexdigest() for each in published_files(table).values()]
    assert all(each == committed for each in found) is guarded
    assert [failure.error.code for failure in failures] == (["internal"] if guarded else [])


@BOTH
def test_asking_for_the_lease_keeps_who_lost_it_from_writing(
    catalog: Catalog, tmp_path: Path, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog, tmp_path)
    if not guarded:
        monkeypatch.setattr(LeaseGuard, "_is_held", lambda *_, **__: True)

    def taken_over(unit: Unit) -> None:
        execute(catalog, "UPDATE dl_leases SET owner = 'another', epoch = epoch + 1")

    inner = InProcessRunner(catalog.database, local_settings())
    with mirror_of(catalog, runner=ScriptedRunner(inner, taken_over)) as engine:
        engine.run(once=True)
    inner.close()
    assert (not published_files(table)) is guarded
    assert execute(catalog, "SELECT state FROM dl_mirror_status") == [("PENDING",)], "the other one records it"


@BOTH
def test_the_breaker_leaves_a_store_alone_that_is_down(catalog: Catalog, tmp_path: Path, guarded: bool) -> None:
    tables = [make_table(catalog, tmp_path, f"t{number:02}") for number in range(20)]
    asked: list[str] = []

    def down(operation: str, key: str) -> None:
        asked.append(key)
        raise Unavailable("the store is down")

    settings = {"threads": 1, "retry_base": 3600.0, "retry_max": 3600.0}
    breaker = {"breaker_enabled": guarded, "breaker_pause": 3600.0}
    with (
        runner(catalog, lambda store: watched(store, before=down)[0], **settings) as troubled,
        mirror_of(catalog, runner=troubled, **settings, **breaker) as engine,
    ):
        engine.run(once=True)
    assert (len(asked) < len(tables)) is guarded
    assert not any(log_of(table).exists() for table in tables)
