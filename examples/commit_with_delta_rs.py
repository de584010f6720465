"""Append rows to a table of deltamirror with delta-rs, over HTTP: no SQL, no Spark, and no deltamirror on this machine.

    python commit_with_delta_rs.py http://127.0.0.1:8765 sales.orders

delta-rs writes the data files, into a folder of their own within the table. The commit API adds them to the table, as
its next version. It is for tables on disk; elsewhere, read that log by the library of your
store. The variable TOKEN has a token that may write: `deltamirror token issue loader --rights write`.
"""

import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from deltalake import write_deltalake


def main(server: str, table: str) -> None:
    head = ask(server, f"tables/{table}/head")
    files = written_files(head["location"], f"load-{uuid4()}", pa.table({"id": [1, 2, 3]}))
    actions = "".join(json.dumps({"add": file}) + "\n" for file in files)
    committed = ask(server, f"tables/{table}/commits", actions.encode())
    print(f"{table} has version {committed['versions'][table]}")


def written_files(location: str, folder: str, rows: pa.Table) -> list[dict[str, Any]]:
    """The add actions of data files that delta-rs wrote; its own log of them is not needed."""
    place = f"{location}/{folder}"
    write_deltalake(place, rows)
    log = Path(unquote(place.removeprefix("file://"))) / "_delta_log"
    lines = (log / f"{0:020}.json").read_text(encoding="utf-8").splitlines()
    shutil.rmtree(log)
    adds = [action["add"] for action in map(json.loads, lines) if "add" in action]
    return [{**add, "path": f"{folder}/{add['path']}"} for add in adds]


def ask(server: str, path: str, body: bytes | None = None) -> dict[str, Any]:
    """Send a request until there is an answer: a commit has a key, and is one commit however often it is sent."""
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}", "Idempotency-Key": str(uuid4())}
    request = urllib.request.Request(f"{server.rstrip('/')}/api/v1/{path}", body, headers)
    for pause in (0.1, 1, 5, 25):
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise SystemExit(error.read().decode()) from error
        except OSError:
            pass  # the server is away, or its answer was lost
        time.sleep(pause)
    raise SystemExit(f"{server} gives no answer")


if __name__ == "__main__":
    main(*sys.argv[1:])
