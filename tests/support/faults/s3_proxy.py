"""The proxy before an S3 server, with its access log; ``proxy.py`` says how it is used.

The log is the store's own view of the order of things: a request has arrived when the proxy has read its head, and is
complete when the store has answered all of it, before the client gets to know. Requests are forwarded byte for byte: a
client signs for the proxy's address, and the server checks against the address that the request names.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import unquote, urlsplit

import msgspec
import pytest

from deltamirror.config import StorageSettings
from tests.support.faults.answering import Answer
from tests.support.faults.http_messages import Message, read_answer, read_body, read_head
from tests.support.faults.proxy import FaultProxy, connected, pace, reset
from tests.support.faults.rules import Cut, Delay, Fault, Reset, Silence, Throttle, Truncate
from tests.support.servers.seaweed_server import SeaweedServer

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


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

    @property
    def identity(self) -> str:
        """Method and key. The bucket, whose name differs from run to run, is left out: a seed means the same again."""
        return f"{self.method} {self.key.partition('/')[2]}"


def is_put(access: Access) -> bool:
    """Whether something is to be put."""
    return access.method == "PUT"


@dataclass(eq=False)
class S3Proxy(FaultProxy[Access]):
    """A proxy that understands HTTP."""

    slowest: float = 0.0
    """Requests wait for up to so many seconds; how long, follows from the seed, the key and how often it was asked."""
    _log: list[Access] = field(default_factory=list)
    _asked: Counter[str] = field(default_factory=Counter)

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

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward the requests of one connection, until it ends or is reset."""
        while (head := await read_head(reader)) and await self._pass_on(head, reader, writer):
            pass

    async def _pass_on(self, head: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Forward one request; whether the connection is good for another one."""
        access = Access.of(head, next(self.events))
        if head.header("expect"):
            writer.write(_CONTINUE)
        request = await read_body(reader, head)
        await asyncio.sleep(self._delay(access))
        access = replace(access, fault=self.rules.choose(access), body=request.body)
        match access.fault:
            case Answer() as answer:
                self._log.append(replace(access, status=answer.status))
                writer.write(_spelled(answer, access.method))
                await writer.drain()
                return True
            case Reset.BEFORE | Reset.WITHIN | Silence.BEFORE | Cut():
                await self._kept(access, request, reader, writer)
                return False
        await asyncio.sleep(_pause(access.fault, len(request.body)))
        return await self._answer(access, await self._answered(access, request), reader, writer)

    async def _kept(
        self, access: Access, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """The store hears of a part of a request, or of nothing; the client hears of a reset, or of nothing."""
        self._log.append(access)
        match access.fault:
            case Reset.WITHIN:
                await _send_half(self.upstream, request)
            case Cut(sent):
                await _send(self.upstream, (request.head + request.body)[:sent])
            case Silence.BEFORE:
                await reader.read()
        reset(writer)

    async def _answer(
        self, access: Access, answer: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Pass the answer on, or what the fault leaves of it; whether the connection is good for another one."""
        match access.fault:
            case Reset.AFTER:
                reset(writer)
            case Silence.AFTER:
                await reader.read()
            case Truncate(keep):
                writer.write(answer.head + answer.body[:keep])
                await writer.drain()
            case Throttle(rate):
                await pace(writer, answer.head + answer.body, rate)
                return True
            case _:
                writer.write(answer.head + answer.body)
                await writer.drain()
                return True
        return False

    async def _answered(self, access: Access, request: Message) -> Message:
        """What the store answers, noted."""
        try:
            answer = await _exchanged(self.upstream, request, access.method)
        except (OSError, asyncio.IncompleteReadError):
            self._log.append(access)
            raise
        self._log.append(replace(access, status=answer.status, completed=next(self.events)))
        return answer

    def _delay(self, access: Access) -> float:
        self._asked[access.identity] += 1
        turn = self._asked[access.identity]
        return random.Random(f"{self.seed} {access.identity} {turn}").uniform(0, self.slowest)


def _pause(fault: Fault | None, size: int) -> float:
    match fault:
        case Delay(seconds):
            return seconds
        case Throttle(rate):
            return size / rate
    return 0.0


def _spelled(answer: Answer, method: str) -> bytes:
    headers = {"content-length": str(len(answer.body)), "content-type": "application/xml", **dict(answer.headers)}
    lines = [f"HTTP/1.1 {answer.status} {answer.code or 'Answer'}", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + (b"" if method == "HEAD" else answer.body)


async def _exchanged(address: tuple[str, int], request: Message, method: str) -> Message:
    async with connected(address) as (reader, writer):
        writer.write(request.head + request.body)
        await writer.drain()
        return await read_answer(reader, method=method)


async def _send_half(address: tuple[str, int], request: Message) -> None:
    """Half of the body, or, where there is none, of the head."""
    await _send(address, request.head + request.body[: len(request.body) // 2] if request.body else request.head[:-2])


async def _send(address: tuple[str, int], sent: bytes) -> None:
    """These bytes, and then a reset."""
    async with connected(address) as (_, writer):
        writer.write(sent)
        await writer.drain()
        reset(writer)


@contextmanager
def proxy_before(server: SeaweedServer, *, seed: int = 0, slowest: float = 0.0) -> Iterator[S3Proxy]:
    """A running proxy before a server; the server may come and go."""
    proxy = S3Proxy(("127.0.0.1", server.ports["s3"]), seed=seed, slowest=slowest)
    with proxy.running():
        yield proxy


@pytest.fixture
def s3_proxy(seaweed_server: SeaweedServer) -> Iterator[S3Proxy]:
    """A proxy before the session's S3 server."""
    seaweed_server.ensure_running()
    with proxy_before(seaweed_server) as proxy:
        yield proxy
