"""What the processes do that measure one large commit; each has a fresh process for itself."""

import random
import statistics
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.adds import PARTITION_COLUMN, read_adds
from benchmarks.bare_bulk import loader, rows_of
from benchmarks.child import memory_now, memory_peak
from benchmarks.lab import TABLE, Place
from benchmarks.writers import DELTA_RS, delta_rs_action, delta_rs_schema, prepare
from deltamirror import Add, Catalog
from deltamirror.delta.lines import read_ndjson

_SAMPLE = 10_000
_REMOVES = 7


def commit(*, place: dict[str, str], source: str, path: str) -> dict[str, float]:
    """One large commit; structs are in memory before it begins, Arrow and NDJSON are read as it goes."""
    file, where = Path(path), Place(**place)
    with Catalog(where.url) as catalog:
        catalog.table(TABLE)  # connected
        match source:
            case "structs":
                held = list(read_adds(file))
                return _measured(lambda: catalog.table(TABLE).append(held))
            case "arrow":
                return _measured(lambda: _append_arrow(catalog, file))
            case _:
                return _measured(lambda: _append_ndjson(catalog, file))


def _append_arrow(catalog: Catalog, file: Path) -> None:
    with pa.OSFile(str(file)) as stream, pa.ipc.open_stream(stream) as reader:
        catalog.table(TABLE).append(reader)


def _append_ndjson(catalog: Catalog, file: Path) -> None:
    with file.open("rb") as stream, catalog.transaction() as transaction:
        transaction.stage(TABLE, read_ndjson(stream, source=file.name))


def _measured(work: Callable[[], object]) -> dict[str, float]:
    held, computed = memory_now(), time.process_time()
    seconds = _timed(work)
    return {"seconds": seconds, "computed": time.process_time() - computed, "input": held, "peak": memory_peak()}


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def read_lines(*, place: dict[str, str]) -> float:
    """Seconds to read the bytes of the commit."""
    with Catalog(Place(**place).url) as catalog:
        table = catalog.table(TABLE)
        return _timed(lambda: table.commit_file(1))


def list_files(*, place: dict[str, str]) -> float:
    """Seconds to have all files of the table as Arrow data."""
    with Catalog(Place(**place).url) as catalog:
        snapshot = catalog.table(TABLE).snapshot()
        return _timed(snapshot.files)


def remove_one(*, place: dict[str, str], path: str) -> float:
    """Milliseconds to remove one file of the table."""
    with Catalog(Place(**place).url) as catalog:
        table = catalog.table(TABLE)
        return _median_milliseconds(lambda add: table.remove([add.path]), _sample(path))


def _sample(path: str) -> list[Add]:
    return random.Random(5).sample(list(islice(read_adds(Path(path)), _SAMPLE)), _REMOVES)


def _median_milliseconds(work: Callable[[Add], object], files: Iterable[Add]) -> float:
    # The first one is the warm-up.
    taken = [_timed(lambda add=add: work(add)) for add in files][1:]  # type: ignore[misc]
    return statistics.median(taken) * 1e3


def bare_load(*, source: dict[str, str], target: dict[str, str]) -> dict[str, float]:
    """Insert the rows of a large commit by the driver alone."""
    rows = rows_of(Place(**source))
    with loader(Place(**target)) as load:
        return _measured(lambda: load(rows))


def delta_rs_commit(*, place: dict[str, str], path: str) -> dict[str, float]:
    """The same commit by delta-rs, from actions in memory."""
    where = Place(**place)
    prepare(DELTA_RS, where)
    actions: list[Any] = [delta_rs_action(add) for add in read_adds(Path(path))]
    table, schema = DeltaTable(where.folder), delta_rs_schema()
    return _measured(lambda: table.create_write_transaction(actions, "append", schema, [PARTITION_COLUMN]))


def delta_rs_open(*, place: dict[str, str]) -> float:
    """Seconds to open the table with delta-rs and list its files."""
    folder = Place(**place).folder
    return _timed(lambda: DeltaTable(folder).get_add_actions())
