"""Readers open what was published; whatever differs from the model is a finding."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.admission.cases import Tried
from tests.support.readers.reader import Reader
from tests.support.suite.worker import Worker

MODULES: Final = {
    "delta-rs": "tests.support.readers.delta_rs",
    "duckdb": "tests.support.readers.duckdb",
    "delta-spark": "tests.support.readers.delta_spark",
}
UNABLE: Final[Mapping[tuple[str, str], str]] = {
    ("delta-rs", "feature typeWidening"): "delta-rs 1.6 knows no typeWidening",
    ("delta-rs", "feature typeWidening-preview"): "nor its preview",
    ("delta-rs", "feature vacuumProtocolCheck"): "nor vacuumProtocolCheck",
    ("delta-rs", "feature variantShredding"): "nor variantShredding",
    ("delta-rs", "feature variantShredding-preview"): "nor its preview",
    ("duckdb", "feature variantShredding"): "DuckDB 1.5.5 knows no variantShredding",
    ("duckdb", "void"): "nor the type void, which Delta Spark writes and delta-rs reads",
}
"""What readers do not open, whoever wrote the table: by reader and trait."""

LIMITATIONS: Final[Mapping[tuple[str, str], str]] = {
    ("duckdb", "mapped partition"): "DuckDB 1.5.5 reads null from a partition column that has a physical name",
}
"""What readers get wrong, whoever wrote the table: by reader and trait. The table has to open all the same."""


@contextmanager
def open_readers(folder: Path, names: Sequence[str] = tuple(MODULES)) -> Iterator[dict[str, Reader]]:
    """Readers in processes of their own."""
    with ExitStack() as stack, ThreadPoolExecutor(len(names) or 1) as pool:
        workers = dict(zip(names, pool.map(lambda name: _worker(folder, name), names), strict=True))
        for worker in workers.values():
            stack.callback(worker.close)
        yield {name: Reader(worker) for name, worker in workers.items()}


def _worker(folder: Path, name: str) -> Worker:
    own = folder / f"reader-{name}"
    own.mkdir()
    return Worker(MODULES[name], own)


def read_all(readers: Mapping[str, Reader], tried: Sequence[Tried]) -> dict[str, list[str]]:
    """What is wrong with each case, by its name: from the way there, and from every reader."""
    wrong = {each.name: list(each.findings) for each in tried if each.findings}
    tables = [each for each in tried if each.rows is not None]
    for name, reader in readers.items():
        for each, problem in _problems(name, reader, tables):
            found = wrong.setdefault(each.name, [])
            if not any(text.startswith(f"{name}: ") for text in found):
                found.append(f"{name}: {problem}")
    return wrong


def _problems(name: str, reader: Reader, tables: Sequence[Tried]) -> Iterator[tuple[Tried, str]]:
    """A filter makes the kernel parse statistics; Delta Spark, which takes a second for each question, is lenient."""
    asked: list[tuple[str, str | None]] = [(each.location, None) for each in tables]
    wanted = [(each, each.rows or ()) for each in tables]
    if name != "delta-spark":
        filtered = [each for each in tables if each.column]
        asked += [(each.location, each.column) for each in filtered]
        wanted += [(each, each.filtered) for each in filtered]
    for (each, rows), answer in zip(wanted, reader.rows_of(asked), strict=True):
        if problem := _problem(name, each, rows, answer):
            yield each, problem


def _problem(reader: str, tried: Tried, rows: Sequence[str], answer: Mapping[str, Any]) -> str:
    if "error" in answer:
        unable = any((reader, trait) in UNABLE for trait in tried.traits)
        return "" if unable else " ".join(str(answer["error"]).split())[:400]
    found = answer["rows"]
    if found == list(rows) or any((reader, trait) in LIMITATIONS for trait in tried.traits):
        return ""
    missing, more = [row for row in rows if row not in found], [row for row in found if row not in rows]
    return f"{len(found)} rows for {len(rows)}; missing {missing[:2]}; instead {more[:2]}"
