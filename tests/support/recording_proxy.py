"""A reverse proxy before an S3 server that keeps an access log, and can delay, refuse and lose.

The log is the store's own view of the order of things: a request has arrived when the proxy has read its head, and is
complete when the store has answered all of it, before the client gets to know. Requests are forwarded byte for byte: a
client signs for the proxy's address, and the server checks against the address that the request names.
"""

import asyncio
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Self
from urllib.parse import unquote, urlsplit

import msgspec
import pytest

from deltamirror.config import StorageSettings
from tests.support.http_messages import Message, read_answer, read_body, read_head
from tests.support.seaweed_server import SeaweedServer

__all__ = ["Access", "Fault", "RecordingProxy", "proxy_before", "recording_proxy"]

_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Fault(StrEnum):
    """What befalls a request."""

    UNAVAILABLE = "answered with 503, not forwarded"
    RESET_BEFORE = "connection reset, not forwarded"
    RESET_AFTER = "forwarded, connection reset instead of the answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One request. ``arrived`` and ``completed`` count the events of one proxy, from 1 on."""

    method: str
    key: str
    """Bucket and key, decoded: ``bucket/lake/t/_delta_log/…``."""
    query: str
    arrived: int
    if_match: str | None
    if_none_match: str | None
    completed: int | None = None
    """None: the store did not answer, or was not asked."""
    status: int | None = None
    """The status of the answer, given to the client or lost; None where there was none."""
    fault: Fault | None = None
    body: bytes = field(default=b"", repr=False)
    """What was sent."""

    @classmethod
    def of(cls, request: Message, arrived: int) -> Self:
        """The entry of a request that has arrived."""
        method, target, _ = request.first_line
        parts = urlsplit(target)
        return cls(
            method=method,
            key=unquote(parts.path).lstrip("/"),
            query=parts.query,
            arrived=arrived,
            if_match=request.header("if-match"),
            if_none_match=request.header("if-none-match"),
        )


@dataclass(slots=True)
class _Trouble:
    fault: Fault
    when: Callable[[Access], bool]
    times: int


@dataclass
class RecordingProxy:
    """One proxy, on a loopback port of its own. Its log and its faults may be used from any thread."""

    upstream: tuple[str, int]
    port: int = 0
    seed: int = 0
    slowest: float = 0.0
    """Requests wait for up to so many seconds; how long, follows from the seed, the key and how often it was asked."""
    _log: list[Access] = field(default_factory=list)
    _troubles: list[_Trouble] = field(default_factory=list)
    _events: Iterator[int] = field(default_factory=lambda: count(1))
    _asked: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def endpoint(self) -> str:
        """The address that clients use in place of the server's."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> list[Access]:
        """All requests that are over, in the order in which they arrived."""
        return sorted(self._log, key=lambda access: access.arrived)

    def settings(self, direct: StorageSettings) -> StorageSettings:
        """The server's settings, by way of the proxy."""
        return msgspec.structs.replace(direct, endpoint=self.endpoint)

    def fail(self, fault: Fault, when: Callable[[Access], bool], *, times: int = 1) -> None:
        """Let a fault befall the next requests that are meant."""
        self._troubles.append(_Trouble(fault, when, times))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward the requests of one connection, until it ends or is reset."""
        try:
            while (head := await read_head(reader)) and await self._pass_on(head, reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            _reset(writer)
        finally:
            writer.close()

    async def _pass_on(self, head: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Forward one request; whether the connection is good for another one."""
        access = Access.of(head, next(self._events))
        if head.header("expect"):
            writer.write(_CONTINUE)
        request = await read_body(reader, head)
        await asyncio.sleep(self._delay(access))
        access = replace(access, fault=self._fault(access), body=request.body)
        match access.fault:
            case Fault.UNAVAILABLE:
                self._log.append(replace(access, status=503))
                writer.write(_UNAVAILABLE)
            case Fault.RESET_BEFORE:
                self._log.append(access)
                _reset(writer)
                return False
            case fault:
                answer = await self._answered(access, request)
                if fault is Fault.RESET_AFTER:
                    _reset(writer)
                    return False
                writer.write(answer.head + answer.body)
        await writer.drain()
        return True

    async def _answered(self, access: Access, request: Message) -> Message:
        """What the store answers, noted."""
        try:
            answer = await _exchanged(self.upstream, request, access.method)
        except (OSError, asyncio.IncompleteReadError):
            self._log.append(access)
            raise
        self._log.append(replace(access, status=answer.status, completed=next(self._events)))
        return answer

    def _fault(self, access: Access) -> Fault | None:
        for trouble in self._troubles:
            if trouble.times and trouble.when(access):
                trouble.times -= 1
                return trouble.fault
        return None

    def _delay(self, access: Access) -> float:
        asked = access.method, access.key
        self._asked[asked] += 1
        return random.Random(f"{self.seed} {asked} {self._asked[asked]}").uniform(0, self.slowest)


async def _exchanged(address: tuple[str, int], request: Message, method: str) -> Message:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request.head + request.body)
        await writer.drain()
        return await read_answer(reader, method=method)
    finally:
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    writer.transport.abort()


@contextmanager
def proxy_before(server: SeaweedServer, *, seed: int = 0, slowest: float = 0.0) -> Iterator[RecordingProxy]:
    """A running proxy before a server; the server may come and go."""
    proxy = RecordingProxy(("127.0.0.1", server.ports["s3"]), seed=seed, slowest=slowest)
    listening, loop = threading.Event(), asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(_run(proxy, listening, stop)), daemon=True)
    stop = asyncio.Event()
    thread.start()
    listening.wait()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _run(proxy: RecordingProxy, listening: threading.Event, stop: asyncio.Event) -> None:
    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(proxy.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    listening.set()
    await stop.wait()
    listener.close()
    for task in connections:
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


@pytest.fixture
def recording_proxy(seaweed_server: SeaweedServer) -> Iterator[RecordingProxy]:
    """A proxy before the session's S3 server."""
    seaweed_server.ensure_running()
    with proxy_before(seaweed_server) as proxy:
        yield proxy
