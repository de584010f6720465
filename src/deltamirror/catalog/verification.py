"""Before a commit, on request: whether the files that it adds are in the store, with the sizes that it states."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltamirror.batches import batched
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add
from deltamirror.delta.validation.paths import broken_path_rule
from deltamirror.errors import InvalidAction
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import file_place
from deltamirror.storage.open import Stores

_AT_ONCE = 16
_BATCH = 1_024


class FileVerifier:
    """Looks up the files of one table, whose ``location`` is asked for with the first of them."""

    def __init__(self, storage: StorageSettings, location: Callable[[], str]) -> None:
        self._storage = storage
        self._location = location
        self._stores = Stores.with_keys(Settings(storage=storage))

    def verified(self, actions: Iterable[Action]) -> Iterator[Action]:
        """The same actions, once their files were found; InvalidAction for the first that is not as stated."""
        first = 0
        for batch in batched(actions, _BATCH):
            self._look_up(enumerate(batch, first))
            first += len(batch)
            yield from batch

    def verified_lines(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """The same lines, once the files of their actions were found."""
        first = 0
        for batch in batched(enumerate(source, 1), _BATCH):
            actions = [lines.decode(line, number=number) for number, line in batch if not line.isspace()]
            self._look_up(enumerate(actions, first))
            first += len(actions)
            yield from (line for _, line in batch)

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Those of the files that are not in the store."""
        location = self._location()
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="deltamirror-verify") as executor:
            sizes = executor.map(lambda path: self._size(location, path), paths)
            return [path for path, size in zip(paths, sizes, strict=True) if size is None]

    def _look_up(self, actions: Iterable[tuple[int, Action]]) -> None:
        # A path that is none is for the rules of the commit to refuse.
        adds = [(n, a) for n, a in actions if isinstance(a, Add) and broken_path_rule(a.path, verbatim=True) is None]
        if not adds:
            return
        location = self._location()
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="deltamirror-verify") as executor:
            sizes = executor.map(lambda each: self._size(location, each[1].path), adds)
            for (index, add), found in zip(adds, sizes, strict=True):
                if found != add.size:
                    executor.shutdown(wait=False, cancel_futures=True)
                    raise _unlike(add, found, index=index, location=location)

    def _size(self, location: str, path: str) -> int | None:
        folder, key = file_place(path, location)
        found = self._stores.at(StoreAddress.of(folder, self._storage)).head(key)
        return None if found is None else found.size


def _unlike(add: Add, found: int | None, *, index: int, location: str) -> InvalidAction:
    has = "there is no such file" if found is None else f"the file has {found}"
    return InvalidAction(
        f"add {add.path} in {location} states {add.size} bytes; {has}",
        hint="write the file before its commit, and state its size in bytes",
        rule="add.file.missing" if found is None else "add.file.size",
        action="add",
        index=index,
        field="path" if found is None else "size",
        found="nothing" if found is None else str(found),
    )
