"""A driver of its own with one transaction: ``python -m tests.support.spark.transaction_driver JOB``.

The job is JSON: ``master``, ``settings`` of Spark, ``statements`` and the ``stage``.
"""

import json
import sys

from pyspark.sql import SparkSession

from deltamirror.spark import transaction
from tests.support.readers.delta_spark import SETTINGS


def main() -> None:
    """Print the versions once they are committed."""
    job = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(job["master"]).appName("deltamirror-transaction")
    session = builder.config(map={**SETTINGS, **job["settings"], "spark.driver.memory": "1g"}).getOrCreate()
    with transaction(session, stage=job["stage"]) as begun:
        for statement in job["statements"]:
            session.sql(statement).collect()
    print(json.dumps(dict(begun.versions)))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
