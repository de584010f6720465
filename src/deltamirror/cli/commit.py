"""``deltamirror commit``: actions from a file or a pipe become a version."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

import click

from deltamirror.catalog import Committed
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Lines, answer, moment
from deltamirror.cli.parameters import not_empty, seconds, whole_number
from deltamirror.delta.action_lines import ActionLines
from deltamirror.delta.bounds import LONGEST_LINE
from deltamirror.delta.lines import read_ndjson

logger = logging.getLogger(__name__)


@click.command(epilog="Example: deltamirror commit orders actions.jsonl --token load-7")
@click.argument("table")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--at-version",
    type=int,
    callback=whole_number(0),
    metavar="N",
    help="Become exactly version N, or fail with a conflict.",
)
@click.option(
    "--read-version",
    type=int,
    callback=whole_number(0),
    metavar="R",
    help="The version that the actions were computed from; later commits are checked for conflicts.",
)
@click.option(
    "--token",
    callback=not_empty,
    metavar="T",
    help="Used again with the same actions, returns the version of the first time.",
)
@click.option(
    "--operation",
    callback=not_empty,
    metavar="NAME",
    help="The operation that the history shows, such as WRITE or DELETE.",
)
@click.option(
    "--rows-checked",
    is_flag=True,
    help="The rows of the added files were checked against the table's constraints, which the log cannot show.",
)
@click.option(
    "--verify-files",
    is_flag=True,
    help="Look up each added file in the store before the commit: it has to be there, with the stated size.",
)
@click.option("--verbatim", is_flag=True, help="Store complete lines, commitInfo included, as they are.")
@click.option(
    "--wait",
    type=float,
    callback=seconds,
    metavar="SECONDS",
    help="Wait until the version is published, for so long at most; exit status 3 if it is not by then.",
)
@with_invocation
def commit(
    invocation: Invocation,
    *,
    table: str,
    file: Path,
    at_version: int | None,
    read_version: int | None,
    token: str | None,
    operation: str | None,
    rows_checked: bool,
    verify_files: bool,
    verbatim: bool,
    wait: float | None,
) -> None:
    """Commit the actions in FILE (`-` for standard input) to TABLE.

    FILE holds one JSON action a line: add, remove, txn, metaData, protocol, domainMetadata, cdc. Either all of them
    become one version, or nothing is written. Without --read-version, a commit that only adds files goes after
    whatever is there, unless schema or properties change while it is being read; a remove is checked against the whole
    table. With --wait the commit is done before the waiting begins: it stays, however that ends.
    """
    _require_consistent(at_version=at_version, read_version=read_version, verbatim=verbatim, operation=operation)
    with catalog_of(invocation) as catalog, _opened(file) as stream:
        with catalog.transaction(token=token, operation=operation, rows_checked=rows_checked) as tx:
            if at_version is not None and verbatim:
                tx.stage_lines(table, stream, at_version=at_version, verify_files=verify_files)
            else:
                actions = read_ndjson(stream, source=stream.name)
                tx.stage(table, actions, read_version=read_version, at_version=at_version, verify_files=verify_files)
            with stream.named_in_errors():
                tx.commit()
        result = tx.result
        try:
            if wait is not None:
                published = catalog.wait_until_published(result.versions, seconds=wait)
                result = replace(result, versions=published)
        except KeyboardInterrupt:
            # Who gives up waiting has committed nevertheless, and has to know as what.
            _answer(invocation, table, result)
            raise
        _answer(invocation, table, result)


def _require_consistent(
    *, at_version: int | None, read_version: int | None, verbatim: bool, operation: str | None
) -> None:
    if at_version is not None and read_version is not None:
        raise click.UsageError("give --at-version or --read-version, not both")
    if verbatim and at_version is None:
        raise click.UsageError("--verbatim needs --at-version: complete lines name their version")
    if verbatim and operation is not None:
        raise click.UsageError("--verbatim and --operation exclude each other: complete lines hold their operation")


@contextmanager
def _opened(file: Path) -> Iterator[ActionLines]:
    if str(file) == "-":
        logger.info("reading standard input")
        yield ActionLines(_lines(sys.stdin.buffer), "standard input")
    else:
        with file.open("rb") as stream:
            yield ActionLines(_lines(stream), str(file))


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    # One byte more than the longest that is taken tells a line that is too long, without reading all of it.
    return iter(partial(stream.readline, LONGEST_LINE + 1), b"")


def _answer(invocation: Invocation, table: str, result: Committed) -> None:
    version = result.versions[table]
    done = "was committed before as" if result.already_applied else "is at"
    document = {
        "table": table,
        "version": version,
        "timestamp": result.timestamp,
        "already_applied": result.already_applied,
    }
    said = Lines((f"{table} {done} version {version} ({moment(result.timestamp)}).",))
    answer(document, said, json=invocation.json)
