"""Group commit: small appends of several threads share a transaction.

An append that arrives while another one is under way waits, and goes with all others that wait. Each has a version and
an answer of its own; they share the lock, the round trip and the sync of the disk.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final

from deltamirror.errors import CommitUnknown, DeltaMirrorError, Transient, Unavailable
from deltamirror.txnlog.database.appends.small_append import MOST_FILES, Answer, SmallAppend
from deltamirror.txnlog.database.forks import AtFork, watch

_MOST_TOGETHER: Final = 64


@dataclass(slots=True, eq=False)
class _Waiting:
    append: SmallAppend
    woken: threading.Event = field(default_factory=threading.Event)
    group: "list[_Waiting] | None" = None
    """The group that it leads."""
    answer: Answer = None
    error: DeltaMirrorError | None = None
    is_alone: bool = False
    """One of its group was refused, and so all were: it has to find out by itself whether it is the one."""


class GroupCommit(AtFork):
    """Appends of threads, in groups. Without another one under way, an append is a group, and waits for nothing."""

    def __init__(self, commit: Callable[[Sequence[SmallAppend]], Sequence[Answer]]) -> None:
        self._commit = commit
        self._begin()
        watch(self)

    def in_child(self) -> None:
        """Wait for no thread of the parent."""
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[int, deque[_Waiting]] = {}
        """Those who wait, by the key of the group that is under way."""

    def append(self, key: int, append: SmallAppend) -> Answer:
        """The answer to an append; those of one ``key`` go together."""
        is_first = False
        mine: _Waiting | None = None
        try:
            with self._lock:
                waiting = self._under_way.get(key)
                if waiting is None:
                    is_first, self._under_way[key] = True, deque()
                else:
                    mine = _Waiting(append)
                    waiting.append(mine)
            return self._commit([append])[0] if mine is None else self._answer(key, mine)
        except BaseException:
            if mine is not None:
                self._leave(key, mine)
            raise
        finally:
            if is_first:  # an interruption may come at any point from there on
                self._pass_on(key)

    def _answer(self, key: int, mine: _Waiting) -> Answer:
        mine.woken.wait()
        if (group := mine.group) is not None:
            self._lead(key, group)
        if mine.is_alone:
            return self._commit([mine.append])[0]
        if mine.error is not None:
            raise copy(mine.error) from mine.error
        return mine.answer

    def _lead(self, key: int, group: list[_Waiting]) -> None:
        """Commit a group, and wake up all that are part of it."""
        group[0].group = None
        try:
            answers = self._commit([each.append for each in group])
            for each, answer in zip(group, answers, strict=True):
                each.answer = answer
        except (Transient, Unavailable) as error:  # whatever they had asked for; the reply of COMMIT may be lost
            for each in group:
                each.error = error
        except DeltaMirrorError:
            for each in group:
                each.is_alone = True
        except BaseException as error:
            for each in group[1:]:
                each.error = CommitUnknown(f"the thread that committed was interrupted: {type(error).__name__}")
            raise
        finally:
            self._pass_on(key)
            for each in group[1:]:
                each.woken.set()

    def _pass_on(self, key: int) -> None:
        """Let those who wait be the next group."""
        with self._lock:
            waiting = self._under_way.get(key)
            if not waiting:
                self._under_way.pop(key, None)
                return
            group = [waiting.popleft()]
            num_files = len(group[0].append.files)
            while waiting and len(group) < _MOST_TOGETHER:
                num_files += len(waiting[0].append.files)
                if num_files > MOST_FILES:
                    break
                group.append(waiting.popleft())
            group[0].group = group
        group[0].woken.set()

    def _leave(self, key: int, mine: _Waiting) -> None:
        """Go without an answer; the others go on."""
        with self._lock:
            waiting = self._under_way.get(key, deque())
            if mine in waiting:
                waiting.remove(mine)
                return
            if (group := mine.group) is None:
                return
            waiting.extendleft(reversed(group[1:]))
        self._pass_on(key)
