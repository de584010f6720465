import pickle
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import MirrorSettings, Settings, examine, keys, load, redact_text, redact_url
from deltamirror.config.keys import Key
from deltamirror.config.sources import line_of_key
from deltamirror.errors import InvalidSettings


def write(folder: Path, text: str, name: str = "deltamirror.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def refusal(folder: Path, text: str = "", **environment: str) -> InvalidSettings:
    if text:
        write(folder, text)
    with pytest.raises(InvalidSettings) as caught:
        load(environment=environment, folder=folder)
    return caught.value


def test_defaults_need_no_file(tmp_path: Path) -> None:
    loaded = load(environment={}, folder=tmp_path)
    assert loaded.settings == Settings()
    assert loaded.settings.catalog.url == "sqlite:///deltamirror.db"
    assert loaded.file is None
    assert set(loaded.origins.values()) == {"default"}


def test_documented_defaults_are_the_defaults() -> None:
    settings = Settings()
    assert (settings.writer.retries, settings.writer.retry_base, settings.writer.retry_max) == (3, 0.1, 5.0)
    assert settings.catalog.transaction_timeout == 300
    assert (settings.catalog.stage_above, settings.catalog.chunk_lines) == (5_000, 2_000)
    assert settings.writer.backlog_limit is None
    retry = settings.mirror
    assert (retry.attempts, retry.retry_base, retry.retry_max, retry.retry_factor) == (5, 1.0, 30.0, 2.0)
    assert (retry.retry_jitter, retry.retry_permanent) == (10.0, 3600.0)
    breaker = settings.breaker
    assert (breaker.enabled, breaker.failures, breaker.share) == (True, 5, 75.0)
    assert (breaker.successes, breaker.pause) == (3, 30.0)


@pytest.mark.requirement("R75")
@pytest.mark.requirement("R78")
def test_a_flag_wins_over_the_environment_and_that_over_the_file_and_that_over_the_default(tmp_path: Path) -> None:
    file = write(tmp_path, '[catalog]\nurl = "sqlite:///file.db"\nchunk_lines = 7\nstage_above = 1\n')
    environment = {"DELTAMIRROR_CATALOG__URL": "sqlite:///env.db", "DELTAMIRROR_CATALOG__CHUNK_LINES": "8"}
    loaded = load(environment=environment, folder=tmp_path, flags={"catalog.url": "sqlite:///flag.db"})
    catalog = loaded.settings.catalog
    assert (catalog.url, catalog.chunk_lines, catalog.stage_above) == ("sqlite:///flag.db", 8, 1)
    assert catalog.busy_timeout == 30
    assert loaded.origins["catalog.url"] == "--catalog"
    assert loaded.origins["catalog.chunk_lines"] == "DELTAMIRROR_CATALOG__CHUNK_LINES"
    assert loaded.origins["catalog.stage_above"] == f"{file}:4"
    assert loaded.origins["catalog.busy_timeout"] == "default"


@pytest.mark.requirement("R75")
@pytest.mark.parametrize("key", keys(Settings), ids=lambda key: key.path)
def test_every_key_can_be_set_from_the_file_and_from_the_environment(tmp_path: Path, key: Key) -> None:
    choices = [choice for choice in key.kind.replace("`", "").split(" or ") if choice != key.default]
    usual = {"true or false": str(not key.default).lower(), "text": "some", "number": "47", "whole number": "47"}
    value = "duckdb:///x.duckdb" if key.path == "catalog.url" else usual.get(key.kind, choices[0])
    literal = value if key.kind in ("true or false", "number", "whole number") else f'"{value}"'
    if key.blocks is not None:
        literal, value = '[{name = "x", kind = "log"}]', '[{"name": "x", "kind": "log"}]'
        if key.name == "rules":
            literal, value = '[{name = "x", enabled = true}]', '[{"name": "x", "enabled": true}]'
    write(tmp_path, f"[{key.section}]\n{key.name} = {literal}\n")
    # A key that goes together with another one is accepted, and the missing other one is a problem of its own.
    from_file, _ = examine(environment={}, folder=tmp_path)
    from_environment, _ = examine(environment={key.variable: value})
    assert from_file.settings == from_environment.settings != Settings()
    assert from_file.origins[key.path].endswith("deltamirror.toml:2")


def test_a_file_named_on_the_command_line_wins_over_the_one_in_the_environment(tmp_path: Path) -> None:
    flagged = write(tmp_path, "[catalog]\nchunk_lines = 1\n", "flag.toml")
    other = write(tmp_path, "[catalog]\nchunk_lines = 2\n", "other.toml")
    write(tmp_path, "[catalog]\nchunk_lines = 3\n")
    environment = {"DELTAMIRROR_CONFIG": str(other)}

    def chunk_lines(**given: Any) -> int:
        return load(folder=tmp_path, **given).settings.catalog.chunk_lines

    assert chunk_lines(environment=environment, config=flagged) == 1
    assert chunk_lines(environment=environment) == 2
    assert chunk_lines(environment={}) == 3


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"nowhere\.toml: cannot read the settings: No such file"):
        load(environment={}, config=tmp_path / "nowhere.toml")


