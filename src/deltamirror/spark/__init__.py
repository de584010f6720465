"""Spark: tables of a catalog as the format ``deltamirror``, and stock Delta Lake jobs that commit through SQL."""

from importlib import import_module

from deltamirror.errors import MissingExtra
from deltamirror.spark.logstore import configure
from deltamirror.spark.transactions import transaction

__all__ = ["configure", "register", "transaction"]


def register(spark: object) -> None:
    """Make ``format("deltamirror")`` known to a session, classic or of Spark Connect."""
    try:
        source = import_module("deltamirror.spark.source")
    except ImportError as error:
        raise MissingExtra(
            f"the format deltamirror needs Spark, which is not installed: {error.name}",
            hint="pip install 'deltamirror[spark]'",
            extra="spark",
        ) from error
    source.register(spark)
