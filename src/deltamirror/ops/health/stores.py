"""Whether the stores of a catalog answer: one request to each, for an object that has to be there."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from msgspec.structs import replace

from deltamirror.config import LiveSettings, StorageSettings
from deltamirror.delta.names import commit_key
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.health.catalog import trouble
from deltamirror.ops.health.report import HealthFinding, HealthState
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.location import store_prefix
from deltamirror.storage.open import Stores
from deltamirror.txnlog.queue.expected_objects import KeptLog

_MOST_STORES: Final = 16
"""So many stores are asked with one check."""


class StoreProbes:
    """Asks one table of each store, all stores at once, each within the time of a check and without retries."""

    def __init__(self, live: LiveSettings, calls: StoreCalls) -> None:
        self._live, self._calls = live, calls
        self._stores = Stores.with_keys(live)

    def findings(self, logs: Iterable[KeptLog], *, without: Iterable[str]) -> list[HealthFinding]:
        """What is wrong with stores, but for those whose circuit says so already."""
        chosen = _one_of_each(logs, set(without))
        if not chosen:
            return []
        with ThreadPoolExecutor(len(chosen), thread_name_prefix="deltamirror-health") as pool:
            return [found for found in pool.map(self._finding, chosen) if found is not None]

    def _finding(self, log: KeptLog) -> HealthFinding | None:
        store = store_prefix(log.location)
        # The first commit of an imported log may have no file.
        key = commit_key(log.published) if log.published > log.log_start else POINTER_KEY
        hint = "check the store, its disk or its network; raise `health.timeout` if it is only slow"
        act = partial(self._has, log, key)
        try:
            found = self._calls.run(act, location=log.location, doing="reach", seconds=self._seconds, hint=hint)
        except DeltaMirrorError as error:
            return trouble(error)
        except Exception as error:  # noqa: BLE001  a check never fails as a whole
            return trouble(our_error(error))
        if found or key == POINTER_KEY:
            return None
        return HealthFinding(
            state=HealthState.DEGRADED,
            reason=f"store {store} answers, and {key} of table {log.name!r} is not there",
            advice="check that the right bucket or disk is mounted; `deltamirror reconcile` compares the logs",
        )

    @property
    def _seconds(self) -> float:
        return self._live.current.health.timeout

    def _has(self, log: KeptLog, key: str) -> bool:
        return self._stores.at(StoreAddress.of(log.location, self._storage())).head(key) is not None

    def _storage(self) -> StorageSettings:
        seconds, storage = self._seconds, self._live.current.storage
        return replace(storage, connect_timeout=min(seconds, storage.connect_timeout), retries=0, timeout=seconds)


def _one_of_each(logs: Iterable[KeptLog], without: set[str]) -> Sequence[KeptLog]:
    """One log of each store; one that something was published to, if there is such a log."""
    chosen: dict[str, KeptLog] = {}
    for log in sorted(logs, key=lambda log: (log.published < 0, log.table_id)):
        store = store_prefix(log.location)
        if store not in without:
            chosen.setdefault(store, log)
    return list(chosen.values())[:_MOST_STORES]
