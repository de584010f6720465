"""Passwords, keys and tokens reach no output, no log line, no error and no row, whatever goes right or wrong.

Every secret has the word ``canary`` in it, and nothing else has: where it sings, a secret got out.

This is G10 of the README.
"""

import os
import pickle
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from sqlalchemy import select
from sqlalchemy.engine import make_url

from deltamirror import Catalog, MirrorEngine
from deltamirror.cli import cli
from deltamirror.config import Settings, StorageSettings, keys, load
from deltamirror.delta.definition import TableDefinition
from deltamirror.delta.schema import from_ddl
from deltamirror.errors import DeltaMirrorError, InvalidLocation, InvalidSettings
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import canonical_location
from deltamirror.storage.open import store_at
from deltamirror.txnlog.database.schema import METADATA
from tests.support.faults.answering import Answer, Asked, answering
from tests.support.interfaces.command_lines import TABLE, CommandLine, command_lines
from tests.support.servers.postgres import PostgresServer

pytestmark = [pytest.mark.requirement("R46"), pytest.mark.requirement("R86")]

WORD = "canary"
PASSWORD = f"{WORD}-of-the-database"
NOWHERE = "127.0.0.1:1"

# Settings that are shown, but may have a secret within.
CARRIERS = {
    "catalog.url": f"postgresql://me:{WORD}-a@{NOWHERE}/lake?sslpassword={WORD}-b",
    "spark.master": f"sc://{NOWHERE}/;token={WORD}-c",
    "storage.endpoint": f"https://me:{WORD}-d@{NOWHERE}",
}
# Settings that are shown as they are: names and places.
SHOWN = {
    "storage.access_key_id",
    "storage.profile",
    "storage.region",
    "serve.create_below",
    "serve.hosts",
    "serve.import_below",
    "serve.listen",
    "serve.tls_cert",
    "serve.tls_key",
    "storage.ca_file",
    "storage.azure_account",
    "storage.google_credentials",
}
SECRETS = {key.path: f"{WORD}-of-{key.path.replace('.', '-')}" for key in keys(Settings) if key.secret}
# As S3 does with a token or a signature that it does not take.
REPEATING = Answer(
    403,
    f"InvalidToken</Code><Token-0>{WORD}-of-storage-session_token</Token-0><StringToSign>{WORD}</StringToSign>"
    f"<Message>denied {WORD}-of-storage-session_token</Message><Code>",
)


def sings(*said: object) -> bool:
    return any(WORD in (each.decode("latin-1") if isinstance(each, bytes) else str(each)).lower() for each in said)


def told(error: BaseException) -> list[object]:
    """All that an error says of itself."""
    chain = "".join(traceback.format_exception(error))
    own = [error.as_json(), pickle.dumps(error)] if isinstance(error, DeltaMirrorError) else []
    return [str(error), repr(error), chain, *own]


