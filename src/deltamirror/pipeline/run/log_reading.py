"""Reading the slices of a log, in order and ahead of their use: in a thread of this process, or on Spark."""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from queue import Full, Queue
from typing import Final, Protocol, TypeVar

from deltamirror.config import Settings
from deltamirror.pipeline.run.slices import LogSlice, Part, batches_of, read_slice
from deltamirror.storage.open import Stores

_T = TypeVar("_T")
_PATIENCE: Final = 0.2


class Harvester(Protocol):
    """Reads slices. Safe to use from several threads at once."""

    def read(self, slices: Iterable[LogSlice]) -> Generator[list[Part]]:
        """The parts of all slices, in their order, in batches for one transaction each.

        The first thing that is wrong is raised in the place of what it is wrong with.
        """

    def close(self) -> None:
        """Let go of everything."""


class LocalHarvester:
    """Reads in this process, with the credentials of its settings."""

    def __init__(self, settings: Settings) -> None:
        self._stores = Stores.with_keys(settings)

    def read(self, slices: Iterable[LogSlice]) -> Generator[list[Part]]:
        """A thread reads a few batches ahead."""
        return ahead(lambda: batches_of(self._parts(slices)), most=2)

    def close(self) -> None:
        """Let go of the stores."""
        self._stores.close()

    def _parts(self, slices: Iterable[LogSlice]) -> Iterator[Part]:
        for work in slices:
            yield from read_slice(work, self._stores.at(work.address))


def ahead(items: Callable[[], Iterator[_T]], *, most: int) -> Generator[_T]:
    """The items, made by a thread that is at most so many ahead; its errors are raised here."""
    made: Queue[tuple[_T | None, BaseException | None]] = Queue(most)
    with _worker(items, made):
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item


@contextmanager
def _worker(items: Callable[[], Iterator[_T]], made: Queue[tuple[_T | None, BaseException | None]]) -> Iterator[None]:
    unwanted = threading.Event()

    def put(item: _T | None, error: BaseException | None = None) -> bool:
        while not unwanted.is_set():
            try:
                made.put((item, error), timeout=_PATIENCE)
            except Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items():
                if not put(item):
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised where the items are used
            put(None, error)

    thread = threading.Thread(target=work, name="import", daemon=True)
    thread.start()
    try:
        yield
    finally:
        unwanted.set()
        thread.join()
