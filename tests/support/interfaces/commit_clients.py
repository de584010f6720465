"""Writers that commit over HTTP, and the lines that they send."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import msgspec

from deltamirror.txnlog.access.tokens import Right
from tests.support.interfaces.status_pages import Answer, Client, Served

UNTIMED = {"delta.enableInCommitTimestamps": "false"}
"""Of tables to which lines with any time may be committed."""


def commit_lines(*paths: str, operation: str = "WRITE") -> bytes:
    """The file of a commit that adds these data files, as another writer makes it."""
    info = {"timestamp": 1_700_000_000_000, "operation": operation, "operationParameters": {}}
    return msgspec.json.encode({"commitInfo": info}) + b"\n" + action_lines(*paths)


def action_lines(*added: str, removed: Sequence[str] = ()) -> bytes:
    """Actions that add and remove data files."""
    file = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    gone = {"deletionTimestamp": 1, "dataChange": True}
    actions: list[Any] = [{"add": {"path": path, **file}} for path in added]
    actions += [{"remove": {"path": path, **gone}} for path in removed]
    return b"".join(msgspec.json.encode(action) + b"\n" for action in actions)


def framed(*commits: tuple[str, int | None, bytes], **more: object) -> bytes:
    """Commits of several tables in one body; without a version they are actions, of which ``more`` is said."""
    body = b""
    for table, version, data in commits:
        asked = more if version is None else {"version": version}
        body += msgspec.json.encode({"commit": {"table": table, **asked, "bytes": len(data)}}) + b"\n" + data
    return body


def unframed(body: bytes) -> list[tuple[int, bytes]]:
    """The versions in an answer, with their files."""
    found: list[tuple[int, bytes]] = []
    while body:
        head, _, rest = body.partition(b"\n")
        frame = msgspec.json.decode(head)["commit"]
        found.append((frame["version"], rest[: frame["bytes"]]))
        body = rest[frame["bytes"] :]
    return found


@dataclass(frozen=True, slots=True)
class Writer:
    """A client of the commit API with a token."""

    client: Client
    token: str

    def get(self, path: str) -> Answer:
        return self.client.ask("GET", f"/api/v1{path}", headers=self._headers())

    def post(self, path: str, body: bytes | Iterator[bytes], key: str | None = None) -> Answer:
        headers = {**self._headers(), "Idempotency-Key": str(uuid4()) if key is None else key}
        return self.client.ask("POST", f"/api/v1{path}", body, headers)

    def commit(self, table: str, version: int, body: bytes | Iterator[bytes], key: str | None = None) -> Answer:
        return self.post(f"/tables/{table}/commits/{version}", body, key)

    def append(self, table: str, body: bytes | Iterator[bytes], key: str | None = None, **query: object) -> Answer:
        """Commit actions as the next version."""
        return self.post(f"/tables/{table}/commits?{urlencode(query)}", body, key)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def writer_of(page: Served, name: str = "job", right: Right = Right.WRITE, tables: str = "*") -> Writer:
    """A writer with a token of its own."""
    return Writer(Client(page.port), page.token(name, right, tables))
