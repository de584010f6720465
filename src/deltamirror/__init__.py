"""Delta Lake tables whose transaction log lives in a SQL database.

A public name is imported when it is first used, so that ``deltamirror --help`` waits for no library of databases.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from deltamirror.catalog import Catalog, Committed, HistoryEntry, Snapshot, Table, TableInfo, Transaction
    from deltamirror.catalog.merges import Delete, Insert, Update
    from deltamirror.delta.actions import (
        Add,
        Cdc,
        CommitInfo,
        DeletionVector,
        DomainMetadata,
        Metadata,
        Protocol,
        Remove,
        Txn,
    )
    from deltamirror.ops.engine import MirrorEngine
    from deltamirror.txnlog.contract import TxnLogWriter
    from deltamirror.txnlog.writer import SqlTxnLogWriter

__all__ = [
    "Add",
    "Catalog",
    "Cdc",
    "CommitInfo",
    "Committed",
    "Delete",
    "DeletionVector",
    "DomainMetadata",
    "HistoryEntry",
    "Insert",
    "Metadata",
    "MirrorEngine",
    "Protocol",
    "Remove",
    "Snapshot",
    "SqlTxnLogWriter",
    "Table",
    "TableInfo",
    "Transaction",
    "Txn",
    "TxnLogWriter",
    "Update",
]

_ELSEWHERE: Final = {
    "MirrorEngine": "deltamirror.ops.engine",
    "SqlTxnLogWriter": "deltamirror.txnlog.writer",
    "TxnLogWriter": "deltamirror.txnlog.contract",
    **dict.fromkeys(("Delete", "Insert", "Update"), "deltamirror.catalog.merges"),
    **dict.fromkeys(
        ("Catalog", "Committed", "HistoryEntry", "Snapshot", "Table", "TableInfo", "Transaction"),
        "deltamirror.catalog",
    ),
}
"""Where public names come from that are no actions."""

_MODULES: Final = ("config", "errors", "spark")
"""Modules that ``import deltamirror`` gives as well."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"deltamirror.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_ELSEWHERE.get(name, "deltamirror.delta.actions")), name)
    globals()[name] = found  # the next use finds it without asking
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
