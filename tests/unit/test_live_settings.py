import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from deltamirror.cli.signals import reloading
from deltamirror.config import LiveSettings, Settings, keys
from deltamirror.config.keys import Reload
from deltamirror.config.load import Loaded
from deltamirror.errors import InvalidSettings
from tests.support.monitoring.scraping import value

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "configuration.md"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "deltamirror.toml"
    path.write_text("[mirror]\npoll = 1.0\nretry_base = 2.0\n")
    return path


def live_from(file: Path, **sources: Any) -> LiveSettings:
    return LiveSettings.load(**{"environment": {}, "folder": file.parent, "settled": 0.0, **sources})


def waiting(live: LiveSettings) -> tuple[str, ...]:
    """The keys that take effect at the next start."""
    return live.state.waiting


def changed(live: LiveSettings, file: Path, text: str) -> Settings:
    file.write_text(text)
    live.check()
    return live.current


@pytest.mark.requirement("R79")
def test_a_changed_file_is_in_force_after_the_next_look(file: Path) -> None:
    live, told = live_from(file), list[Settings]()
    end = live.on_change(told.append)
    assert changed(live, file, "mirror.poll = 3.0\n").mirror.poll == 3.0
    assert live.current.mirror.retry_base == 1.0
    assert told == [live.current]
    assert (live.state.valid, live.state.reloads) == (True, 1)
    end()
    changed(live, file, "mirror.poll = 4.0\n")
    assert len(told) == 1


@pytest.mark.requirement("R79")
def test_each_look_at_a_changed_file_is_counted_and_a_refused_one_shows_until_it_is_corrected(file: Path) -> None:
    live = live_from(file)

    def counted() -> tuple[float, ...]:
        return tuple(value("deltamirror_settings_reloads_total", outcome=each) for each in ("applied", "refused"))

    applied, refused = counted()
    with reloading(live):
        changed(live, file, "mirror.poll = 'often'\n")
        assert (counted(), value("deltamirror_settings_valid")) == ((applied, refused + 1), 0)
        changed(live, file, "mirror.poll = 3.0\n")
        assert (counted(), value("deltamirror_settings_valid")) == ((applied + 1, refused + 1), 1)
    changed(live, file, "mirror.poll = 4.0\n")
    assert counted() == (applied + 1, refused + 1)


def test_a_file_that_did_not_change_is_not_loaded_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[Loaded]()

    def checked(loaded: Loaded) -> Loaded:
        looked.append(loaded)
        return loaded

    live = live_from(file, checked=checked)
    os.utime(file)
    live.check()
    assert len(looked) == 1


