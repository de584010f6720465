"""A driver of its own with one transaction: ``python -m tests.support.spark.transaction_driver JOB``.

The job is JSON: ``master``, ``settings`` of Spark, ``statements`` and the ``stage``.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

from deltamirror.spark import transaction
from tests.support.readers.delta_spark import SETTINGS


def main() -> None:
    """Print the versions once they are committed."""
    job = json.loads(sys.argv[1])
    settings = {**SETTINGS, **job["settings"], "spark.driver.memory": "1g"}
    # As spark-submit gets it: in the builder, it would take the place of the packages for executors of a cluster.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {settings.pop('spark.jars')} pyspark-shell"
    builder = SparkSession.builder.master(job["master"]).appName("deltamirror-transaction")
    session = builder.config(map=settings).getOrCreate()
    with transaction(session, stage=job["stage"]) as begun:
        for statement in job["statements"]:
            session.sql(statement).collect()
    print(json.dumps(dict(begun.versions)))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
