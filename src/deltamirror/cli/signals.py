"""SIGTERM and Ctrl-C as a wish to end in order, SIGHUP as one to look at the settings."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from deltamirror.cli.failure import EXIT_INTERRUPTED
from deltamirror.config import LiveSettings, ReloadState
from deltamirror.telemetry import metrics

_IN_ORDER = b"stopping when the work in hand is finished; Ctrl-C ends at once\n"
_AT_ONCE = b"ended at once; what was under way is taken up when its lease ends\n"
_SHOW_CURSOR = b"\x1b[?25h"


@dataclass(slots=True)
class Asked:
    """Whether a signal asked to end. Without a lock: a handler may interrupt another one."""

    to_stop: bool = False


@contextmanager
def stopped_by_signals(stop: Callable[[], None], *, quiet: bool) -> Iterator[Asked]:
    """Inside, a signal calls ``stop``, and a Ctrl-C after it ends the process at once.

    Standard error is told, unless ``quiet``.
    """
    asked = Asked()

    def handle(number: int, _: FrameType | None) -> None:
        if asked.to_stop and number == signal.SIGINT:
            _tell(_AT_ONCE, quiet=quiet)
            os._exit(EXIT_INTERRUPTED)
        # Before anything is said: an operator who reads it may send the next signal at once.
        asked.to_stop = True
        _tell(_IN_ORDER, quiet=quiet)
        # In a thread of its own: the line that is interrupted here may hold the very lock that it needs.
        threading.Thread(target=stop, name="deltamirror-stop", daemon=True).start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reloading(live: LiveSettings) -> Iterator[None]:
    """Inside, a changed settings file is taken: every ``config.reload`` seconds, and at once after SIGHUP.

    The SIGHUP that a closed terminal sends is as good as SIGTERM: a service that was started there ends with it.
    """
    had_terminal = _has_terminal()

    def handle(_: int, __: FrameType | None) -> None:
        if had_terminal and not _has_terminal():
            signal.raise_signal(signal.SIGTERM)
        else:
            threading.Thread(target=live.check, name="deltamirror-reload", daemon=True).start()

    before, uncounted = signal.signal(signal.SIGHUP, handle), live.on_look(_count)
    try:
        with live.watched():
            yield
    finally:
        uncounted()
        signal.signal(signal.SIGHUP, before)


def _count(state: ReloadState) -> None:
    metrics.count_reload("applied" if state.valid else "refused")
    metrics.set_settings_valid(state.valid)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _tell(text: bytes, *, quiet: bool) -> None:
    """Write to standard error, past Python's streams: the line that was interrupted may be writing to them."""
    terminal = sys.stderr.isatty()
    os.write(2, (_SHOW_CURSOR + b"\n" if terminal else b"") + (b"" if quiet else text))
