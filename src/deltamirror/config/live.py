"""Settings that follow their file while a process runs.

A changed file is taken as a whole or not at all: one with anything wrong in it leaves every value as it was, and is
told of once. Flags and environment stay what they were when the process started, and stay above the file.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec

from deltamirror.config.keys import Key, Reload, keys
from deltamirror.config.load import Loaded, chosen_file, load
from deltamirror.config.settings import Settings
from deltamirror.errors import InvalidSettings

_log = logging.getLogger(__name__)
Told = TypeVar("Told")
_SETTLED: Final = 0.2
"""For how many seconds a changed file has to stay the same before it is taken: editors may write it in pieces."""
_SETTLES_WITHIN: Final = 10
"""How often that is waited for in one look."""
_LONGEST_WAIT: Final = 5.0
"""A period that was made shorter, by SIGHUP, holds after so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadState:
    """Whether the file as it is can be taken, and how often its values were."""

    valid: bool = True
    error: str = ""
    """Why it is refused."""
    waiting: tuple[str, ...] = ()
    """The keys whose changed values take effect when the process starts again."""
    reloads: int = 0
    refusals: int = 0


@dataclass(frozen=True, slots=True)
class _Source:
    """How the settings of a process are found again."""

    find: Callable[[], Path | None]
    read: Callable[[Path | None], Loaded]


