"""Delta Lake tables whose transaction log lives in a SQL database."""

from deltamirror.catalog import Catalog, Committed, HistoryEntry, Snapshot, Table, TableInfo, Transaction
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
    "DeletionVector",
    "DomainMetadata",
    "HistoryEntry",
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
]
