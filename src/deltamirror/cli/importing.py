"""``deltamirror import``: tables that exist come under SQL, with their history."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Final, TextIO

import click
from msgspec.structs import replace

from deltamirror.cli.failure import one_line
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.cli.parameters import not_empty, whole_number
from deltamirror.cli.progress import Advance, shown
from deltamirror.cli.runners import RUNNERS, require_spark_for_master
from deltamirror.config import Settings, redact_text
from deltamirror.deltalog.gaps import spelled
from deltamirror.errors import AlreadyExists, DeltaMirrorError, NotFound
from deltamirror.ops.imports.discovery import Pattern, find_tables, listed_tables
from deltamirror.ops.imports.importing import Imported, ImportOrder, TableImporter
from deltamirror.pipeline.run.spark.environment import exported_environment
from deltamirror.storage.location import canonical_location
from deltamirror.wiring import open_importer

_EXIT_REFUSED: Final = 2
_HINT_NAME: Final = "name one of them: --list with a line LOCATION NAME"


@click.command("import", epilog="Example: deltamirror import s3://lake/orders --name orders")
@click.argument("location", required=False, callback=not_empty)
@click.option("--name", callback=not_empty, metavar="NAME", help="What the table is called in the catalog.")
@click.option(
    "--from-version",
    type=int,
    callback=whole_number(0),
    metavar="V",
    help="Begin with the oldest checkpoint at or above this version; otherwise as early as the log allows.",
)
@click.option("--dry-run", is_flag=True, help="Read and check the whole log, and store nothing.")
@click.option(
    "--glob",
    "pattern",
    callback=not_empty,
    metavar="PATTERN",
    help="All tables whose folder matches, such as 's3://lake/**'; s3://lake/sales/orders is called sales.orders.",
)
@click.option(
    "--list",
    "listed",
    type=click.File(),
    metavar="FILE",
    help="The tables of a list: in each line LOCATION, or LOCATION NAME.",
)
@click.option(
    "--root",
    callback=not_empty,
    metavar="FOLDER",
    help="With --glob and --list: name tables by their folders below this one; otherwise below the bucket, or /.",
)
@click.option(
    "--runner",
    type=RUNNERS,
    metavar="spark|local",
    help="Read logs on Spark or in this process; otherwise large ones on Spark, by mirror.runner.",
)
@click.option(
    "--master",
    callback=not_empty,
    metavar="URL",
    help="The Spark to run on; over the setting spark.master.",
)
@with_invocation
def import_(
    invocation: Invocation,
    *,
    location: str | None,
    name: str | None,
    from_version: int | None,
    dry_run: bool,
    pattern: str | None,
    listed: TextIO | None,
    root: str | None,
    runner: str | None,
    master: str | None,
) -> None:
    """Import the Delta table at LOCATION, with its history.

    It stays where it is. From then on its commits go through the catalog: other writers have to stop before, or the
    table diverges. Nothing is visible before all of it is imported; an import that was broken off goes on when it is
    called again. With --glob or --list, a table that cannot be imported does not keep the others from it, and the exit
    status is 2; one that is in the catalog already is passed over, whatever its name.
    """
    if sum(each is not None for each in (location, pattern, listed)) != 1:
        raise click.UsageError("say what to import: LOCATION, --glob or --list")
    if (location is None) != (name is None):
        raise click.UsageError("LOCATION and --name go together")
    if location is None and from_version is not None:
        raise click.UsageError("--from-version is a version of the table at LOCATION")
    if location is not None and root is not None:
        raise click.UsageError("--root names the tables of --glob and --list: LOCATION has its --name")
    require_spark_for_master(runner, master)
    loaded = invocation.lasting()
    settings = loaded.settings
    if master is not None:
        runner, settings = "spark", replace(settings, spark=replace(settings.spark, master=master))
    os.environ.update(exported_environment(loaded))  # for executors, if it comes to Spark
    with _opened(invocation, settings, runner) as importer:
        job = _Job(invocation, settings, importer, dry_run)
        if location is not None and name is not None:
            job.import_one(ImportOrder(location=location, name=name, from_version=from_version))
        elif pattern is not None:
            job.import_all(list(find_tables(Pattern.of(pattern), settings.storage, root=root)))
        else:
            job.import_all(list(listed_tables(listed or (), root=root)))


@contextmanager
def _opened(invocation: Invocation, settings: Settings, runner: str | None) -> Iterator[TableImporter]:
    with catalog_of(invocation) as catalog, open_importer(catalog, settings, runner=runner) as importer:
        yield importer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What came of one of several tables."""

    order: ImportOrder
    imported: Imported | None = None
    error: DeltaMirrorError | None = None
    known_as: str = ""
    """The name of the table that the catalog has at the location already."""

    def line(self) -> str:
        if self.known_as:
            return f"In the catalog already: {self.order.location}, as {self.known_as}."
        if self.error is None:
            return "" if self.imported is None else _told(self.imported)
        message = one_line(self.error.message)
        hint = f"; {self.error.hint}" if self.error.hint else ""
        return f"Not imported: {self.order.location}: {self.error.code}: {message}{hint}"

    def document(self) -> dict[str, object]:
        """``imported`` tells what is in the catalog: of a table that was only tried, nothing is."""
        is_there = bool(self.known_as) or (self.imported is not None and self.imported.num_files is not None)
        place = {"name": self.known_as or self.order.name, "location": self.order.location, "imported": is_there}
        return {**place, **({} if self.imported is None else asdict(self.imported)), "error": _document(self.error)}