class LiveSettings:
    """The settings in force, one value that is replaced when the file has changed. Safe to share between threads.

    Where several values are used together, ``current`` is taken once.
    """

    def __init__(
        self,
        loaded: Loaded,
        source: _Source | None = None,
        *,
        content: object = None,
        settled: float = _SETTLED,
    ) -> None:
        self._loaded, self._source = loaded, source
        self._content, self._settled_after = content, settled
        self._state = ReloadState()
        self._callbacks: list[Callable[[Settings], None]] = []
        self._watchers: list[Callable[[ReloadState], None]] = []
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: "Settings | LiveSettings") -> "LiveSettings":
        """Settings that stay as they are, unless these are live already."""
        return settings if isinstance(settings, LiveSettings) else cls(Loaded(settings, {}, None))

    @classmethod
    def load(
        cls,
        *,
        environment: Mapping[str, str],
        config: Path | None = None,
        folder: Path = Path(),
        flags: Mapping[str, str] | None = None,
        checked: Callable[[Loaded], Loaded] = lambda loaded: loaded,
        settled: float = _SETTLED,
    ) -> Self:
        """The settings of these sources; ``checked`` may refuse them, now and when they have changed."""
        environment, find = dict(environment), partial(chosen_file, config, environment, folder)

        def read(file: Path | None) -> Loaded:
            return checked(load(environment=environment, config=file, folder=folder, flags=flags))

        file = find()
        content = _content(file)  # first: a later write is a change
        return cls(read(file), _Source(find, read), content=content, settled=settled)

    @property
    def current(self) -> Settings:
        """The settings in force."""
        return self._loaded.settings

    @property
    def loaded(self) -> Loaded:
        """The settings in force, with their origins."""
        return self._loaded

    @property
    def state(self) -> ReloadState:
        """What became of the last change."""
        return self._state

    def on_change(self, callback: Callable[[Settings], None]) -> Callable[[], None]:
        """Call a function with the settings after each change; the function that is returned ends that."""
        self._callbacks.append(callback)
        return partial(self._callbacks.remove, callback)

    def on_look(self, callback: Callable[[ReloadState], None]) -> Callable[[], None]:
        """Call a function after each change of the file, taken or refused; the function that is returned ends that."""
        self._watchers.append(callback)
        return partial(self._watchers.remove, callback)

    def check(self) -> None:
        """Look at the file, and take its values if it has changed and is in order."""
        if self._source is None:
            return
        with self._lock:
            # Once there was a file, its absence is an error: to go on with defaults would be to guess.
            file = self._loaded.file or self._source.find()
            content = self._settled(file)
            if content == self._content:
                return
            self._content = content
            before = self.current
            self._take(self._source, file, content)
        self._tell(self._watchers, self.state)
        if self.current != before:
            self._tell(self._callbacks, self.current)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the file every ``config.reload`` seconds, in a thread, until this ends."""
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(stop,), name="deltamirror-settings", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _watch(self, stop: threading.Event) -> None:
        looked = time.monotonic()
        while not stop.wait(min(self.current.config.reload or _LONGEST_WAIT, _LONGEST_WAIT)):
            period, moment = self.current.config.reload, time.monotonic()
            if period == 0 or moment - looked < period:
                continue
            looked = moment
            try:
                self.check()
            except Exception as error:  # noqa: BLE001  this thread has to last as long as the process
                _log.error("the settings file could not be looked at: %s", _named(error))

    def _settled(self, file: Path | None) -> object:
        """What a file holds; where it has changed, once it stays the same."""
        content = _content(file)
        for _ in range(_SETTLES_WITHIN):
            if content == self._content:
                break
            time.sleep(self._settled_after)
            before, content = content, _content(file)
            if content == before:
                break
        return content

    def _take(self, source: _Source, file: Path | None, content: object) -> None:
        try:
            if content == b"" and file is not None:
                raise _emptied(file)
            loaded = source.read(file)
        except InvalidSettings as error:
            self._refuse(error)
            return
        settings, waiting = _without_restart(self.current, loaded.settings)
        changed = _differing(self.current, settings)
        self._loaded = replace(loaded, settings=settings)
        state = self._state
        _say(file, changed, () if waiting == state.waiting else waiting, was_refused=not state.valid)
        self._state = ReloadState(waiting=waiting, reloads=state.reloads + bool(changed), refusals=state.refusals)

    def _refuse(self, error: InvalidSettings) -> None:
        said = f"{error.message}; {error.hint}" if error.hint else error.message
        _log.error("the changed settings are refused, the values in force stay: %s", said, extra={"code": error.code})
        self._state = replace(self._state, valid=False, error=said, refusals=self._state.refusals + 1)

    def _tell(self, callbacks: Sequence[Callable[[Told], None]], told: Told) -> None:
        for callback in tuple(callbacks):
            try:
                callback(told)
            except Exception as error:  # noqa: BLE001  the others are called nevertheless
                _log.error("the changed settings were not taken everywhere: %s", _named(error))


_KEYS: Final = keys(Settings)
_TABLES: Final = "tables"


def _without_restart(old: Settings, new: Settings) -> tuple[Settings, tuple[str, ...]]:
    """The new settings with the old values of keys that do not reload, and which of these have changed."""
    fixed = [key for key in _KEYS if key.reload is not Reload.LIVE and _value(old, key) != _value(new, key)]
    for key in fixed:
        section = msgspec.structs.replace(getattr(new, key.section), **{key.name: _value(old, key)})
        new = msgspec.structs.replace(new, **{key.section: section})
    return new, tuple(key.path for key in fixed)


def _differing(old: Settings, new: Settings) -> list[str]:
    changed = [key.path for key in _KEYS if _value(old, key) != _value(new, key)]
    return changed if old.tables == new.tables else [*changed, _TABLES]


def _value(settings: Settings, key: Key) -> object:
    return getattr(getattr(settings, key.section), key.name)


def _say(file: Path | None, changed: list[str], waiting: tuple[str, ...], *, was_refused: bool) -> None:
    """Name the keys, never values: some are secret."""
    level = logging.WARNING if was_refused else logging.INFO
    _log.log(level, "the settings of %s are in force; changed: %s", file, ", ".join(changed) or "nothing")
    if waiting:
        _log.warning("changed in %s, takes effect at the next start: %s", file, ", ".join(waiting))


def _content(file: Path | None) -> object:
    """The bytes of a file; of one that cannot be read, the reason. None without a file."""
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        return error.strerror or str(error)


def _emptied(file: Path) -> InvalidSettings:
    hint = "write it again; a comment is enough to ask for all defaults"
    return InvalidSettings(f"{file}: the file is empty", hint=hint, source=str(file))


def _named(error: Exception) -> str:
    """Without a traceback, which may repeat secrets."""
    return f"{type(error).__name__}: {error}"
