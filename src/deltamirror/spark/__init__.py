"""Tables of a catalog as a data source of Spark, for ``spark.read.format("deltamirror")`` and ``df.write``."""

from deltamirror.spark.source import register

__all__ = ["register"]
