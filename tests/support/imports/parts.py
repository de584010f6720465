"""Histories from elsewhere, brought into a catalog part by part."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from deltamirror import Catalog, Table
from deltamirror.delta.actions import Add, Remove
from deltamirror.delta.replay import State, checkpoint_actions
from deltamirror.deltalog.checkpoint.decoded import adds_table, removes_table
from deltamirror.txnlog.imports.importing import Import, ImportedCheckpoint, begin_import
from deltamirror.txnlog.imports.parts import BasePart, CommitPart, base_part, commit_parts
from tests.support.lakes.lake import execute

Part: TypeAlias = CommitPart | BasePart


def begun(
    catalog: Catalog,
    name: str = "t",
    *,
    location: str | None = None,
    first: int = 0,
    base: str | None = None,
    owner: str = "me",
) -> Import:
    """An import that begins, or goes on."""
    location = location or f"/nowhere/lake/{name}"
    return begin_import(catalog.database, name=name, location=location, first=first, base=base, owner=owner)


def abandon(catalog: Catalog) -> None:
    """Let a minute pass for the imports that are under way."""
    execute(catalog, "UPDATE dl_imports SET touched_at = touched_at - 60001")


def file_parts(
    table_id: int, version: int, data: bytes, *, modified: int | None = None, lines: int | None = None
) -> list[CommitPart]:
    """The parts of a commit file that is read so many lines at a time; all at once, if not told."""
    return list(
        commit_parts(
            _blocks(data, lines),
            table_id=table_id,
            version=version,
            modified=1_000 * (version + 1) if modified is None else modified,
            source=f"{version}.json",
        )
    )


def base_parts(table_id: int, version: int, state: State, *, rows: int = 1_000, modified: int = 500) -> list[BasePart]:
    """The state of a version as a checkpoint has it, so many rows at a time; all tombstones are kept."""
    actions = iter(list(checkpoint_actions(state, tombstones_after=-1)))
    found: list[BasePart] = []
    while some := list(islice(actions, rows)):
        found.append(
            base_part(
                adds_table([(0, each) for each in some if isinstance(each, Add)]).drop_columns(["ordinal"]),
                removes_table([(0, each) for each in some if isinstance(each, Remove)]).drop_columns(["ordinal"]),
                [each for each in some if not isinstance(each, Add | Remove)],
                table_id=table_id,
                version=version,
                part=len(found),
                modified=modified,
            )
        )
    return found


def import_files(
    catalog: Catalog,
    files: Mapping[int, bytes],
    *,
    name: str = "t",
    location: str | None = None,
    first: int = 0,
    base: State | None = None,
    checkpoint: ImportedCheckpoint | None = None,
    modified: Mapping[int, int] | None = None,
) -> Table:
    """Import commit files by version; with a ``base``, the first version comes from that state."""
    importing = begun(catalog, name, location=location, first=first, base=None if base is None else "its checkpoint")
    if base is not None:
        importing.store(base_parts(importing.table_id, first, base))
    for version, data in sorted(files.items()):
        time = None if modified is None else modified[version]
        importing.store(file_parts(importing.table_id, version, data, modified=time))
    importing.complete(base=checkpoint)
    return catalog.table(name)


def _blocks(data: bytes, lines: int | None) -> Iterator[bytes]:
    if lines is None:
        yield data
        return
    each = iter(data.splitlines(keepends=True))
    while some := b"".join(islice(each, lines)):
        yield some
