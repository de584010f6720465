"""What the process does that measures appends of stock jobs."""

import statistics
import time

from benchmarks.stock_spark import stock_session
from deltamirror.spark.logstore import settings_of_jobs
from tests.support.readers.delta_spark import DELTA_PACKAGE, S3_PACKAGES

SCHEMA = "id long, name string"
_WARM = 5


def appends(
    *, server: str, token: str, roots: dict[str, str], hadoop: dict[str, str], count: int
) -> dict[str, tuple[float, float]]:
    """By store, the median milliseconds of an append of one row: to a table of the server, and to a plain one.

    Both are appended to in turns, in one session: its LogStore leaves plain locations to the one of Delta Lake.
    """
    ours = [f"{root}/ours" for root in roots.values()]
    session = stock_session(
        {
            **settings_of_jobs(server=server, token=token, schemes=("file", "s3a"), locations=ours),
            **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.jars.packages": ",".join([DELTA_PACKAGE, *S3_PACKAGES]),
            "spark.jars.excludes": "software.amazon.awssdk:bundle",
        }
    )
    row = session.range(1).selectExpr("id", "'x' AS name").repartition(1)

    def append(location: str) -> float:
        begin = time.perf_counter()
        row.write.format("delta").mode("append").save(location)
        return (time.perf_counter() - begin) * 1e3

    found = {}
    for store, root in roots.items():
        times = [(append(f"{root}/ours"), append(f"{root}/plain")) for _ in range(_WARM + count)][_WARM:]
        through_us, plain = zip(*times, strict=True)
        found[store] = (statistics.median(through_us), statistics.median(plain))
    return found
