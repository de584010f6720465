"""What a service did since it last said so, in its log: at most one line a period, and none while nothing changes."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from deltamirror.cli.output import counted
from deltamirror.cli.overview import Backlog
from deltamirror.cli.progress import Done, RunTally
from deltamirror.ops.engine import MirrorEngine
from deltamirror.pipeline.failures.our_errors import our_error

_log = logging.getLogger(__name__)
_LAST_LOOK: Final = 1.0
"""How many seconds the end of a service waits for a question that the database has not answered yet."""


class Summaries:
    """The lines of one service."""

    def __init__(self, tally: RunTally) -> None:
        self._tally = tally
        self._idle: Backlog | None = None
        """What waited when it was last said that nothing was due; None after something was done."""

    def tell(self, ask: Callable[[], Backlog | None]) -> None:
        """Say what was done since the last time. That nothing was is said once, and again when another number waits.

        The backlog is asked for after that, so that it holds nothing that is told to be done; None: the database could
        not be asked.
        """
        done, backlog = self._tally.take(), ask()
        if not done and self._is_told(backlog):
            return
        self._idle = None if done else backlog
        _log.info("%s; %s", _did(done), _waits(backlog), extra=_fields(done, backlog))

    def _is_told(self, backlog: Backlog | None) -> bool:
        return backlog is None or (self._idle is not None and self._idle.versions == backlog.versions)


@contextmanager
def summarised(tally: RunTally, engine: MirrorEngine) -> Iterator[None]:
    """Inside, the log says every ``log.summary`` seconds what the tally counted, whatever ``log.level`` is."""
    over, wake = threading.Event(), threading.Event()
    _log.setLevel(logging.INFO)
    args = (Summaries(tally), engine, over, wake)
    thread = threading.Thread(target=_tell_regularly, args=args, name="deltamirror-summaries", daemon=True)
    unsubscribe = engine.live.on_change(lambda _: wake.set())
    thread.start()
    try:
        yield
    finally:
        unsubscribe()
        over.set()
        wake.set()
        thread.join(_LAST_LOOK)


def _tell_regularly(summaries: Summaries, engine: MirrorEngine, over: threading.Event, wake: threading.Event) -> None:
    while not over.is_set():
        if wake.wait(engine.settings.log.summary or None):
            wake.clear()  # settings have changed, or this ends
        else:
            summaries.tell(partial(_backlog, engine))


def _backlog(engine: MirrorEngine) -> Backlog | None:
    try:
        return Backlog.of(engine.status())
    except Exception as error:  # noqa: BLE001  the service says on its own what ails the database
        _log.debug("the backlog is not known: %s", our_error(error))
        return None


def _did(done: Done) -> str:
    published = f"published {counted(done.versions, 'version')} of {counted(done.tables, 'table')}"
    parts = {
        published: done.versions,
        f"wrote {counted(done.checkpoints, 'checkpoint')}": done.checkpoints,
        f"{counted(done.failures, 'attempt')} failed": done.failures,
    }
    return ", ".join(part for part, number in parts.items() if number) or "nothing was due"


def _waits(backlog: Backlog | None) -> str:
    return "the database does not answer, the backlog is not known" if backlog is None else str(backlog)


def _fields(done: Done, backlog: Backlog | None) -> dict[str, int]:
    did = {"versions": done.versions, "tables": done.tables, "checkpoints": done.checkpoints, "failures": done.failures}
    return did if backlog is None else {**did, "backlog": backlog.versions, "lag_ms": backlog.lag_ms}
