import json
import logging
from pathlib import Path
from typing import Literal

import pytest

from deltamirror.cli.invocation import Invocation
from deltamirror.cli.logs import configure_logs
from deltamirror.config import LogSettings


def test_lines_for_people_have_time_and_level_and_say_in_words_what_fields_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(LogSettings(level="info"))
    logging.getLogger("deltamirror.txnlog").info("retrying", extra={"table": "orders", "attempt": 2})
    line = capsys.readouterr().err
    assert line[10] == "T"
    assert line.endswith("Z info txnlog: retrying\n")


@pytest.mark.requirement("R86")
def test_lines_for_collectors_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json"))
    logging.getLogger("deltamirror.txnlog").warning("retrying", extra={"table": "orders", "attempt": 2})
    line = json.loads(capsys.readouterr().err)
    told = {"level": "warning", "logger": "deltamirror.txnlog", "message": "retrying", "table": "orders", "attempt": 2}
    assert line == {"time": line["time"], **told}


@pytest.mark.requirement("R46")
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_reaches_the_log(form: Literal["text", "json"], capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format=form))
    logger = logging.getLogger("deltamirror.txnlog")
    try:
        raise ValueError("postgresql://me:hunter2@db/lake")
    except ValueError:
        logger.exception("cannot reach %s", "postgresql://me:hunter2@db/lake", extra={"url": "x://a:hunter2@b"})
    said = capsys.readouterr().err
    assert "cannot reach postgresql://me:***@db/lake" in said
    assert "hunter2" not in said


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(level="error"))
    logging.getLogger("deltamirror.txnlog").warning("retrying")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("level", "written"), [("warning", False), ("debug", True)])
def test_libraries_are_heard_only_where_all_details_are_wanted(
    level: Literal["warning", "debug"], written: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(LogSettings(level=level))
    logging.getLogger("sqlalchemy.pool").error("a connection was lost")
    assert ("a connection was lost" in capsys.readouterr().err) is written


@pytest.mark.requirement("R79")
def test_lines_follow_changed_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lake.toml"
    file.write_text("log.level = 'error'\n")
    live, log = Invocation(config=file).live(), logging.getLogger("deltamirror.txnlog")
    log.warning("before")
    file.write_text("log.level = 'info'\nlog.format = 'json'\n")
    live.check()
    log.info("after")
    assert json.loads(capsys.readouterr().err)["message"] == "after"
