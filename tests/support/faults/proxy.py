"""Proxies that let things go wrong between a client and its server, and keep a record of what passed.

    with proxy_before(seaweed, seed=7) as proxy:        # of s3_proxy.py; the fixture: ``s3_proxy``
        storage = proxy.settings(seaweed.settings())    # StorageSettings by way of the proxy
        proxy.fail(Reset.AFTER, is_put)                 # the next PUT takes place, and its reply is lost
        proxy.fail(Answer(503, "SlowDown"), times=4)    # then four requests of any kind
        proxy.fail(Delay(0.2), chance=0.1, times=None)  # a tenth of all requests, by the seed, until heal()
    with proxy_before(server) as proxy:                 # of postgres_proxy.py; the fixture: ``postgres_proxy``
        url = proxy.url("database")
        proxy.fail(Reset.AFTER, lambda statement: statement.text == "COMMIT")

``fail(what, which, times=1, chance=1.0)``: the first rule that means a request and is not used up decides. ``what`` is
one of ``Reset`` and ``Silence`` (before, within, after), ``Delay``, ``Throttle``, ``Truncate``, and before S3 also
``Answer`` (a status that the store did not give) and ``Cut`` (the store gets the first bytes of a request). ``which``
is asked about an ``Access`` or a ``Statement``. Which requests are chosen by chance follows from the seed and the
request, not from the order of threads.

``heal()`` ends all faults. ``with proxy.refusing():`` connections are refused, those that are open are reset.
``proxy.log`` has all requests that are over, in the order of their arrival, with what befell them. All of it may be
used from any thread. The server may come and go behind a proxy.
"""

import asyncio
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, Self

from tests.support.faults.rules import Fault, R, Rules, every
from tests.support.servers.ports import held_port

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
_TICK = 0.05


@dataclass(eq=False)
class FaultProxy(ABC, Generic[R]):
    """One proxy, on a loopback port of its own, in a thread of its own."""

    upstream: tuple[str, int]
    seed: int = 0
    port: int = 0
    events: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers what happens here, in order."""

    def __post_init__(self) -> None:
        self.rules = Rules[R](self.seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._listener: asyncio.Server | None = None

    def fail(
        self, what: Fault, which: Callable[[R], bool] = every, *, times: int | None = 1, chance: float = 1.0
    ) -> None:
        """Let a fault befall the next requests that are meant; ``times`` None: until ``heal``."""
        self.rules.add(what, which, times=times, chance=chance)

    def heal(self) -> None:
        """Let everything pass."""
        self.rules.clear()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse connections, and reset those that are open."""
        self._wait_for(self._close())
        try:
            yield
        finally:
            self._wait_for(self._listen())

    @contextmanager
    def running(self) -> Iterator[Self]:
        """The proxy at work, until the end of the block."""
        with held_port() as self.port:
            self._thread.start()
            self._wait_for(self._listen())
            try:
                yield self
            finally:
                self._wait_for(self._close())
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes by one connection, until it ends; trouble of either side ends it with a reset."""

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _close(self) -> None:
        assert self._listener is not None
        self._listener.close()
        await asyncio.sleep(0)  # one that is being accepted
        while tasks := list(self._connections):
            for task in tasks:
                reset(self._connections[task])
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._guarded(reader, writer))
        self._connections[task] = writer
        # A task that is cancelled before it began runs nothing of its own.
        task.add_done_callback(lambda done: self._connections.pop(done).close())

    async def _guarded(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            reset(writer)


@asynccontextmanager
async def connected(address: tuple[str, int]) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection, closed at the end, also of whoever is cancelled while it is made."""
    opening = asyncio.ensure_future(asyncio.open_connection(*address))
    try:
        reader, writer = await asyncio.shield(opening)
    except asyncio.CancelledError:
        with suppress(OSError):
            (await opening)[1].close()
        raise
    try:
        yield reader, writer
    finally:
        writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the other side hears of a reset, not of an end."""
    with suppress(OSError):  # it may be closed
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    writer.transport.abort()


async def pace(writer: asyncio.StreamWriter, data: bytes, bytes_per_second: int) -> None:
    """Write at a rate."""
    piece = max(1, int(bytes_per_second * _TICK))
    for at in range(0, len(data), piece):
        writer.write(data[at : at + piece])
        await writer.drain()
        await asyncio.sleep(_TICK)