def test_an_unknown_key_is_named_with_file_and_line_and_the_nearest_known_one(tmp_path: Path) -> None:
    error = refusal(tmp_path, '# a comment\n[catalog]\nurl = "sqlite:///x.db"\n\nchunk_line = 5\n')
    assert error.message == f"{tmp_path}/deltamirror.toml:5: unknown setting `catalog.chunk_line`"
    assert error.hint == "did you mean `catalog.chunk_lines`?"
    assert (error.key, error.source) == ("catalog.chunk_line", f"{tmp_path}/deltamirror.toml:5")


def test_an_unknown_section_is_named_with_file_and_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, "[log]\nlevel = 'info'\n[catalogue]\nurl = 'sqlite:///x.db'\n")
    assert error.message == f"{tmp_path}/deltamirror.toml:3: unknown section `catalogue`"
    assert error.hint == "did you mean `catalog`?"


def test_a_value_where_a_section_belongs_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path, "\ncatalog = 'sqlite:///x.db'\n")
    assert error.message == f"{tmp_path}/deltamirror.toml:2: `catalog` is a section, not a value"


@pytest.mark.requirement("R75")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[catalog]\nchunk_lines = 'many'\n", "2: `catalog.chunk_lines`: expected whole number, found 'many'"),
        ("[catalog]\nchunk_lines = true\n", "2: `catalog.chunk_lines`: expected whole number, found True"),
        ("[catalog]\nchunk_lines = 0\n", "2: `catalog.chunk_lines`: expected whole number >= 1, found 0"),
        ("[catalog]\n\nbusy_timeout = -1\n", "3: `catalog.busy_timeout`: expected number > 0.0, found -1"),
        ("[writer]\nbacklog_limit = 0\n", "2: `writer.backlog_limit`: expected whole number >= 1, found 0"),
        ("log.format = 'xml'\n", "1: `log.format`: expected `text` or `json`, found 'xml'"),
        ("[catalog]\nurl = 5\n", "2: `catalog.url`: expected text, found 5"),
        (
            "[writer]\nretry_base = 9\n",
            "2: `writer.retry_base` (9.0 s) exceeds `writer.retry_max` (5.0 s)",
        ),
    ],
)
def test_a_wrong_value_is_named_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(tmp_path, text).message == f"{tmp_path}/deltamirror.toml:{message}"


def test_broken_toml_is_named_with_its_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, "[catalog]\nurl = \n")
    assert error.message.startswith(f"{tmp_path}/deltamirror.toml:2: not valid TOML")


def test_a_wrong_variable_is_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    error = refusal(tmp_path, DELTAMIRROR_CATALOG_URL="sqlite:///x.db")
    assert error.message == "unknown variable `DELTAMIRROR_CATALOG_URL`"
    assert error.hint == "did you mean `DELTAMIRROR_CATALOG__URL`?"


def test_a_wrong_value_of_a_variable_names_the_variable(tmp_path: Path) -> None:
    error = refusal(tmp_path, DELTAMIRROR_WRITER__RETRIES="often")
    assert error.message == "DELTAMIRROR_WRITER__RETRIES: expected whole number, found 'often'"


