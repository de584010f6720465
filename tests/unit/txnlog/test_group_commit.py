"""Appends of threads share a transaction, and nothing else."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import pytest

from deltamirror.errors import CommitUnknown, DeltaMirrorError, InvalidInput, Unavailable
from deltamirror.txnlog.database.appends import group_commit
from deltamirror.txnlog.database.appends.group_commit import GroupCommit
from deltamirror.txnlog.database.appends.small_append import Answer, SmallAppend

PATIENCE = 30


def append_of(number: int, *, num_files: int = 1) -> SmallAppend:
    return SmallAppend(
        table_id=1,
        commit_id=number,
        metadata_version=0,
        protocol_version=0,
        lineage=0,
        at_version=None,
        timestamped=True,
        rest=b"",
        txn_id=str(number),
        operation="WRITE",
        read_version=0,
        files=((),) * num_files,
        name='"t"',
    )


@dataclass
class Log:
    """A database whose first transaction takes as long as it is told to."""

    groups: list[list[int]] = field(default_factory=list)
    refusal: Callable[[list[int]], BaseException | None] = lambda _: None
    begun: threading.Event = field(default_factory=threading.Event)
    going_on: threading.Event = field(default_factory=threading.Event)

    def commit(self, appends: Sequence[SmallAppend]) -> Sequence[Answer]:
        numbers = [append.commit_id for append in appends]
        self.groups.append(numbers)
        if len(self.groups) == 1:
            self.begun.set()
            assert self.going_on.wait(PATIENCE)
        if (error := self.refusal(numbers)) is not None:
            raise error
        return [(number, number) for number in numbers]


class Crowd:
    """Threads that append while the first one is under way."""

    def __init__(self, log: Log, threads: ThreadPoolExecutor) -> None:
        self.log, self._threads, self.group = log, threads, GroupCommit(log.commit)

    def send(self, number: int, *, key: int = 1, num_files: int = 1) -> "Future[Answer]":
        return self._threads.submit(self.group.append, key, append_of(number, num_files=num_files))

    def first(self) -> "Future[Answer]":
        """One that is under way until the log may go on."""
        sent = self.send(0)
        assert self.log.begun.wait(PATIENCE)
        return sent

    def wait_for(self, count: int, *, key: int = 1) -> None:
        """Wait until as many wait."""
        for _ in range(PATIENCE * 1000):
            with self.group._lock:
                if len(self.group._under_way[key]) == count:
                    return
            threading.Event().wait(0.001)
        raise AssertionError(f"there never were {count} that wait")


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def crowd(log: Log) -> Iterator[Crowd]:
    with ThreadPoolExecutor(100) as threads:
        yield Crowd(log, threads)
        log.going_on.set()


def test_one_alone_waits_for_nothing(log: Log) -> None:
    log.going_on.set()
    group = GroupCommit(log.commit)
    assert [group.append(1, append_of(number)) for number in (5, 6)] == [(5, 5), (6, 6)]
    assert log.groups == [[5], [6]]
    assert not group._under_way


def test_those_that_come_meanwhile_go_together_in_their_order(crowd: Crowd, log: Log) -> None:
    sent = [crowd.first()]
    for number in range(1, 6):
        sent.append(crowd.send(number))
        crowd.wait_for(number)
    log.going_on.set()
    assert [each.result(PATIENCE) for each in sent] == [(number, number) for number in range(6)]
    assert log.groups == [[0], [1, 2, 3, 4, 5]]
    assert not crowd.group._under_way


def test_a_group_has_a_bound(crowd: Crowd, log: Log) -> None:
    sent = [crowd.first(), *map(crowd.send, range(1, 71))]
    crowd.wait_for(70)
    log.going_on.set()
    assert [each.result(PATIENCE) for each in sent] == [(number, number) for number in range(71)]
    assert [len(group) for group in log.groups] == [1, 64, 6]


def test_a_group_has_a_bound_of_files_and_yet_takes_any_append(crowd: Crowd, log: Log) -> None:
    sent = [crowd.first()]
    for number, num_files in enumerate((300, 200, 1, 501, 400), 1):
        sent.append(crowd.send(number, num_files=num_files))
        crowd.wait_for(number)
    log.going_on.set()
    assert [each.result(PATIENCE) for each in sent] == [(number, number) for number in range(6)]
    assert log.groups == [[0], [1, 2], [3], [4], [5]]


def test_other_keys_do_not_wait(crowd: Crowd, log: Log) -> None:
    first = crowd.first()
    assert crowd.send(7, key=2).result(PATIENCE) == (7, 7)
    log.going_on.set()
    assert first.result(PATIENCE) == (0, 0)


def test_one_that_is_refused_refuses_no_other(crowd: Crowd, log: Log) -> None:
    log.refusal = lambda numbers: InvalidInput("no text holds a NUL") if 2 in numbers else None
    crowd.first()
    sent = {number: crowd.send(number) for number in (1, 2, 3)}
    crowd.wait_for(3)
    log.going_on.set()
    assert isinstance(sent[2].exception(PATIENCE), InvalidInput)
    assert [sent[number].result(PATIENCE) for number in (1, 3)] == [(1, 1), (3, 3)]


@pytest.mark.parametrize("error", [Unavailable("the server is going down"), CommitUnknown("the reply was lost")])
def test_trouble_of_the_database_is_that_of_all(crowd: Crowd, log: Log, error: DeltaMirrorError) -> None:
    """None tries again by itself: where a reply is lost, each has to ask the log first."""
    log.refusal = lambda numbers: error if 1 in numbers or 2 in numbers else None
    crowd.first()
    sent = [crowd.send(number) for number in (1, 2)]
    crowd.wait_for(2)
    log.going_on.set()
    met = [each.exception(PATIENCE) for each in sent]
    assert [type(each) for each in met] == [type(error)] * 2
    assert len({id(each) for each in met}) == 2
    assert sorted(log.groups[1]) == [1, 2]
    assert len(log.groups) == 2


def test_where_the_one_that_commits_is_interrupted_the_others_ask_the_log(crowd: Crowd, log: Log) -> None:
    log.refusal = lambda numbers: KeyboardInterrupt() if 1 in numbers else None
    crowd.first()
    leader = crowd.send(1)
    crowd.wait_for(1)
    follower = crowd.send(2)
    crowd.wait_for(2)
    log.going_on.set()
    assert isinstance(leader.exception(PATIENCE), KeyboardInterrupt)
    assert isinstance(follower.exception(PATIENCE), CommitUnknown)
    assert crowd.send(3).result(PATIENCE) == (3, 3)


def test_one_that_is_interrupted_as_it_waits_stops_no_other(
    crowd: Crowd, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its turn, and after it was told to lead."""
    crowd.first()
    leads = threading.Event()
    wait = threading.Event.wait

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if threading.current_thread().name == "interrupted" and timeout is None:
            wait(event, None if leads.is_set() else 0.01)
            raise KeyboardInterrupt
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    met: list[BaseException] = []

    def append(number: int) -> None:
        try:
            crowd.group.append(1, append_of(number))
        except KeyboardInterrupt as error:
            met.append(error)

    early = threading.Thread(target=append, args=(1,), name="interrupted")
    early.start()
    early.join(PATIENCE)
    leads.set()
    leader = threading.Thread(target=append, args=(2,), name="interrupted")
    leader.start()
    crowd.wait_for(1)
    follower = crowd.send(3)
    crowd.wait_for(2)
    log.going_on.set()
    assert follower.result(PATIENCE) == (3, 3)
    leader.join(PATIENCE)
    assert len(met) == 2
    assert log.groups == [[0], [3]]


