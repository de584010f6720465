"""The daemon hands out workers that have imported what units of work and the format need."""

import socket
import subprocess
import sys
from pathlib import Path

from deltamirror.spark import daemon


def test_a_worker_begins_with_what_it_needs() -> None:
    command = [sys.executable, "-m", daemon.__name__, "pyspark.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int.from_bytes(process.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
            worker = int.from_bytes(answers.read(4))
            libraries = Path(f"/proc/{worker}/maps").read_text()
        assert process.stdin is not None
        process.stdin.close()  # by which Spark ends it
    assert worker != process.pid
    assert [name for name in ("obstore", "libarrow", "psycopg", "pandas") if name not in libraries] == []
