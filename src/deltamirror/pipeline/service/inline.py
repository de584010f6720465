"""Publishing by the writer itself, right after COMMIT: small commits, within a time budget, or not at all."""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

from deltamirror.config import LiveSettings, Switch
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.service.engine import PublishingEngine
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import bytes_since
from deltamirror.txnlog.tables.registry import MirrorState, table_info

_log = logging.getLogger(__name__)


class InlinePublisher:
    """Publishes what its process commits. Whatever goes wrong is left to the service: the commit has succeeded."""

    def __init__(self, database: Database, live: LiveSettings) -> None:
        self._database, self._live = database, live
        self._engine = PublishingEngine(settings=live, database=database, runner=InProcessRunner(database, live))
        threads = live.current.mirror.concurrency
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="deltamirror-inline")

    def publish(self, versions: Mapping[str, int]) -> None:
        """Publish these versions of tables, each of them if the commits that wait there are small. Never raises."""
        deadline = time.monotonic() + self._live.current.mirror.inline_timeout
        under_way = {table: self._begun(table, version) for table, version in versions.items()}
        for table, future in under_way.items():
            if why := _trouble(future, max(0.0, deadline - time.monotonic())):
                fields = {"table": table, "version": (version := versions[table])}
                _log.warning("version %d of table %r is left to the service: %s", version, table, why, extra=fields)

    def close(self) -> None:
        """Give up what has not begun, and wait for what has."""
        self._engine.stop()
        self._pool.shutdown(cancel_futures=True)
        self._engine.close()

    def _begun(self, table: str, version: int) -> Future[None]:
        try:
            return self._pool.submit(self._publish, table, version)
        except RuntimeError:  # the catalog was closed after COMMIT
            closed = Future[None]()
            closed.cancel()
            return closed

    def _publish(self, table: str, version: int) -> None:
        with self._database.read() as connection:
            info = table_info(connection, table, Switch.of(self._live.current))
            published = -1 if info.published is None else info.published
            waiting = sum(num_bytes for _, num_bytes in bytes_since(connection, info.id, published, version))
        if info.state is MirrorState.ACTIVE and waiting <= self._live.current.mirror.inline_bytes:
            # Checkpoints take longer than a writer should wait. The one that is due is asked for.
            self._engine.mirror(table, version, checkpoint=False)


def _trouble(future: Future[None], seconds: float) -> str:
    """What keeps the publishing from ending well within so many seconds; empty: nothing."""
    try:
        future.result(seconds)
    except TimeoutError:
        future.cancel()
        return "it takes longer than mirror.inline_timeout"
    except CancelledError:
        return "the catalog was closed"
    except Exception as error:  # noqa: BLE001  the commit has succeeded, whatever publishing does
        return str(our_error(error))
    return ""
