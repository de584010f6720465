"""A ``deltamirror mirror --follow`` takes a changed settings file, refuses a bad one, and loses nothing of its work."""

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from deltamirror import Catalog
from tests.support.interfaces.commands import COMMAND, Service, environment, following, running
from tests.support.interfaces.prompt import Prompt
from tests.support.lakes.lake import add
from tests.support.mirrors.local import committed_files, make_table, published_files

TABLES = [f"t{number}" for number in range(5)]
ALWAYS = "log.level = 'info'\n[mirror]\nrunner = 'local'\npoll = 0.05\n"


def awaited(service: Service, said: str) -> str:
    """The next line of the log that says this."""
    return next(line for line in iter(service.line, "") if said in line)


@pytest.fixture
def plain(prompt: Prompt) -> Path:
    prompt("init")
    prompt("table", "create", "orders", "--location", "lake/orders", "--schema", "id long")
    return prompt.folder


def backlog_of(catalog: Catalog, folder: Path, transactions: int) -> None:
    for name in TABLES:
        make_table(catalog, folder, name)
    for number in range(transactions):
        with catalog.transaction() as transaction:
            for name in TABLES:
                transaction.append(name, [add(f"{number}.parquet")])


@pytest.mark.requirement("R79")
def test_settings_are_edited_while_200_versions_are_in_flight_and_nothing_is_lost(plain: Path) -> None:
    file = plain / "deltamirror.toml"
    file.write_text(f"{ALWAYS}batch_versions = 1\nbatch_tables = 1\n[config]\nreload = 0.1\n")
    with Catalog(f"sqlite:///{plain / 'deltamirror.db'}") as catalog:
        backlog_of(catalog, plain, transactions=39)
        with following(folder=plain) as service:
            file.write_text(f"{ALWAYS}batch_versions = 2\nbatch_tables = 1\n[config]\nreload = 0\n")
            found = awaited(service, "are in force")  # nobody had to say so
            assert found.endswith("changed: config.reload, mirror.batch_versions\n")
            file.write_text(f"{ALWAYS}batch_versions = 'many'\nenabled = false\n")
            service.process.send_signal(signal.SIGHUP)
            refused = awaited(service, "the changed settings are refused, the values in force stay")
            assert "deltamirror.toml:5: `mirror.batch_versions`: expected whole number, found 'many'" in refused
            file.write_text(f"{ALWAYS}batch_versions = 50\nthreads = 2\n[config]\nreload = 0\n")
            service.process.send_signal(signal.SIGHUP)
            found = awaited(service, "are in force")
            assert found.endswith("changed: mirror.batch_versions, mirror.batch_tables, mirror.threads\n")
            catalog.wait_until_published(dict.fromkeys(TABLES, 39), seconds=600)
            assert service.process.poll() is None
            status, said, _ = service.stop()
        tables = [catalog.table(name) for name in TABLES]
        assert [published_files(table) == committed_files(table) for table in tables] == [True] * 5
    assert (status, "Published 201 versions of 6 tables" in said) == (0, True)


@pytest.mark.requirement("R33")
@pytest.mark.requirement("R116")
def test_a_service_is_switched_off_and_on_and_says_when_a_setting_needs_a_restart(plain: Path) -> None:
    file = plain / "deltamirror.toml"
    file.write_text(f"{ALWAYS}enabled = false\n[config]\nreload = 0\n")
    with following(folder=plain) as service, Catalog(f"sqlite:///{plain / 'deltamirror.db'}") as catalog:
        assert not (plain / "lake").exists()
        file.write_text(f"{ALWAYS}[catalog]\nurl = 'sqlite:///other.db'\n[config]\nreload = 0\n")
        service.process.send_signal(signal.SIGHUP)
        assert "changed: mirror.enabled" in awaited(service, "are in force")
        assert "catalog.url" in awaited(service, "takes effect at the next start")
        catalog.wait_until_published({"orders": 0}, seconds=600)
        assert service.stop()[0] == 0


@pytest.mark.requirement("R79")
@pytest.mark.parametrize(
    ("command", "started", "setting"),
    [
        (("reconcile", "--follow"), "Comparing the logs", "reconcile.interval"),
        (("serve", "--listen", "127.0.0.1:0"), "The status page", "serve.refresh"),
    ],
)
def test_a_reconciler_and_a_status_page_take_changed_settings(
    plain: Path, command: tuple[str, ...], started: str, setting: str
) -> None:
    file = plain / "deltamirror.toml"
    file.write_text(f"log.level = 'info'\nconfig.reload = 0\nmirror.runner = 'local'\n{setting} = 600\n")
    with running(*command, folder=plain) as service:
        assert service.started.startswith(started)
        file.write_text(f"log.level = 'info'\nconfig.reload = 0\nmirror.runner = 'local'\n{setting} = 700\n")
        service.process.send_signal(signal.SIGHUP)
        assert awaited(service, "are in force").endswith(f"changed: {setting}\n")
        assert service.stop()[0] == 0


def test_a_service_ends_in_order_when_its_terminal_is_closed(plain: Path) -> None:
    (plain / "deltamirror.toml").write_text(ALWAYS)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["/usr/bin/setsid", "--ctty", *COMMAND, "mirror", "--follow"],
        cwd=plain,
        env=environment(),
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(theirs)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Mirroring")
        os.close(ours)
        assert process.wait(600) == 0
