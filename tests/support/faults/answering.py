"""A small HTTP server that gives one chosen answer to everything, as a store in trouble would."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

_ABORT: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status with an error document as S3 words it."""

    status: int
    code: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def body(self) -> bytes:
        """The document."""
        return f"<Error><Code>{self.code}</Code><Message>about {self.code}</Message></Error>".encode()


HANG: Final = Answer(-1)
RESET: Final = Answer(-2)


@dataclass
class Asked:
    """Where the server is, and what was asked of it."""

    endpoint: str
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    met: threading.Event = field(default_factory=threading.Event)
    """There was a request: a client that did not wait for its answer may be ahead of us."""


@contextmanager
def answering(*answers: Answer, certificate: Path | None = None) -> Iterator[Asked]:
    """A server that gives these answers in turn, and the last one for ever; over TLS with a PEM file of key and all."""
    released = threading.Event()
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            asked.requests.append((self.command, self.path))
            asked.headers.append({name.lower(): value for name, value in self.headers.items()})
            asked.met.set()
            answer = left.pop(0) if len(left) > 1 else left[0]
            self.close_connection = True
            if answer is HANG:
                released.wait(60)
            elif answer is RESET:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            else:
                self._reply(answer)

        def _reply(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in (("content-length", str(len(answer.body))), *answer.headers):
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815  the names are the base class's

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    asked = Asked(f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        released.set()
        server.shutdown()
        server.server_close()
        thread.join()