class Prompt:
    """Types commands with secrets in all settings; whatever they say, no canary sings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        self.set({"log.level": "debug", "log.format": "json", "storage.access_key_id": "me"})
        self.set({"writer.retries": "0", "mirror.runner": "local", "storage.retries": "0", "storage.timeout": "2"})
        self.set(SECRETS)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{WORD}-of-aws")
        monkeypatch.setenv("PGPASSWORD", f"{WORD}-of-libpq")

    def set(self, values: Mapping[str, str]) -> None:
        for path, value in values.items():
            section, name = path.split(".")
            self._monkeypatch.setenv(f"DELTAMIRROR_{section}__{name}".upper(), value)

    def settings(self) -> Settings:
        return load(environment=os.environ).settings

    def __call__(self, *words: str, stdin: str = "") -> int:
        ends = set()
        for form in ([], ["--json"]):
            result = CliRunner().invoke(cli, [*words, "--debug", *form], input=stdin, prog_name="deltamirror")
            assert not sings(result.stdout, result.stderr), f"{words}: {result.output}"
            ends.add(result.exit_code)
        return max(ends)

    def every(self, *, folder: Path | None = None, without: tuple[str, ...] = ()) -> dict[CommandLine, int]:
        """All commands one after the other, and how they ended."""
        return {each: self(*each.words, stdin=each.stdin) for each in command_lines(folder=folder, without=without)}


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Prompt:
    return Prompt(monkeypatch, tmp_path)


@pytest.fixture
def secret_url(postgres_server: PostgresServer, postgres_database: str) -> str:
    """The address of an empty database, of somebody whose password is a secret."""
    role = f"owner_of_{postgres_database}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        names = sql.Identifier(postgres_database), sql.Identifier(role)
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(names[1], PASSWORD))
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(*names))
    url = make_url(postgres_server.url(postgres_database)).set(username=role, password=PASSWORD)
    return url.render_as_string(hide_password=False)


def rows_of(url: str) -> list[object]:
    """Every row of every table of a catalog."""
    with Catalog(url) as catalog, catalog.database.read() as connection:
        return [tuple(row) for table in METADATA.sorted_tables for row in connection.execute(select(table))]


def files_below(folder: Path) -> list[object]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def test_every_setting_that_is_text_is_known_to_have_a_secret_or_none() -> None:
    texts = {key.path for key in keys(Settings) if key.kind == "text"}
    assert texts == {*SECRETS, *CARRIERS, *SHOWN}


def test_the_canaries_are_in_force(prompt: Prompt) -> None:
    storage = prompt.settings().storage
    assert {getattr(storage, path.partition(".")[2]).reveal() for path in SECRETS} == set(SECRETS.values())


@pytest.mark.postgres
def test_every_command_that_succeeds(prompt: Prompt, secret_url: str, tmp_path: Path) -> None:
    prompt.set({"catalog.url": secret_url})
    # Typed a second time, as JSON, what was made by then is there, or gone.
    twice = {"table create", "rebuild", "import", "table rename", "table drop", "token issue", "token revoke"}
    ends = prompt.every()
    assert {each.path for each, status in ends.items() if status} <= twice
    rows = rows_of(secret_url)
    assert rows
    assert not sings(*rows, *files_below(tmp_path))


def unreachable(url: str) -> str:
    return make_url(url).set(port=1).render_as_string(hide_password=False)


def another_password(url: str) -> str:
    return make_url(url).set(password=f"{WORD}-that-is-wrong@x:y/z").render_as_string(hide_password=False)


def another_database(url: str) -> str:
    return make_url(url).set(database="nobody").render_as_string(hide_password=False)


def another_name(url: str) -> str:
    return make_url(url).set(host=f"{'x' * 70}.invalid").render_as_string(hide_password=False)


def no_option(url: str) -> str:
    return f"{url}?no_such_password={WORD}"


BROKEN = [unreachable, another_password, another_database, another_name, no_option]


@pytest.mark.postgres
@pytest.mark.default_when(parameters=lambda those: those["broken"] is another_password)
@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_every_command_whose_database_refuses(prompt: Prompt, secret_url: str, broken: Any) -> None:
    prompt.set({"catalog.url": broken(secret_url)})
    ends = prompt.every(without=("demo",))
    assert {each.path for each, status in ends.items() if not status} == {"config show", "config check"}


@pytest.mark.postgres
@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_however_a_database_refuses(prompt: Prompt, secret_url: str, broken: Any) -> None:
    prompt.set({"catalog.url": broken(secret_url)})
    assert prompt("table", "list") != 0
    with pytest.raises(DeltaMirrorError) as caught:
        open_and_use(prompt.settings())
    assert not sings(*told(caught.value))


def open_and_use(settings: Settings) -> None:
    with Catalog(settings=settings) as catalog:
        assert not sings(repr(catalog), repr(catalog.database))
        catalog.tables()


def remote_table(url: str, name: str, location: str) -> None:
    """A table at a store that need not be there, with something to publish."""
    with Catalog(url) as catalog:
        catalog.init()
        catalog.writer.create_table(TableDefinition(name=name, location=location, schema=from_ddl("id long")))


def typed_at_a_broken_store(prompt: Prompt, url: str, location: str) -> None:
    """All commands, the table of which lies at a store that refuses; then all rows, which tell of it."""
    remote_table(url, TABLE, location)
    prompt.set({"catalog.url": url, "mirror.attempts": "1"})
    without = ("demo", "init", "table create", "table drop", "import")
    ends = prompt.every(without=without)
    failed = {each.path for each, status in ends.items() if status}
    assert {"mirror", "checkpoint"} <= failed
    assert prompt("import", location, "--name", "other", "--runner", "local") != 0
    assert prompt("table", "create", "other", "--location", f"{location}2", "--schema", "id long") != 0
    settings = prompt.settings()
    with MirrorEngine(settings=settings) as engine:
        failures = engine.run(once=True).failures
        assert failures
        assert not sings(*failures, *(pickle.dumps(each) for each in failures))
        assert not sings(*(part for each in failures for part in told(each.error)))
    assert not sings(pickle.dumps(StoreAddress.of(location, settings.storage)), repr(settings.storage))
    with pytest.raises(DeltaMirrorError) as caught:
        store_at(location, settings.storage).read("k")
    assert not sings(*told(caught.value))
    rows = rows_of(url)
    assert any("cannot" in str(row) for row in rows), "nothing was recorded"
    assert not sings(*rows)


@pytest.fixture
def repeating() -> Iterator[Asked]:
    with answering(REPEATING) as asked:
        yield asked


def test_every_command_whose_store_refuses_and_repeats_the_token(
    prompt: Prompt, sqlite_lake: str, repeating: Asked
) -> None:
    prompt.set({"storage.endpoint": repeating.endpoint, "storage.allow_http": "true"})
    typed_at_a_broken_store(prompt, sqlite_lake, "s3://bucket/t")
    assert sings(*repeating.headers), "the token was never sent"


@pytest.mark.parametrize("location", [pytest.param("s3://bucket/t", marks=pytest.mark.elsewhere), "az://container/t"])
def test_every_command_whose_store_is_down(prompt: Prompt, sqlite_lake: str, location: str) -> None:
    prompt.set({"storage.endpoint": f"http://{NOWHERE}/account", "storage.allow_http": "true"})
    prompt.set({"storage.azure_account": "account"})
    typed_at_a_broken_store(prompt, sqlite_lake, location)


def test_every_command_whose_log_is_somebody_elses(prompt: Prompt, sqlite_lake: str, tmp_path: Path) -> None:
    prompt.set({"catalog.url": sqlite_lake})
    assert prompt("table", "create", TABLE, "--location", "lake/t", "--schema", "id long")
    log = tmp_path / "lake" / TABLE / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text('{"commitInfo":{}}\n')
    ends = prompt.every(without=("demo", "init", "table create", "table drop"))
    assert 2 in ends.values()
    assert not sings(*rows_of(sqlite_lake))


WRONG_FILES = {
    "unknown": '[storage]\nsecret_acces_key = "{}"\n',
    "a list": '[storage]\nsecret_access_key = ["{}"]\n',
    "a number": "[storage]\nazure_key = 7\nsession_token = {{ a = '{}' }}\n",
    "a section": 'storage = "{}"\n',
    "no TOML": '[storage]\nsecret_access_key = "{}\n',
    "no quotes": "[storage]\nsecret_access_key = {}\n",
    "no address": '[catalog]\nurl = "postgres//me:{}@db"\n',
    "with blanks": '[catalog]\nurl = "mysql://me:a {}@db/x"\n',
}


@pytest.mark.parametrize("text", WRONG_FILES.values(), ids=WRONG_FILES)
def test_settings_that_are_wrong(prompt: Prompt, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in keys(Settings):
        monkeypatch.delenv(key.variable, raising=False)
    (tmp_path / "deltamirror.toml").write_text(text.format(WORD))
    for words in (("config", "check"), ("config", "show"), ("table", "list")):
        assert prompt(*words) == InvalidSettings.exit_status


@pytest.mark.parametrize("path", CARRIERS)
def test_settings_with_a_secret_within_are_shown_without_it(prompt: Prompt, path: str) -> None:
    prompt.set({path: CARRIERS[path]})
    prompt("config", "show")
    prompt("config", "check")
    assert prompt("mirror", "--once", "--runner", "local") != 0


def test_an_endpoint_with_a_password_is_refused(prompt: Prompt) -> None:
    prompt.set({"storage.endpoint": CARRIERS["storage.endpoint"]})
    assert prompt("config", "check") == InvalidSettings.exit_status
    storage = StorageSettings(endpoint=CARRIERS["storage.endpoint"])
    with pytest.raises(InvalidSettings) as caught:
        StoreAddress.of("s3://bucket/t", storage)
    assert not sings(*told(caught.value))


LOCATIONS = [
    f"s3://me:{WORD}@bucket/t",
    f"s3a://{WORD}@bucket/t",
    f"s3a://me:a/{WORD}/b@bucket/t",
    f"gs://me:{WORD}@bucket/t",
    f"az://me:{WORD}@container/t",
    f"abfss://container:{WORD}@account.dfs.core.windows.net/t",
    f"https://account.blob.core.windows.net/t?sig={WORD}&se=1",
    f"s3://bucket/t?X-Amz-Security-Token={WORD}&X-Amz-Signature={WORD}",
    f"file://me:{WORD}@host/t",
]


@pytest.mark.parametrize("location", LOCATIONS)
def test_a_location_with_a_secret_is_refused_without_repeating_it(
    prompt: Prompt, sqlite_lake: str, location: str
) -> None:
    with pytest.raises(InvalidLocation) as caught:
        canonical_location(location)
    assert not sings(*told(caught.value))
    prompt.set({"catalog.url": sqlite_lake})
    refused = InvalidLocation.exit_status
    assert prompt("table", "create", TABLE, "--location", location, "--schema", "id long") == refused
    assert prompt("import", location, "--name", TABLE, "--runner", "local") == refused
    assert prompt("diff", location, location) == refused
    assert not sings(*rows_of(sqlite_lake))
