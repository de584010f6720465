"""Workers that fork a process for each request: what they have imported, no child imports again."""

import gc
from importlib import import_module
from pkgutil import walk_packages

import deltamirror

_DRIVERS = (
    "duckdb_engine",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
)


def import_everything() -> None:
    """Import the package, and the drivers that are imported when used."""
    names = [each.name for each in walk_packages(deltamirror.__path__, "deltamirror.") if "__main__" not in each.name]
    for name in (*_DRIVERS, *names):
        import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages of all of it
