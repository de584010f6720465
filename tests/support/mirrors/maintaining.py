"""Services that maintain tables as soon as there is anything to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import Settings
from deltamirror.txnlog.queue.chore_records import ChoreRecord
from deltamirror.work import Chore
from tests.support.mirrors.local import following, local_settings


def maintaining(**more: Any) -> Settings:
    """Settings of a service that looks for work all the time, and takes all the time that it needs."""
    wanted = {"interval": 0.05, "share": 100.0, "small_files": 3, **more}
    return replace(local_settings(), maintenance=replace(Settings().maintenance, **wanted))


@contextmanager
def maintaining_service(catalog: Catalog, **more: Any) -> Iterator[MirrorEngine]:
    """Such a service, in a thread."""
    with MirrorEngine(settings=maintaining(**more), database=catalog.database) as engine, following(engine):
        yield engine


def chore_record(engine: MirrorEngine, chore: Chore, table: str = "t") -> ChoreRecord | None:
    """What is recorded of a chore of a table."""
    [status] = engine.status(table)
    return next((each for each in status.maintenance if each.chore is chore), None)
