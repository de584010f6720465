"""One process at a time has a DuckDB file open: commands and services wait for each other, for a while."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.errors import Late
from deltamirror.txnlog.queue.pause import is_paused
from tests.support.interfaces.commands import COMMAND, environment, following, typed
from tests.support.interfaces.prompt import Prompt
from tests.support.lakes.lake import add as added
from tests.support.lakes.lake import settings_for

URL = "duckdb:///lake.duckdb"
SETTINGS = {
    "DELTAMIRROR_CATALOG__URL": URL,
    "DELTAMIRROR_MIRROR__RUNNER": "local",
    "DELTAMIRROR_MIRROR__POLL": "0.1",
}
HOLDER = "import duckdb, sys; held = duckdb.connect('lake.duckdb'); print('open', flush=True); sys.stdin.read()"
WRITER = """
import sys
from deltamirror import Add, Catalog
with Catalog("duckdb:///lake.duckdb") as catalog:
    for number in range(3):
        file = Add(path=f"{sys.argv[1]}-{number}", partition_values={}, size=1, modification_time=1, data_change=True)
        catalog.table("orders").append([file])
        catalog.database.let_go()
"""

PAUSER = """
import logging
from deltamirror import Catalog
from deltamirror.txnlog.queue.pause import pause_all
logging.basicConfig(level="INFO")
with Catalog("duckdb:///lake.duckdb") as catalog:
    pause_all(catalog.database)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a catalog that has the table ``orders``."""
    with Catalog(f"duckdb:///{tmp_path / 'lake.duckdb'}") as catalog:
        catalog.init()
        catalog.create_table("orders", location=str(tmp_path / "lake/orders"), schema="id long")
    return tmp_path


@contextmanager
def held(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the file open until its input ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER], cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.communicate(timeout=60)


def line(path: str) -> str:
    action = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return json.dumps({"add": action})


def test_a_commit_that_waits_lets_the_service_publish(folder: Path) -> None:
    with following(folder=folder, settings=SETTINGS) as service:
        command = ["commit", "orders", "-", "--wait", "120", "--json"]
        done = typed(*command, folder=folder, stdin=line("1.parquet"), settings=SETTINGS)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["version"] == 1
        assert (folder / f"lake/orders/_delta_log/{1:020}.json").exists()
        assert service.stop()[0] == 0


def test_a_command_waits_until_the_file_is_free(folder: Path) -> None:
    settings = {**SETTINGS, "DELTAMIRROR_LOG__LEVEL": "info"}
    pipe = subprocess.PIPE
    with Catalog(f"duckdb:///{folder / 'lake.duckdb'}") as catalog:
        catalog.check()
        with subprocess.Popen(
            [*COMMAND, "status", "--json"], cwd=folder, env=environment(settings), stdout=pipe, stderr=pipe, text=True
        ) as command:
            assert command.stderr is not None
            told = command.stderr.readline()
            catalog.close()
            answer, more = command.communicate(timeout=60)
    assert f"PID {os.getpid()}) has open" in told
    assert (command.returncode, more) == (0, "")
    assert json.loads(answer)["tables"][0]["name"] == "orders"


def test_a_command_that_waits_in_vain_names_who_has_the_file_open(folder: Path, prompt: Prompt) -> None:
    settings = {**SETTINGS, "DELTAMIRROR_CATALOG__BUSY_TIMEOUT": "0.2"}
    with held(folder) as holder:
        for command in (["status"], ["commit", "orders", "-"], ["init"]):
            error = prompt.error(*command, stdin=line("a.parquet"), settings=settings, exits=20)
            assert error["code"] == "unavailable"
            assert f"PID {holder.pid}), also after 0.2 s" in error["message"]


def test_waiting_for_a_version_ends_in_time_though_another_process_keeps_the_file(folder: Path) -> None:
    settings = settings_for(f"duckdb:///{folder / 'lake.duckdb'}", busy_timeout=3600.0)
    with Catalog(settings=settings) as catalog:
        committed = catalog.table("orders").append([added("a")])
        assert catalog.database.let_go()
        with (
            held(folder) as holder,
            pytest.raises(Late, match=f"not published within 0.1 s.*PID {holder.pid}") as caught,
        ):
            catalog.wait_until_published(committed.versions, seconds=0.1)
    assert (caught.value.table, caught.value.version) == ("orders", 1)


def test_writers_in_several_processes_take_turns(folder: Path) -> None:
    pipe = subprocess.PIPE
    command, env = [sys.executable, "-c", WRITER], environment()
    writers = [
        subprocess.Popen([*command, name], cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True) for name in "ab"
    ]
    answers = [(*writer.communicate(timeout=300), writer.returncode) for writer in writers]
    assert answers == [("", "", 0)] * 2
    with Catalog(f"duckdb:///{folder / 'lake.duckdb'}") as catalog:
        assert catalog.table("orders").info().head == 6


def test_who_waits_for_the_file_keeps_no_writer_from_its_turn(folder: Path) -> None:
    settings = settings_for(f"duckdb:///{folder / 'lake.duckdb'}", busy_timeout=5.0)
    command, env = [sys.executable, "-c", PAUSER], environment()
    with Catalog(settings=settings) as catalog:
        table = catalog.table("orders")
        with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as pauser:
            assert pauser.stderr is not None
            assert "waiting for" in pauser.stderr.readline()
            assert table.append([added("a")]).versions == {"orders": 1}
            assert catalog.database.let_go()
            assert pauser.communicate(timeout=60)[1] == ""
        assert pauser.returncode == 0
        with catalog.database.read() as connection:
            assert is_paused(connection)
