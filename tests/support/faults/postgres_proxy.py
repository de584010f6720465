"""The proxy before a PostgreSQL server; ``proxy.py`` says how it is used.

What a rule decides about is a *statement*: the messages of a client up to the one that asks for an answer, with the
text of what they execute. Rows that a client copies in, and what it says before its first statement, pass untouched.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.support.faults.proxy import FaultProxy, connected, pace, reset
from tests.support.faults.rules import Delay, Fault, Reset, Silence, Throttle, Truncate, every
from tests.support.servers.postgres_server import PostgresServer

_REFUSALS = (80877103, 80877104)  # TLS, GSSAPI: not here
_PARSE, _BIND, _QUERY, _SYNC = b"P", b"B", b"Q", b"S"
_HELD = (_PARSE, _BIND, b"D", b"E", b"C")
_READY = b"Z"
_COPIES = (b"G", b"H", b"W")  # the answer to a COPY, before its rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a client asked for at once. ``arrived`` and ``completed`` count the events of one proxy, from 1 on."""

    text: str
    arrived: int
    completed: int | None = None
    """None: the server did not answer, or was not asked."""
    fault: Fault | None = None

    @property
    def identity(self) -> str:
        """The text."""
        return self.text


@dataclass(eq=False)
class PostgresProxy(FaultProxy[Statement]):
    """A proxy that understands the messages of PostgreSQL."""

    server_url: Callable[[str], str] = str
    _log: list[Statement] = field(default_factory=list)

    def url(self, database: str) -> str:
        """The address of a database, by way of the proxy."""
        parts = urlsplit(self.server_url(database))
        who, _, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{who}@127.0.0.1:{self.port}"))

    @property
    def log(self) -> list[Statement]:
        """All statements that are over, in the order in which they arrived."""
        return sorted(self._log, key=lambda statement: statement.arrived)

    def fail(
        self,
        what: Fault,
        which: Callable[[Statement], bool] = every,
        *,
        times: int | None = 1,
        chance: float = 1.0,
    ) -> None:
        """Let a fault befall the next statements that are meant."""
        if not isinstance(what, Delay | Reset | Silence | Throttle | Truncate):
            raise TypeError(f"{what} is nothing that befalls a statement")
        super().fail(what, which, times=times, chance=chance)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on both directions of one connection, until either side ends it."""
        greeting = await _greeting(reader, writer)
        async with connected(self.upstream) as (server, to_server):
            to_server.write(greeting)
            conversation = _Conversation(self, writer, to_server)
            await _either(conversation.ask(reader), conversation.answer(server))

    def note(self, statement: Statement, *, answered: bool) -> None:
        """A statement is over."""
        completed = next(self.events) if answered else None
        self._log.append(replace(statement, completed=completed))


@dataclass
class _Conversation:
    """One connection: what was asked, and what becomes of its answer."""

    proxy: PostgresProxy
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    prepared: dict[bytes, str] = field(default_factory=dict)
    pending: list[Statement] = field(default_factory=list)
    """Asked, and not answered."""

    async def ask(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the client says."""
        held, texts = list[bytes](), list[str]()
        while (message := await _message(reader)) is not None:
            kind, held = message[:1], [*held, message]
            texts += self._texts(message)
            if kind in (_QUERY, _SYNC) and texts:
                asked = Statement(text="; ".join(dict.fromkeys(texts)), arrived=next(self.proxy.events))
                await self._decide(asked, b"".join(held), reader)
            elif kind not in _HELD:
                self.server.write(b"".join(held))
                await self.server.drain()
            if kind not in _HELD:
                held, texts = [], []

    async def answer(self, server: asyncio.StreamReader) -> None:
        """Pass on what the server says, as the fault of what was asked has it."""
        passed = 0
        while (message := await _message(server)) is not None:
            fault, kind = self.pending[0].fault if self.pending else None, message[:1]
            ends = bool(self.pending) and (kind == _READY or (kind in _COPIES and fault is not None))
            if ends:  # noted before the client gets to know
                self.proxy.note(self.pending.pop(0), answered=True)
            await self._say(message, fault, passed)
            passed = 0 if ends else passed + len(message)
            if ends and (fault is Reset.AFTER or isinstance(fault, Truncate)):
                return reset(self.client)
            if ends and fault is Silence.AFTER:
                await asyncio.Event().wait()  # until the client has waited long enough
        return None

    async def _decide(self, asked: Statement, data: bytes, reader: asyncio.StreamReader) -> None:
        asked = replace(asked, fault=self.proxy.rules.choose(asked))
        match asked.fault:
            case Reset.BEFORE | Reset.WITHIN | Silence.BEFORE:
                self.proxy.note(asked, answered=False)
                await self._keep(asked.fault, data, reader)
                raise ConnectionResetError
            case Delay(seconds):
                await asyncio.sleep(seconds)
        self.pending.append(asked)
        if isinstance(asked.fault, Throttle):
            await pace(self.server, data, asked.fault.bytes_per_second)
        else:
            self.server.write(data)
            await self.server.drain()

    async def _keep(self, fault: Fault, data: bytes, reader: asyncio.StreamReader) -> None:
        """The server hears of half a statement, or of nothing."""
        if fault is Reset.WITHIN:
            self.server.write(data[: len(data) // 2])
            await self.server.drain()
        if fault is Silence.BEFORE:
            await reader.read()
        reset(self.server)

    async def _say(self, message: bytes, fault: Fault | None, passed: int) -> None:
        match fault:
            case Reset.AFTER | Silence.AFTER:
                return None
            case Truncate(keep):
                message = message[: max(0, keep - passed)]
            case Throttle(rate):
                return await pace(self.client, message, rate)
        self.client.write(message)
        return await self.client.drain()

    def _texts(self, message: bytes) -> list[str]:
        """What a message executes: a text, or a statement that was prepared."""
        kind, body = message[:1], message[5:]
        if kind == _QUERY:
            return [body.rstrip(b"\0").decode()]
        if kind == _PARSE:
            name, text, _ = body.split(b"\0", 2)
            self.prepared[name] = text.decode()
            return [text.decode()]
        if kind == _BIND:
            _, name, _ = body.split(b"\0", 2)
            return [self.prepared.get(name, "")]
        return []


async def _either(*works: Coroutine[Any, Any, None]) -> None:
    """Do these things at once, until one of them is done."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """What a client begins with; encryption is declined."""
    while True:
        size = await reader.readexactly(4)
        body = await reader.readexactly(int.from_bytes(size) - 4)
        if int.from_bytes(body[:4]) not in _REFUSALS:
            return size + body
        writer.write(b"N")


async def _message(reader: asyncio.StreamReader) -> bytes | None:
    """The next message, whole; None where the stream ends before it."""
    kind = await reader.read(1)
    if not kind:
        return None
    size = await reader.readexactly(4)
    return kind + size + await reader.readexactly(int.from_bytes(size) - 4)


@contextmanager
def proxy_before(server: PostgresServer, *, seed: int = 0) -> Iterator[PostgresProxy]:
    """A running proxy before a server; the server may come and go."""
    proxy = PostgresProxy(("127.0.0.1", server.port), seed=seed, server_url=server.url)
    with proxy.running():
        yield proxy


@pytest.fixture
def postgres_proxy(postgres_server: PostgresServer) -> Iterator[PostgresProxy]:
    """A proxy before the session's PostgreSQL server."""
    postgres_server.ensure_running()
    with proxy_before(postgres_server) as proxy:
        yield proxy
