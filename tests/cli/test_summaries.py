"""What a service says every minute about what it did."""

import json
import logging
import re
from collections.abc import Iterator

import pytest

from deltamirror.cli.overview import Backlog
from deltamirror.cli.progress import RunTally
from deltamirror.cli.summaries import Summaries
from deltamirror.errors import Unavailable
from deltamirror.work import CheckpointOutcome, CommitOutcome, Failure, Lane, Lease, Outcome, Published, Stage
from tests.support.interfaces.commands import following
from tests.support.interfaces.prompt import Prompt

NONE = Backlog(versions=0, tables=0, lag_ms=0)
SOME = Backlog(versions=5, tables=2, lag_ms=243_000)
FOLLOWER = {"DELTAMIRROR_MIRROR__RUNNER": "local", "DELTAMIRROR_MIRROR__POLL": "0.05"}


class Lines(logging.Handler):
    """What was said."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[logging.LogRecord]]:
    logger, handler = logging.getLogger("deltamirror.cli.summaries"), Lines()
    with caplog.at_level(logging.INFO, logger=logger.name):
        logger.addHandler(handler)
        yield handler.records
        logger.removeHandler(handler)


def versions_of(lines: list[logging.LogRecord]) -> list[int]:
    return [vars(line)["versions"] for line in lines]


def tally_of(*outcomes: Outcome) -> RunTally:
    tally = RunTally(lambda _: None)
    for outcome in outcomes:
        tally.observe(outcome)
    return tally


def published(table_id: int, *versions: int) -> CommitOutcome:
    done = tuple(Published(version=version, already=False, num_bytes=1, milliseconds=1.0) for version in versions)
    return CommitOutcome(table_id=table_id, table=f"t{table_id}", lease=lease(table_id), published=done)


def failed(table_id: int) -> CommitOutcome:
    failure = Failure(error=Unavailable("no answer"), stage=Stage.PUT, version=9)
    return CommitOutcome(table_id=table_id, table=f"t{table_id}", lease=lease(table_id), failure=failure)


def lease(table_id: int, lane: Lane = Lane.COMMITS) -> Lease:
    return Lease(table_id=table_id, lane=lane, owner="me", epoch=1, held_until=0.0)


def test_a_line_says_what_was_done_since_the_last_one_and_what_waits(lines: list[logging.LogRecord]) -> None:
    checkpoint = CheckpointOutcome(table_id=1, lease=lease(1, Lane.CHECKPOINTS), version=2)
    tally = tally_of(published(1, 0, 1, 2), published(2, 0), checkpoint, failed(3), failed(3))
    summaries = Summaries(tally)
    summaries.tell(lambda: SOME)
    did = "published 4 versions of 2 tables, wrote 1 checkpoint, 2 attempts failed"
    assert lines[0].getMessage() == f"{did}; backlog 5 versions of 2 tables, the oldest for 4 min 3 s"
    fields = {"versions": 4, "tables": 2, "checkpoints": 1, "failures": 2, "backlog": 5, "lag_ms": 243_000}
    assert {name: getattr(lines[0], name) for name in fields} == fields
    tally.observe(published(2, 1))
    summaries.tell(lambda: NONE)
    assert lines[1].getMessage() == "published 1 version of 1 table; every version is published"


def test_a_service_without_work_says_so_once(lines: list[logging.LogRecord]) -> None:
    tally = tally_of()
    summaries = Summaries(tally)
    for _ in range(3):
        summaries.tell(lambda: NONE)
    assert [line.getMessage() for line in lines] == ["nothing was due; every version is published"]
    for _ in range(3):
        summaries.tell(lambda: SOME)
    assert [line.getMessage()[:33] for line in lines[1:]] == ["nothing was due; backlog 5 version"[:33]]
    tally.observe(published(1, 0))
    for _ in range(3):
        summaries.tell(lambda: SOME)
    assert versions_of(lines[2:]) == [1, 0]


def test_what_is_published_while_the_backlog_is_asked_for_is_told_the_next_time(
    lines: list[logging.LogRecord],
) -> None:
    tally = tally_of()

    def ask() -> Backlog:
        tally.observe(published(1, 0))
        return NONE

    summaries = Summaries(tally)
    summaries.tell(ask)
    summaries.tell(lambda: NONE)
    assert versions_of(lines) == [0, 1]


def test_a_database_that_does_not_answer_hides_nothing_that_was_done(lines: list[logging.LogRecord]) -> None:
    tally = tally_of(failed(1))
    summaries = Summaries(tally)
    summaries.tell(lambda: None)
    summaries.tell(lambda: None)
    told = "1 attempt failed; the database does not answer, the backlog is not known"
    assert [line.getMessage() for line in lines] == [told]


@pytest.mark.parametrize("form", ["json", pytest.param("text", marks=pytest.mark.elsewhere)])
def test_a_service_says_it_whatever_the_level_of_the_log_is(orders: Prompt, form: str) -> None:
    settings = {**FOLLOWER, "DELTAMIRROR_LOG__SUMMARY": "0.2", "DELTAMIRROR_LOG__FORMAT": form}
    with following(folder=orders.folder, settings=settings) as service:
        said = [service.line()]
        while "published 1 version of 1 table" not in said[-1]:
            assert said[-1], "the service ended"
            said.append(service.line())
        assert service.stop()[0] == 0
    assert len(said) <= 2  # before that, at most that one version waits
    if form == "json":
        told = json.loads(said[-1])
        assert (told["level"], told["versions"], told["backlog"], told["lag_ms"]) == ("info", 1, 0, 0)
    else:
        line = r"Z info cli.summaries: published 1 version of 1 table; every version is published\n"
        assert re.search(line, said[-1])
