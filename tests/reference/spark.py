"""Delta Lake on Spark as a writer of reference logs; run by a Python that has the release of PySpark."""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import pyspark

from tests.reference.spark_features import FEATURES
from tests.reference.spark_operations import OPERATIONS
from tests.reference.spark_session import Spark
from tests.reference.spark_values import VALUES


def main() -> None:
    """Write the logs of all histories that this release can do, and its name into ``writer.json``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", required=True)
    parser.add_argument("--logs", required=True, type=Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    release = asked.package.rpartition(":")[2]
    failed = []
    with tempfile.TemporaryDirectory(prefix="reference-") as folder:
        spark = Spark.started(asked.package, f"{folder}/warehouse")
        for histories in (OPERATIONS, VALUES, FEATURES):
            for name in [name for name in histories.steps if asked.only and name not in asked.only.split(",")]:
                del histories.steps[name]
            failed += histories.run(spark, folder=Path(folder), logs=asked.logs, release=release)
        spark.session.stop()
    writer = {"writer": "Delta Lake on Spark", "package": asked.package, "pyspark": pyspark.__version__}
    (asked.logs / "writer.json").write_text(json.dumps(writer, indent=2) + "\n")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
