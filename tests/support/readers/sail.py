"""Sail (``pysail``), whose implementation of Delta is its own, as a worker: a server on loopback, asked as Spark is.

It shows neither protocol nor metadata but the schema, no files, and not the version that it read unless that was asked
for.
"""

import json
import os
from importlib.metadata import version as version_of
from typing import Any

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from tests.support.readers.rows import fingerprint
from tests.support.readers.s3_access import S3Access
from tests.support.suite.worker import serve, take_stdout


class Sail:
    """Answers requests; each in a session of its own, because a session keeps its clients of a bucket."""

    def __init__(self, server: SparkConnectServer) -> None:
        address, port = server.listening_address
        self._remote = f"sc://{address}:{port}"

    def answer(self, request: dict[str, Any]) -> object:
        """What one request asks, by a session that has seen nothing before."""
        session = SparkSession.builder.remote(self._remote).create()
        try:
            if "append" not in request:
                return _shown(session, request)
            session.range(1).write.format("delta").mode("append").save(request["append"])
            return None
        finally:
            session.stop()


def _shown(session: Any, request: dict[str, Any]) -> dict[str, object]:
    if s3 := S3Access.asked(request):
        os.environ.update(s3.environment())
    reader, version = session.read.format("delta"), request["version"]
    data = (reader if version is None else reader.option("versionAsOf", version)).load(request["location"])
    return {
        "version": version,
        "protocol": None,
        "metadata": None,
        "schema": json.loads(data.schema.json()),
        "files": None,
        "rows": fingerprint(data.toArrow()) if request["rows"] else None,
    }


if __name__ == "__main__":
    answers = take_stdout()
    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    serve(answers, f"Sail {version_of('pysail')}", Sail(server).answer)
    server.stop()
