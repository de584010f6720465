"""Only errors of the one tree leave the package, whatever breaks below it and whatever it is handed.

Commands translate no exception themselves: the default suite types all of them over one breakage of each kind, and
calls the methods of Python over every one.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from psycopg import sql
from sqlalchemy.engine import make_url

from deltamirror import Catalog, errors
from deltamirror.cli import cli
from deltamirror.config import Secret, Settings, StorageSettings
from deltamirror.delta.definition import TableDefinition
from deltamirror.delta.schema import from_ddl
from deltamirror.errors import DeltaMirrorError, Internal
from tests.support.databases.emptied import lake_url_of
from tests.support.faults.answering import Answer, answering
from tests.support.interfaces.command_lines import command_lines
from tests.support.interfaces.entries import CASES, TABLE, Hands, called, missing_cases
from tests.support.lakes.lake import add, settings_for
from tests.support.mirrors.local import local_settings
from tests.support.servers.postgres import PostgresServer

pytestmark = [pytest.mark.requirement("R82"), pytest.mark.requirement("R86")]

GARBAGE = b"\x00\xffno database, no commit\n" * 500
POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
TEXTS = {
    "empty": "",
    "blank": " \t",
    "null character": "a\x00b",
    "half a character": "a\ud800",
    "long": "x" * 100_000,
    "path": "../../x",
    "quotes": "'; DROP TABLE dl_tables; --\"`",
    "JSON": '{"a":',
    "address": "postgresql://[::1/x?y",
}
NUMBERS = {"negative": -1, "one above": 1, "64 bits": 2**63, "huge": 10**40}
_STATUSES = {getattr(errors, name).exit_status for name in errors.__all__} | {0, 2, 64}
STABLE = _STATUSES - {Internal.exit_status}


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locations that are relative, upwards too, stay within the folder of the test."""
    folder = tmp_path / "some" / "where"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)


def settings_of(url: str, storage: StorageSettings | None = None) -> Settings:
    quick = replace(settings_for(url), storage=storage or StorageSettings())
    return local_settings(replace(quick, catalog=replace(quick.catalog, busy_timeout=0.3)), attempts=1)


def foreign(hands: Hands, *, text: str = TABLE, number: int = 0) -> dict[str, str]:
    """The entries from which something came that is not ours, or that calls itself a defect; with what it was."""
    found = {}
    for name, case in CASES.items():
        try:
            called(case, hands, text=text, number=number)
        except DeltaMirrorError as error:
            if type(error) is Internal:
                found[name] = repr(error)
        except Exception as error:  # noqa: BLE001 - the very thing that is looked for
            found[name] = f"{type(error).__module__}.{type(error).__name__}: {error}"[:300]
    return found


def fails(hands: Hands, name: str) -> bool:
    """Whether an entry fails at all."""
    try:
        called(CASES[name], hands)
    except DeltaMirrorError:
        return True
    return False


def typed(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The commands that ended with a traceback, as a defect, or with a status that nobody documented."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DELTAMIRROR_WRITER__RETRIES", "0")
    monkeypatch.setenv("DELTAMIRROR_CATALOG__BUSY_TIMEOUT", "0.3")
    monkeypatch.setenv("DELTAMIRROR_MIRROR__RUNNER", "local")
    found = {}
    # Where there was a catalog, `init` makes an empty one: it comes last.
    for line in sorted(command_lines(without=("demo",)), key=lambda line: line.path == "init"):
        words = [*line.words, "--catalog", url, "--json"]
        result = CliRunner().invoke(cli, words, input=line.stdin, prog_name="deltamirror")
        said = result.stdout + result.stderr
        if result.exit_code not in STABLE or "Traceback" in said or not _is_json(result.stdout or result.stderr):
            found[line.path] = f"{result.exit_code}: {said[-600:]}"
    return found


def _is_json(said: str) -> bool:
    try:
        json.loads(said.splitlines()[-1] if said.strip() else "x")
    except ValueError:
        return _is_document(said)
    return True


def _is_document(said: str) -> bool:
    try:
        json.loads(said)
    except ValueError:
        return False
    return True