@dataclass(frozen=True, slots=True)
class _Job:
    """Imports, and tells what came of it."""

    invocation: Invocation
    settings: Settings
    importer: TableImporter
    dry_run: bool

    def import_one(self, order: ImportOrder) -> None:
        """One table; an error of it ends the command."""
        done = self._run(order)
        answer(asdict(done), Lines((_told(done),)), json=self.invocation.json)

    def import_all(self, orders: Sequence[ImportOrder]) -> None:
        """Several tables, some at once."""
        if not orders:
            raise NotFound("there is no Delta table in these places", hint="check the pattern, or the list")
        with ThreadPoolExecutor(self.settings.mirror.concurrency, thread_name_prefix="import") as threads:
            results = _without_clashes(threads.map(self._tried, orders))
        refused = [result for result in results if result.error is not None]
        known = sum(bool(result.known_as) for result in results)
        did = "can be imported" if self.dry_run else "imported"
        summary = f"{len(orders) - len(refused) - known} of {counted(len(orders), 'table')} {did}"
        summary += f"; {known} in the catalog already." if known else "."
        lines = [*(result.line() for result in results), summary]
        document = {"tables": [result.document() for result in results], "refused": len(refused)}
        answer(document, Lines(tuple(lines)), json=self.invocation.json)
        if refused:
            raise click.exceptions.Exit(_EXIT_REFUSED)

    def _tried(self, order: ImportOrder) -> _Result:
        try:
            done = self.importer.check(order) if self.dry_run else self.importer.run(order)
        except AlreadyExists as error:
            known = error.location == canonical_location(order.location)
            return _Result(order=order, known_as=error.table) if known else _Result(order=order, error=error)
        except DeltaMirrorError as error:
            return _Result(order=order, error=error)
        return _Result(order=order, imported=done)

    def _run(self, order: ImportOrder) -> Imported:
        work = self.importer.check if self.dry_run else self.importer.run
        with ExitStack() as stack:
            return work(order, observe=_Progress(stack, self.invocation, self.settings))


class _Progress:
    """Shows how far an import is, from when it is known how long it is."""

    def __init__(self, stack: ExitStack, invocation: Invocation, settings: Settings) -> None:
        self._stack, self._invocation, self._settings = stack, invocation, settings
        self._advance: Advance | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        if self._advance is None:
            view = shown(total, quiet=self._invocation.json, log=self._settings.log, done="imported")
            self._advance = self._stack.enter_context(view)
        self._advance(done - self._done)
        self._done = done


def _without_clashes(results: Iterable[_Result]) -> list[_Result]:
    """Tables that were only tried may have names that exclude each other: the first of them can be imported."""
    named: dict[str, str] = {}
    judged = []
    for result in results:
        order = result.order
        other = order.location if result.imported is None else named.setdefault(order.name, order.location)
        judged.append(result if other == order.location else _clashing(order, other))
    return judged


def _clashing(order: ImportOrder, other: str) -> _Result:
    message = f"{other} and {order.location} are both called {order.name!r}"
    return _Result(order=order, error=AlreadyExists(message, hint=_HINT_NAME, table=order.name))


def _told(done: Imported) -> str:
    versions = spelled([range(done.first, done.last + 1)])
    base = "" if done.base is None else f", the first from {done.base}"
    if done.num_files is None:
        return f"{done.location} can be imported as {done.name}: {versions}{base}."
    return f"Imported {done.name} from {done.location}: {versions}{base}; {counted(done.num_files, 'file')}."


def _document(error: DeltaMirrorError | None) -> dict[str, object] | None:
    return None if error is None else {**error.as_json(), "message": redact_text(error.message)}