@pytest.mark.requirement("R79")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mirror\n", "not valid TOML"),
        ("mirror.pol = 3.0\nlog.level = 'debug'\n", "unknown setting `mirror.pol`; did you mean `mirror.poll`?"),
        ("mirror.poll = 'often'\nlog.level = 'debug'\n", "`mirror.poll`: expected number, found 'often'"),
        ("mirror.retry_base = 9\nmirror.retry_max = 1\nlog.level = 'debug'\n", "exceeds"),
        ("[[tables]]\nmatch = 'a'\nmirror.pol = 1\n", "block 1 of [[tables]]: unknown setting `mirror.pol`"),
        ("", "the file is empty"),
        (None, "cannot read the settings: No such file"),
    ],
)
def test_a_bad_edit_is_refused_as_a_whole_and_told_of_once(
    file: Path, text: str | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    live, told = live_from(file), list[Settings]()
    live.on_change(told.append)
    before = live.current
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    for _ in range(3):
        live.check()
    assert live.current is before
    assert told == []
    assert not live.state.valid
    assert said in live.state.error
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert said in caplog.text
    assert live.state.refusals == 1


def test_a_file_that_was_corrected_is_in_force_again(file: Path) -> None:
    live = live_from(file)
    changed(live, file, "mirror.pol = 3.0\n")
    assert changed(live, file, "mirror.poll = 3.0\n").mirror.poll == 3.0
    assert (live.state.valid, live.state.error) == (True, "")


def test_a_file_that_cannot_be_read_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = live_from(file)
    file.unlink()
    file.mkdir()
    live.check()
    assert "cannot read the settings: Is a directory" in live.state.error
    assert live.current.mirror.poll == 1.0


def test_a_file_that_appears_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "deltamirror.toml"
    live = live_from(file)
    assert live.current == Settings()
    assert changed(live, file, "mirror.poll = 3.0\n").mirror.poll == 3.0
    file.unlink()
    live.check()
    assert live.current.mirror.poll == 3.0


@pytest.mark.requirement("R75")
def test_flags_and_environment_stay_above_a_changed_file(file: Path) -> None:
    environment = {"DELTAMIRROR_MIRROR__POLL": "7", "DELTAMIRROR_CONFIG__RELOAD": "1"}
    live = live_from(file, environment=environment, flags={"mirror.runner": "local"})
    environment["DELTAMIRROR_MIRROR__POLL"] = "8"
    changed(live, file, "[mirror]\npoll = 3.0\nrunner = 'spark'\nretry_base = 4.0\n[config]\nreload = 9\n")
    mirror = live.current.mirror
    assert (mirror.poll, mirror.runner, mirror.retry_base) == (7.0, "local", 4.0)
    assert live.current.config.reload == 1.0
    assert live.loaded.origins["mirror.retry_base"] == f"{file}:4"


@pytest.mark.requirement("R79")
def test_what_does_not_reload_keeps_its_value_and_is_named(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    live = live_from(file)
    text = "catalog.url = 'postgresql://me:hunter2@db/x'\nmirror.runner = 'local'\nmirror.poll = 3.0\n"
    settings = changed(live, file, text)
    assert (settings.catalog, settings.mirror.runner, settings.mirror.poll) == (Settings().catalog, "spark", 3.0)
    assert waiting(live) == ("catalog.url", "mirror.runner")
    assert "takes effect at the next start: catalog.url, mirror.runner" in caplog.text
    assert "hunter2" not in caplog.text
    caplog.clear()
    changed(live, file, text + "# a comment\n")
    assert caplog.text == ""
    changed(live, file, "mirror.poll = 3.0\n")
    assert waiting(live) == ()


@pytest.mark.requirement("R46")
def test_a_refused_secret_is_neither_logged_nor_kept(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    live = live_from(file)
    changed(live, file, "[storage]\naccess_key_id = 'me'\nsecret_access_key = 42424242\n")
    assert "secret_access_key" in live.state.error
    assert "42424242" not in live.state.error + caplog.text


def test_a_file_that_is_being_written_is_taken_once_it_is_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live, pieces = live_from(file, settled=1.0), iter(["mirror.poll = 3", "mirror.poll = 3.5\n"])
    monkeypatch.setattr("deltamirror.config.live.time.sleep", lambda _: file.write_text(next(pieces, file.read_text())))
    file.write_text("# nothing yet\n")
    live.check()
    assert (live.current.mirror.poll, live.state.reloads) == (3.5, 1)


def test_a_callback_that_fails_keeps_no_other_from_being_called(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    live, told = live_from(file), list[Settings]()

    def fail(_: Settings) -> None:
        raise KeyError("hunter")

    live.on_change(fail)
    live.on_change(told.append)
    changed(live, file, "mirror.poll = 3.0\n")
    assert told == [live.current]
    assert "the changed settings were not taken everywhere: KeyError" in caplog.text


def test_a_watched_file_is_looked_at_every_period(file: Path) -> None:
    file.write_text("config.reload = 0.01\n")
    live, came = live_from(file), threading.Event()
    live.on_change(lambda _: came.set())
    with live.watched():
        file.write_text("config.reload = 0.02\n")
        assert came.wait(60)
    assert live.current.config.reload == 0.02


def test_wrong_settings_are_refused_at_the_start(file: Path) -> None:
    file.write_text("mirror.pol = 3.0\n")
    with pytest.raises(InvalidSettings):
        live_from(file)


@pytest.mark.requirement("R79")
def test_every_setting_reloads_but_for_those_whose_reason_the_guide_gives() -> None:
    fixed = {key.path for key in keys(Settings) if key.reload is not Reload.LIVE}
    assert fixed == {
        "catalog.url",
        "catalog.busy_timeout",
        "catalog.transaction_timeout",
        "mirror.runner",
        "mirror.inline",
        "spark.master",
        "spark.lines",
        "serve.listen",
        "serve.tls_cert",
        "serve.tls_key",
        "serve.behind_proxy",
        "serve.hosts",
        "serve.loopback_read",
        "serve.session",
    }
    guide = GUIDE.read_text()
    assert [path for path in fixed if f"| `{path}` |" not in guide] == []
