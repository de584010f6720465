"""What a transaction asks for, as a digest: it tells a retry from another transaction under the same token.

The digest is taken of canonical JSON: keys sorted, fields that are not set left out. It has to come out the same in
every release, whatever order a mapping has and whatever fields are added: a change of the document below is a change
of ``_FORMAT``, and turns every retry across the upgrade into ``TokenReused``.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from deltamirror.delta.actions import Action
from deltamirror.delta.definition import Alteration
from deltamirror.delta.lines import canonical_json, canonical_line
from deltamirror.delta.schema import schema_string

_FORMAT = "deltamirror transaction 1"


class ActionsDigest:
    """A digest of actions as they pass, or of the lines of another writer."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def see(self, action: Action) -> None:
        """Take in an action that is to be authored."""
        self._hash.update(canonical_line(action) + b"\n")

    def see_line(self, line: bytes) -> None:
        """Take in a line that is stored as it is."""
        self._hash.update(line)

    def text(self) -> str:
        """The digest of all that was seen."""
        return self._hash.hexdigest()

    @classmethod
    def of(cls, actions: Iterable[Action], lines: Iterable[bytes] = ()) -> "ActionsDigest":
        """The digest of actions and lines that are at hand."""
        digest = cls()
        for action in actions:
            digest.see(action)
        for line in lines:
            digest.see_line(line)
        return digest


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContent:
    """What a transaction asks of one table."""

    table: str
    operation: str | None
    at_version: int | None
    is_verbatim: bool
    actions: str
    """The digest of its actions, or of its lines."""
    removed: Sequence[tuple[str, bool]] = ()
    """Files to be removed by path, and whether that changes data."""
    alterations: Sequence[Alteration] = field(default=())
    rows: Sequence[str] = ()
    """How each lot of rows is written; the token stands for the rows themselves, which are not compared."""


def content_digest(tables: Iterable[TableContent]) -> bytes:
    """The digest of a transaction; the order in which it names its tables does not count."""
    documents = [_document(each) for each in sorted(tables, key=lambda each: each.table)]
    return hashlib.sha256(canonical_json({"format": _FORMAT, "tables": documents})).digest()


def _document(content: TableContent) -> dict[str, object]:
    return {
        "table": content.table,
        "operation": content.operation,
        "atVersion": content.at_version,
        "verbatim": content.is_verbatim,
        "actions": content.actions,
        "removed": [list(each) for each in content.removed],
        "alterations": [_alteration(each) for each in content.alterations],
        **({"rows": list(content.rows)} if content.rows else {}),
    }


def _alteration(alteration: Alteration) -> dict[str, object]:
    stated = {
        "schema": None if alteration.schema is None else schema_string(alteration.schema),
        "properties": dict(alteration.properties),
        "unset": sorted(alteration.unset),
        "features": sorted(alteration.features),
        "name": alteration.name,
        "description": alteration.description,
    }
    return {name: value for name, value in stated.items() if value is not None and value not in ({}, [])}
