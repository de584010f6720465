"""Tables of a catalog as a data source of Spark, for ``spark.read.format("deltamirror")`` and ``df.write``."""

from importlib import import_module

from deltamirror.errors import MissingExtra

__all__ = ["register"]


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
