"""HTTP/1.1 messages as a proxy needs them: read whole, forwarded byte for byte."""

from asyncio import IncompleteReadError, StreamReader
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Message:
    """The head of a request or an answer, and the bytes of its body as they were sent, chunk framing included."""

    head: bytes
    body: bytes = b""

    @property
    def first_line(self) -> list[str]:
        """``GET /path HTTP/1.1``, or ``HTTP/1.1 200 OK``, in three parts."""
        return self.head.partition(b"\r\n")[0].decode("latin-1").split(" ", 2)

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.first_line[1])

    def header(self, name: str) -> str | None:
        """The value of a header; the first one, if there are several."""
        for line in self.head.split(b"\r\n")[1:]:
            found, _, value = line.decode("latin-1").partition(":")
            if found.lower() == name:
                return value.strip()
        return None

    def with_body(self, body: bytes) -> Self:
        """The same head before a body."""
        return type(self)(self.head, body)


async def read_head(stream: StreamReader) -> Message | None:
    """The head of the next message; None where the stream ends before it."""
    try:
        return Message(await stream.readuntil(b"\r\n\r\n"))
    except IncompleteReadError as error:
        if error.partial:
            raise
        return None


async def read_body(stream: StreamReader, head: Message) -> Message:
    """The message with its body, which is there if the head tells its length."""
    if (head.header("transfer-encoding") or "").lower() == "chunked":
        return head.with_body(await _chunks(stream))
    return head.with_body(await stream.readexactly(int(head.header("content-length") or 0)))


async def read_answer(stream: StreamReader, *, method: str) -> Message:
    """The answer to a request, whole; interim ones are left out."""
    while True:
        head = Message(await stream.readuntil(b"\r\n\r\n"))
        if head.status >= 200:
            break
    if method == "HEAD" or head.status in (204, 304):
        return head
    if head.header("content-length") is None and head.header("transfer-encoding") is None:
        return head.with_body(await stream.read())
    return await read_body(stream, head)


async def _chunks(stream: StreamReader) -> bytes:
    parts = []
    while True:
        size = await stream.readline()
        # A chunk and its line end; after the last one, which is empty, comes an empty trailer.
        parts += [size, await stream.readexactly(int(size.partition(b";")[0], 16) + 2)]
        if int(size.partition(b";")[0], 16) == 0:
            return b"".join(parts)