def test_a_wrong_value_is_refused_even_where_another_source_overrides_it(tmp_path: Path) -> None:
    assert "deltamirror.toml:1" in refusal(tmp_path, "writer.retries = 'x'\n", DELTAMIRROR_WRITER__RETRIES="1").message


def test_variables_of_the_test_rig_are_not_settings() -> None:
    assert load(environment={"DELTAMIRROR_TEST_ANYTHING": "1"}).settings == Settings()


def test_an_examination_finds_every_problem_at_once(tmp_path: Path) -> None:
    write(tmp_path, "[catalog]\nurll = 'x'\nchunk_lines = 'x'\n")
    _, problems = examine(environment={"DELTAMIRROR_NOPE": "1"}, folder=tmp_path)
    assert [problem.key for problem in problems] == ["catalog.urll", "DELTAMIRROR_NOPE", "catalog.chunk_lines"]


@pytest.mark.parametrize("url", ["mysql://me:hunter2@db/lake", "me:hunter2@db", "lake.db", "postgres//me:hunter2@db"])
def test_an_address_of_no_known_database_is_refused_without_showing_it(tmp_path: Path, url: str) -> None:
    error = refusal(tmp_path, DELTAMIRROR_CATALOG__URL=url)
    assert "expected an address that begins with `sqlite://`" in error.message
    assert "hunter2" not in repr(error.as_json())


@pytest.mark.requirement("R97")
@pytest.mark.parametrize("key", keys(Settings), ids=lambda key: key.path)
def test_every_key_has_text_kind_and_reload_behaviour(key: Key) -> None:
    assert len(key.text) > 20
    assert key.kind
    assert key.reload
    assert key.unit or key.type.__origin__ not in (int, float)


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("[a]\nb = 1\n", ("a", "b"), 2),
        ("[x]\nb = 1\n[a]\n\n# b = 5\nb = 1\n", ("a", "b"), 6),
        ("a.b = 1", ("a", "b"), 1),
        ('\n"a"."b" = 1', ("a", "b"), 2),
        ("x = 1\na = { c = 2, b = 1 }\n", ("a", "b"), 2),
        ('[x]\ny = """\n[a]\nb = 1\n"""\n[a]\nb = 1\n', ("a", "b"), 7),
        ('[a]\nc = 1\n# why\nb = """\nover\nlines"""\nd = 1\n', ("a", "b"), 4),
        ("[a]\nb = [\n 1,\n 2,\n]\n", ("a", "b"), 2),
        ('[x]\ny = "\u2028"\n[a]\r\nb = 1\r\n', ("a", "b"), 4),
    ],
)
def test_the_line_of_a_key_is_found_in_every_spelling(text: str, path: tuple[str, ...], line: int) -> None:
    assert line_of_key(text, path) == line


