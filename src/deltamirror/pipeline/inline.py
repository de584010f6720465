"""Publishing by the writer itself, right after COMMIT: small commits, within a time budget, or not at all."""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime

from msgspec.structs import replace

from deltamirror.config import Settings
from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.engine import MirrorEngine
from deltamirror.pipeline.inprocess import InProcessRunner
from deltamirror.txnlog.backlog import bytes_since
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.tables import table_info

__all__ = ["InlinePublisher"]

_log = logging.getLogger(__name__)


class InlinePublisher:
    """Publishes what its process commits. Whatever goes wrong is left to the service: the commit has succeeded."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._limits = settings.mirror
        # Checkpoints take longer than a writer should wait.
        without = replace(settings, checkpoint=replace(settings.checkpoint, enabled=False))
        self._engine = MirrorEngine(settings=without, database=database, runner=InProcessRunner(database, settings))
        self._pool = ThreadPoolExecutor(settings.mirror.concurrency, thread_name_prefix="deltamirror-inline")

    def publish(self, versions: Mapping[str, int]) -> None:
        """Publish these versions of tables, each of them if the commits that wait there are small."""
        under_way = {table: self._pool.submit(self._publish, table, version) for table, version in versions.items()}
        for table, future in under_way.items():
            try:
                future.result(self._limits.inline_timeout)
            except (DeltaMirrorError, OutOfTime) as error:
                fields = {"table": table, "version": (version := versions[table])}
                _log.warning("version %d of table %r is left to the service: %s", version, table, error, extra=fields)

    def close(self) -> None:
        """Give up what has not begun, and wait for what has."""
        self._engine.stop()
        self._pool.shutdown(cancel_futures=True)
        self._engine.close()

    def _publish(self, table: str, version: int) -> None:
        with self._database.read() as connection:
            info = table_info(connection, table)
            published = -1 if info.published is None else info.published
            waiting = sum(num_bytes for _, num_bytes in bytes_since(connection, info.id, published, version))
        if info.state == "active" and waiting <= self._limits.inline_bytes:
            self._engine.mirror(table, version)
