"""What is no table, a damaged one, or not ours to read: one clear error each, and the catalog is as it was."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror.config import Secret, StorageSettings
from deltamirror.delta import lines, names
from deltamirror.delta.actions import Protocol
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.imports.foreign_logs import HISTORY, parquet, put_classic, put_log, state_after
from tests.support.interfaces.commands import can_lose_power, typed_without_power, variables
from tests.support.interfaces.prompt import Prompt
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import commit, file, first_commit
from tests.support.suite.skips import missing_kernel_feature

SECRET = "hunter2-is-not-the-key"
METADATA = next(line for line in HISTORY[0].splitlines(keepends=True) if line.startswith(b'{"metaData"'))


@pytest.fixture
def there(orders: Prompt) -> Iterator[Prompt]:
    """A prompt with the table ``orders`` at ``lake/orders``; whatever a test does, the catalog is the same after it."""
    before = orders.dump()
    yield orders
    assert orders.dump() == before


def place(prompt: Prompt, name: str = "lake/t") -> Store:
    return store_at(str(prompt.folder / name), StorageSettings())


def history(**changed: bytes) -> dict[int, bytes]:
    """Versions 0 to 3, some of them changed: ``v2=…``."""
    return {**dict(enumerate(HISTORY)), **{int(name[1:]): data for name, data in changed.items()}}


def with_protocol(*features: str) -> bytes:
    protocol = Protocol(
        min_reader_version=3, min_writer_version=7, reader_features=list(features), writer_features=list(features)
    )
    return lines.encode_commit([protocol]) + METADATA


def key_of(version: int) -> str:
    return f"{names.LOG_DIRECTORY}/{names.commit_name(version)}"


def nothing(store: Store) -> None:
    """Not even a folder."""


def empty_folder(store: Store) -> None:
    Path(store.location.removeprefix("file://")).mkdir(parents=True)


def parquet_files(store: Store) -> None:
    store.put("day=1/part-0.parquet", parquet(rows(state_after(HISTORY))))


def iceberg(store: Store) -> None:
    parquet_files(store)
    store.put("metadata/00000-9c12d441.metadata.json", b"{}")


def late_log(store: Store) -> None:
    put_log(store, dict.fromkeys(range(5, 8), HISTORY[1]))


def gap(store: Store) -> None:
    put_log(store, {0: HISTORY[0], 1: HISTORY[1], 3: HISTORY[3]})


def gap_above_the_checkpoint(store: Store) -> None:
    put_classic(store, 1, rows(state_after(HISTORY[:2])))
    put_log(store, {3: HISTORY[3]})


def only_a_log_folder(store: Store) -> None:
    store.put(f"{names.LOG_DIRECTORY}/_last_checkpoint", b'{"version":5}')


def truncated(store: Store) -> None:
    put_log(store, history(v2=HISTORY[2][:-20]))


def empty_commit(store: Store) -> None:
    put_log(store, history())
    Path(store.location.removeprefix("file://"), key_of(2)).write_bytes(b"")


def two_metadata(store: Store) -> None:
    put_log(store, history(v2=HISTORY[2] + METADATA + METADATA))


def no_protocol(store: Store) -> None:
    put_log(store, {0: METADATA, 1: commit(file("a"))})


def damaged_checkpoint(store: Store) -> None:
    store.put(f"{names.LOG_DIRECTORY}/{names.checkpoint_name(1)}", b"PAR1 or so")
    put_log(store, {2: HISTORY[2]})


def catalog_managed(store: Store) -> None:
    put_log(store, {0: with_protocol("catalogManaged")})


def unknown_feature(store: Store) -> None:
    put_log(store, {0: first_commit(), 1: with_protocol("somethingUnheardOf")})


WRONG: list[tuple[Callable[[Store], None], int, str, str]] = [
    (nothing, 11, "not-found", "there is nothing at"),
    (empty_folder, 11, "not-found", "there is nothing at"),
    (parquet_files, 10, "invalid-input", "files, but no Delta log"),
    (iceberg, 10, "invalid-input", "is an Iceberg table"),
    (only_a_log_folder, 10, "invalid-input", "has neither a commit nor a complete checkpoint"),
    (late_log, 10, "invalid-input", "lacks the commits of versions 0 to 4, and there is no checkpoint"),
    (gap, 10, "invalid-input", "lacks the commits of version 2, and there is no checkpoint"),
    (gap_above_the_checkpoint, 10, "invalid-input", "lacks the commits of version 2, and the newest checkpoint"),
    (truncated, 10, "invalid-line", f"{key_of(2)}, line 4: "),
    (empty_commit, 10, "invalid-input", f"the commit {key_of(2)} in"),
    (two_metadata, 10, "invalid-action", f"{key_of(2)}, line 6: "),
    (no_protocol, 10, "invalid-input", "states no protocol"),
    (damaged_checkpoint, 10, "invalid-input", f"{names.checkpoint_name(1)} in"),
    (catalog_managed, 15, "unsupported", "is managed by a catalog (catalogManaged)"),
    (unknown_feature, 15, "unsupported", "somethingUnheardOf"),
]


@pytest.mark.requirement("R107")
@pytest.mark.parametrize("tried", [[], ["--dry-run"]], ids=["", "dry"])
@pytest.mark.parametrize(("make", "exits", "code", "told"), WRONG, ids=[each[0].__name__ for each in WRONG])
def test_what_cannot_be_imported_is_refused_with_the_reason(
    there: Prompt, make: Callable[[Store], None], exits: int, code: str, told: str, tried: list[str]
) -> None:
    make(place(there))
    error = there.error("import", "lake/t", "--name", "t", *tried, exits=exits)
    assert error["code"] == code
    assert told in error["message"]
    assert str(there.folder) in error["message"]
    assert error["hint"]


def test_a_reason_is_one_line_what_to_do_another_and_where_to_read_more_the_third(there: Prompt) -> None:
    late_log(place(there))
    said = there("import", "lake/t", "--name", "t", exits=10)
    assert said.stdout == ""
    assert [line.partition(":")[0] for line in said.stderr.splitlines()] == ["error", "hint", "more"]


# Versions


@pytest.mark.parametrize(
    ("version", "exits", "told"),
    [
        ("9", 11, "ends at version 3: there is no version 9"),
        ("3", 10, "no checkpoint at or above version 3 to begin with"),
        ("-1", 64, "--from-version"),
        ("two", 64, "--from-version"),
    ],
)
def test_a_version_to_begin_with_that_does_not_work(there: Prompt, version: str, exits: int, told: str) -> None:
    put_log(place(there), history())
    error = there.error("import", "lake/t", "--name", "t", "--from-version", version, exits=exits)
    assert told in error["message"]


def test_a_beginning_that_is_gone_names_the_version_that_can_be_had(there: Prompt) -> None:
    put_log(place(there), {2: HISTORY[2], 3: HISTORY[3]})
    put_classic(place(there), 2, rows(state_after(HISTORY[:3])))
    error = there.error("import", "lake/t", "--name", "t", "--from-version", "0", exits=10)
    assert "lacks the commits of versions 0 to 1" in error["message"]
    assert "begin with version 2" in error["hint"]


# Names and places


@pytest.mark.parametrize(
    ("location", "name", "exits", "told"),
    [
        ("lake/t", "orders", 12, "there is a table 'orders' already"),
        ("lake/orders", "t", 12, "belongs to the table 'orders'"),
        ("lake/orders/deep", "t", 10, "lie in one another"),
        ("lake", "t", 10, "lie in one another"),
        ("lake/t", "a b", 10, "is not a table name"),
        ("lake/t", "a..b", 10, "is not a table name"),
        ("lake/t/_delta_log", "t", 10, "is a log, and not a table"),
        ("gopher://lake/t", "t", 10, "unknown scheme 'gopher'"),
        ("s3://lake", "t", 10, "is a whole bucket"),
        ("notes.txt", "t", 10, "is a file"),
    ],
)
def test_a_name_or_a_place_that_does_not_work(there: Prompt, location: str, name: str, exits: int, told: str) -> None:
    put_log(place(there), history())
    (there.folder / "notes.txt").write_text("no folder")
    assert told in there.error("import", location, "--name", name, exits=exits)["message"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "say what to import"),
        (["--name", "t"], "say what to import"),
        (["lake/t"], "LOCATION and --name go together"),
        (["lake/t", "--name", ""], "--name"),
        (["--glob", "lake/**", "--name", "t"], "LOCATION and --name go together"),
        (["lake/t", "--name", "t", "--glob", "lake/**"], "say what to import"),
        (["--glob", "lake/**", "--list", "-"], "say what to import"),
        (["lake/t", "--name", "t", "--root", "lake"], "--root names the tables of --glob and --list"),
        (["--glob", "lake/**", "--from-version", "3"], "--from-version is a version of the table at LOCATION"),
        (["lake/t", "--name", "t", "--runner", "local", "--master", "local[1]"], "--master is for Spark"),
        (["lake/t", "--name", "t", "--runner", "abacus"], "'abacus' is not one of"),
        (["--list", "nowhere.txt"], "nowhere.txt"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together(there: Prompt, arguments: list[str], told: str) -> None:
    assert told in there.error("import", *arguments, exits=64)["message"]


@pytest.mark.parametrize(
    ("arguments", "exits", "told"),
    [
        (["--glob", "**"], 10, "has no fixed folder to begin with"),
        (["--glob", "s3://**"], 10, "has no fixed folder to begin with"),
        (["--glob", "nowhere/**"], 11, "no Delta table in these places"),
        (["--list", "-"], 11, "no Delta table in these places"),
    ],
)
def test_many_tables_of_which_there_are_none(there: Prompt, arguments: list[str], exits: int, told: str) -> None:
    assert told in there.error("import", *arguments, stdin="# empty\n", exits=exits)["message"]


def test_a_line_of_a_list_with_too_many_words_is_named(there: Prompt) -> None:
    error = there.error("import", "--list", "-", stdin="lake/t\nlake/my table of it\n", exits=10)
    assert "line 2 of the list has 4 words" in error["message"]


# Stores that refuse


@pytest.mark.requirement("R107")
@pytest.mark.parametrize("arguments", [["lake/t", "--name", "t"], ["--glob", "lake/**"]], ids=" ".join)
def test_a_folder_that_may_not_be_listed_is_permission_denied(there: Prompt, arguments: list[str]) -> None:
    if not can_lose_power():
        missing_kernel_feature("a process that gives up its power (unshare --user)")
    put_log(place(there), history())
    log = there.folder / "lake/t/_delta_log"
    if arguments[0] == "--glob":
        log = log.parent
    log.chmod(0o000)
    try:
        done = typed_without_power("import", *arguments, "--json", folder=there.folder)
    finally:
        log.chmod(0o755)
    assert (done.returncode, done.stdout) == (21, ""), done.stderr
    error = json.loads(done.stderr)["error"]
    assert error["hint"]
    assert error["code"] == "permission-denied"
    assert str(log) in error["message"]


@pytest.mark.requirement("R107")
def test_a_wrong_key_is_permission_denied(there: Prompt, s3_bucket: str, s3_settings: StorageSettings) -> None:
    put_log(store_at(f"s3://{s3_bucket}/t", s3_settings), history())
    wrong = variables(replace(s3_settings, secret_access_key=Secret(SECRET)))
    error = there.error("import", f"s3://{s3_bucket}/t", "--name", "t", exits=21, settings=wrong)
    assert error["code"] == "permission-denied"
    assert s3_bucket in error["message"]
    assert error["hint"]
    assert SECRET not in str(error)


@pytest.mark.parametrize("arguments", [["{}/t", "--name", "t"], ["--glob", "{}/**"]], ids=" ".join)
def test_a_bucket_that_does_not_exist_is_not_found(
    there: Prompt, s3_settings: StorageSettings, arguments: list[str]
) -> None:
    given = [each.format("s3://no-such-bucket") for each in arguments]
    error = there.error("import", *given, exits=11, settings=variables(s3_settings))
    assert error["code"] == "not-found"
    assert "no-such-bucket" in error["message"]
    assert error["hint"]