@pytest.mark.requirement("R46")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@db/lake", "postgresql://me:***@db/lake"),
        ("postgresql://me@db:5432/lake", "postgresql://me@db:5432/lake"),
        ("postgresql://me:p@ss/w?rd@db/lake", "postgresql://***"),
        ("postgresql://me%40tenant:hunter2@db/lake", "postgresql://me%40tenant:***@db/lake"),
        ("postgresql://:hunter2@db/lake", "postgresql://:***@db/lake"),
        ("postgresql://me:two words@db/lake", "postgresql://***"),
        ("postgresql://db/lake?user=me&password=a@hunter2", "postgresql://***"),
        ("postgresql://db/lake?password=a;hunter2", "postgresql://db/lake?password=***"),
        ("postgresql://db/lake?password=a&hunter2=b", "postgresql://db/lake?password=***&***=***"),
        ("http://h:9000/x#hunter2", "http://h:9000/x#***"),
        ("sc://h:15002/;user_id=me;headers=x:hunter2;x-auth=hunter2", "sc://h:15002/;user_id=me;headers=***;***=***"),
        ("postgresql://me:hunter2", "postgresql://***"),
        ("host=h password=a hunter2", "***"),
        ("local[*]", "local[*]"),
        ("postgresql://db/lake?user=me&password=hunter2&port=1", "postgresql://db/lake?user=me&password=***&port=1"),
        ("duckdb:///md:x?motherduck_token=abc", "duckdb:///md:x?motherduck_token=***"),
        ("sqlite:///C:/lake.db", "sqlite:///C:/lake.db"),
    ],
)
def test_a_password_is_never_part_of_a_shown_address(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@pytest.mark.requirement("R46")
def test_passwords_are_taken_out_of_messages() -> None:
    text = "postgresql://a:b@c/d failed, then postgresql://e:f@g/h; host=x password='q r' user=y"
    assert redact_text(text) == "postgresql://a:***@c/d failed, then postgresql://e:***@g/h; host=x password=*** user=y"


@pytest.mark.requirement("R46")
def test_a_secret_prints_as_stars_and_does_not_leave_the_process() -> None:
    environment = {"DELTAMIRROR_STORAGE__ACCESS_KEY_ID": "id", "DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY": "hush"}
    storage = load(environment=environment).settings.storage
    assert storage.secret_access_key is not None
    assert storage.secret_access_key.reveal() == "hush"
    assert "hush" not in f"{storage!r} {storage.secret_access_key} {storage.secret_access_key!r}"
    with pytest.raises(TypeError, match="does not travel"):
        pickle.dumps(storage)
    travelled = pickle.loads(pickle.dumps(storage.without_credentials()))  # noqa: S301  our own bytes
    assert travelled == storage.without_credentials()
    assert storage.without_credentials().access_key_id is None


@pytest.mark.requirement("R46")
def test_a_secret_of_the_wrong_type_is_not_quoted_in_the_complaint(tmp_path: Path) -> None:
    error = refusal(tmp_path, "[storage]\nsecret_access_key = 123456\n")
    assert "expected text, found ***" in error.message
    assert "123456" not in error.message


def test_an_access_key_without_its_secret_is_a_contradiction(tmp_path: Path) -> None:
    error = refusal(tmp_path, '[storage]\naccess_key_id = "id"\n')
    assert (error.key, error.source) == ("storage.access_key_id", str(tmp_path / "deltamirror.toml:2"))


def test_an_endpoint_without_tls_has_to_be_allowed(tmp_path: Path) -> None:
    assert refusal(tmp_path, '[storage]\nendpoint = "http://127.0.0.1:9000"\n').key == "storage.endpoint"
    write(tmp_path, '[storage]\nendpoint = "http://127.0.0.1:9000"\nallow_http = true\n')
    assert load(environment={}, folder=tmp_path).settings.storage.allow_http


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder whose settings file names a catalog."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deltamirror.toml").write_text('[catalog]\nurl = "sqlite:///file.db"\n[mirror]\nrunner = "local"\n')
    return tmp_path


def test_python_reads_settings_as_the_command_line_does(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*url: str, settings: Settings | None = None) -> list[str]:
        with Catalog(*url, settings=settings) as catalog:
            catalog.init()
            with MirrorEngine(*url, settings=settings) as engine:
                assert engine.database.file == catalog.database.file
        return sorted(file.name for file in configured.glob("*.db"))

    assert opened() == ["file.db"]
    monkeypatch.setenv("DELTAMIRROR_CATALOG__URL", "sqlite:///variable.db")
    assert opened() == ["file.db", "variable.db"]
    assert opened("sqlite:///argument.db") == ["argument.db", "file.db", "variable.db"]
    local = Settings(mirror=MirrorSettings(runner="local"))
    assert "deltamirror.db" in opened(settings=local)


def test_python_is_told_of_wrong_settings_as_the_command_line_is(configured: Path) -> None:
    (configured / "deltamirror.toml").write_text('[catalog]\nurl = "sqlite:///file.db"\nspeed = 3\n')
    with pytest.raises(InvalidSettings, match=r"deltamirror\.toml.*unknown setting"):
        Catalog()
    with pytest.raises(InvalidSettings):
        MirrorEngine("sqlite:///other.db")