def test_one_that_is_interrupted_as_it_begins_to_wait_stops_no_other(crowd: Crowd, log: Log) -> None:
    class Interrupted:
        """The lock, in whose block an interruption comes after everything else."""

        def __init__(self, lock: threading.Lock) -> None:
            self.lock = lock

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            crowd.group._lock = self.lock
            self.lock.release()
            raise KeyboardInterrupt

    sent = [crowd.first()]
    crowd.group._lock = Interrupted(crowd.group._lock)  # type: ignore[assignment]
    interrupted = crowd.send(1)
    assert isinstance(interrupted.exception(PATIENCE), KeyboardInterrupt)
    sent.append(crowd.send(2))
    crowd.wait_for(1)
    log.going_on.set()
    assert [each.result(PATIENCE) for each in sent] == [(0, 0), (2, 2)]
    assert crowd.send(3).result(PATIENCE) == (3, 3)
    assert log.groups == [[0], [2], [3]]


def test_a_forked_process_waits_for_no_thread_of_its_parent(crowd: Crowd, log: Log) -> None:
    crowd.first()
    assert succeeds_in_child(lambda: crowd.group.append(1, append_of(9)) == (9, 9))


def test_threads_of_a_forked_process_wait_for_no_lock_of_its_parent(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which another thread of the parent may hold at that moment."""
    log.going_on.set()
    group = GroupCommit(log.commit)

    def make_slowly() -> threading.Lock:
        time.sleep(0.2)
        return threading.Lock()

    def append_in_threads() -> bool:
        met: list[Answer] = []
        for number in (1, 2):
            append = partial(group.append, number, append_of(number))
            threading.Thread(target=lambda act=append: met.append(act()), daemon=True).start()
            time.sleep(0.1)
        for _ in range(PATIENCE * 10):
            if len(met) == 2:
                return True
            time.sleep(0.1)
        return False

    monkeypatch.setattr(group_commit, "threading", SimpleNamespace(Lock=make_slowly))
    with group._lock:
        assert succeeds_in_child(append_in_threads)


def succeeds_in_child(act: Callable[[], bool]) -> bool:
    """Whether an act in a process that is forked for it returns true."""
    if (child := os.fork()) == 0:
        try:
            os._exit(0 if act() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