def made(url: str, folder: Path, location: str | None = None) -> None:
    """The table, with two versions, one of them published where that is possible."""
    with Catalog(settings=settings_of(url)) as catalog:
        place = location or f"file://{folder}/lake/{TABLE}"
        catalog.writer.create_table(TableDefinition(name=TABLE, location=place, schema=from_ddl("id long")))
        if location is None:
            catalog.table(TABLE).append([add("one.parquet")])


def test_every_public_entry_has_a_case() -> None:
    assert missing_cases() == set()


def overwritten(file: Path) -> None:
    file.write_bytes(GARBAGE)


def replaced(file: Path) -> None:
    gone(file)
    file.write_bytes(GARBAGE)


def emptied(file: Path) -> None:
    gone(file)
    file.write_bytes(b"")


def gone(file: Path) -> None:
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()


def a_folder(file: Path) -> None:
    gone(file)
    file.mkdir()


BREAKS: list[Callable[[Path], None]] = [overwritten, replaced, emptied, gone, a_folder]


# DuckDB does not look at its file again while it has it open.
@pytest.mark.parametrize(
    "broken",
    [pytest.param(each, marks=[] if each is overwritten else pytest.mark.default_on("sqlite")) for each in BREAKS],
    ids=lambda each: each.__name__,
)
@pytest.mark.parametrize(("engine", "opened"), [("sqlite", True), ("sqlite", False), ("duckdb", False)])
def test_a_file_that_is_no_catalog_any_more(
    engine: str, opened: bool, broken: Callable[[Path], None], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = lake_url_of(engine, request, tmp_path)
    made(url, tmp_path)
    with Hands(settings_of(url), tmp_path) as hands:
        if not opened:
            hands.catalog.database.close()
            hands.engine.database.close()
        broken(Path(url.partition(":///")[2]))
        assert opened or fails(hands, "Table.info")
        assert foreign(hands) == {}


@pytest.mark.default_when(parameters=lambda those: those["broken"] is overwritten)
@pytest.mark.parametrize("broken", BREAKS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_commands_on_a_file_that_is_no_catalog_any_more(
    engine: str,
    broken: Callable[[Path], None],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = lake_url_of(engine, request, tmp_path)
    made(url, tmp_path)
    broken(Path(url.partition(":///")[2]))
    assert typed(url, tmp_path, monkeypatch) == {}


@pytest.mark.postgres
def test_a_server_that_is_gone(
    postgres_server: PostgresServer,
    shared_postgres_url: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = lake_url_of("postgresql", request, tmp_path)
    made(url, tmp_path)
    with Hands(settings_of(url), tmp_path) as hands:
        postgres_server.crash()
        try:
            assert foreign(hands) == {}
            assert fails(hands, "Table.append")
            assert typed(url, tmp_path, monkeypatch) == {}
        finally:
            postgres_server.ensure_running()
        hands.table.append([add("after.parquet")])


@pytest.mark.postgres
def test_a_server_that_forbids(
    postgres_server: PostgresServer,
    postgres_url: str,
    postgres_database: str,
    tmp_path: Path,
) -> None:
    with Catalog(postgres_url) as catalog:
        catalog.init()
    made(postgres_url, tmp_path)
    role = f"guest_of_{postgres_database}"
    with psycopg.connect(postgres_server.url(postgres_database), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(sql.Identifier(role)))
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(sql.Identifier(role)))
        url = make_url(postgres_url).set(username=role, password="x").render_as_string(hide_password=False)
        with Hands(settings_of(url), tmp_path) as hands:
            assert foreign(hands) == {}
            connection.execute(
                sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}").format(sql.Identifier(role))
            )
            assert foreign(hands) == {}
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


DENIED = Answer(403, "AccessDenied")
ANSWERS = [DENIED, Answer(500, "InternalError"), Answer(200, "Nonsense")]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_store_that_refuses_or_answers_nonsense(sqlite_lake: str, tmp_path: Path, answer: Answer) -> None:
    made(sqlite_lake, tmp_path, f"s3://bucket/{TABLE}")
    with answering(answer) as asked:
        storage = StorageSettings(
            endpoint=asked.endpoint,
            allow_http=True,
            access_key_id="me",
            secret_access_key=Secret("x"),
            retries=0,
            timeout=2.0,
        )
        with Hands(settings_of(sqlite_lake, storage), tmp_path) as hands:
            assert foreign(hands) == {}


@pytest.mark.default_when(parameters=lambda those: those["answer"] is DENIED)
@pytest.mark.parametrize("answer", ANSWERS)
def test_commands_at_a_store_that_refuses_or_answers_nonsense(
    sqlite_lake: str, tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(sqlite_lake, tmp_path, f"s3://bucket/{TABLE}")
    with answering(answer) as asked:
        monkeypatch.setenv("DELTAMIRROR_STORAGE__ENDPOINT", asked.endpoint)
        monkeypatch.setenv("DELTAMIRROR_STORAGE__ALLOW_HTTP", "true")
        monkeypatch.setenv("DELTAMIRROR_STORAGE__RETRIES", "0")
        monkeypatch.setenv("DELTAMIRROR_STORAGE__ACCESS_KEY_ID", "me")
        monkeypatch.setenv("DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY", "x")
        assert typed(sqlite_lake, tmp_path, monkeypatch) == {}


def a_file_in_its_place(lake: Path) -> None:
    shutil.rmtree(lake, ignore_errors=True)
    lake.parent.mkdir(exist_ok=True, parents=True)
    lake.write_bytes(GARBAGE)


def garbage_commits(lake: Path) -> None:
    for version in range(5):
        (lake / "_delta_log").mkdir(parents=True, exist_ok=True)
        (lake / "_delta_log" / f"{version:020}.json").write_bytes(GARBAGE)


def garbage_all_over(lake: Path) -> None:
    garbage_commits(lake)
    for name in ("_last_checkpoint", f"{1:020}.checkpoint.parquet", f"{0:020}.crc", f"{1:020}.crc", "x.json"):
        (lake / "_delta_log" / name).write_bytes(GARBAGE)


def folders_for_commits(lake: Path) -> None:
    for name in (f"{0:020}.json", f"{1:020}.json", "_last_checkpoint", f"{1:020}.checkpoint.parquet"):
        (lake / "_delta_log" / name).mkdir(parents=True)


def a_log_that_is_a_file(lake: Path) -> None:
    lake.mkdir(parents=True)
    (lake / "_delta_log").write_bytes(GARBAGE)


def a_link_to_itself(lake: Path) -> None:
    lake.mkdir(parents=True)
    (lake / "_delta_log").symlink_to(lake / "_delta_log")


LOGS: list[Callable[[Path], None]] = [
    a_file_in_its_place,
    garbage_commits,
    garbage_all_over,
    folders_for_commits,
    a_log_that_is_a_file,
    a_link_to_itself,
]


@pytest.mark.parametrize("broken", LOGS, ids=lambda each: each.__name__)
def test_a_log_that_is_none(sqlite_lake: str, tmp_path: Path, broken: Callable[[Path], None]) -> None:
    made(sqlite_lake, tmp_path)
    with Hands(settings_of(sqlite_lake), tmp_path) as hands:
        broken(tmp_path / "lake" / TABLE)
        assert foreign(hands) == {}


@pytest.mark.default_when(parameters=lambda those: those["broken"] is garbage_all_over)
@pytest.mark.parametrize("broken", LOGS, ids=lambda each: each.__name__)
def test_commands_on_a_log_that_is_none(
    sqlite_lake: str, tmp_path: Path, broken: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(sqlite_lake, tmp_path)
    broken(tmp_path / "lake" / TABLE)
    assert typed(sqlite_lake, tmp_path, monkeypatch) == {}


@pytest.fixture(params=["sqlite", "duckdb", POSTGRES])
def hands(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hands]:
    url = lake_url_of(request.param, request, tmp_path)
    made(url, tmp_path)
    with Hands(settings_of(url), tmp_path) as found:
        yield found


AMISS = {
    "duckdb": {"half a character", "huge"},
    "postgresql": {"null character", "half a character", "negative", "huge"},
}
"""What a database may take amiss; the default suite has the rest on SQLite."""

may_be_taken_amiss = pytest.mark.default_when(
    parameters=lambda those: those["hands"] == "sqlite" or those["name"] in AMISS[those["hands"]]
)


@may_be_taken_amiss
@pytest.mark.parametrize("name", TEXTS)
def test_text_that_makes_no_sense(hands: Hands, name: str) -> None:
    assert foreign(hands, text=TEXTS[name]) == {}


@may_be_taken_amiss
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_makes_no_sense(hands: Hands, name: str) -> None:
    assert foreign(hands, number=NUMBERS[name]) == {}
