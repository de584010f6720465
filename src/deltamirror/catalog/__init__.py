"""The Python face of deltamirror: catalogs, tables, transactions.

>>> from deltamirror import Add, Catalog
>>> catalog = Catalog("sqlite:///:memory:")
>>> catalog.init()
10
>>> orders = catalog.create_table(
...     "sales.orders", location="/lake/orders", schema="id long, day date", partition_by=["day"]
... )
>>> file = Add(
...     path="day=2024-05-01/a.parquet",
...     partition_values={"day": "2024-05-01"},
...     size=100,
...     modification_time=1714521600000,
...     data_change=True,
...     stats='{"numRecords":3}',
... )
>>> with catalog.transaction() as tx:
...     tx.append("sales.orders", [file])
>>> tx.result.versions
{'sales.orders': 1}
>>> orders.snapshot().files().column("path").to_pylist()
['day=2024-05-01/a.parquet']
"""

from deltamirror.catalog.catalog import Catalog
from deltamirror.catalog.table import Table
from deltamirror.catalog.transaction import Transaction
from deltamirror.txnlog.commit.request import Committed
from deltamirror.txnlog.tables.history import HistoryEntry
from deltamirror.txnlog.tables.reading import Snapshot
from deltamirror.txnlog.tables.registry import TableInfo

__all__ = ["Catalog", "Committed", "HistoryEntry", "Snapshot", "Table", "TableInfo", "Transaction"]
