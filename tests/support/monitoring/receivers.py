"""Real servers that take notifications: HTTP for webhooks, SMTP for e-mail."""

import email
import email.message
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.servers.ports import held_port


@dataclass(frozen=True, slots=True)
class Received:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """Its JSON."""
        return json.loads(self.body)


@dataclass
class HttpReceiver:
    """A server on loopback that keeps what it is sent, and answers with ``status``, once ``open`` is set."""

    url: str = ""
    status: int = 200
    reason: str | None = None
    """What the status line says, if it is not the usual phrase."""
    requests: "Queue[Received]" = field(default_factory=Queue)
    open: threading.Event = field(default_factory=threading.Event)

    def next(self) -> Received:
        """The next request, waited for."""
        return self.requests.get(timeout=60)


@contextmanager
def http_receiver(status: int = 200) -> Iterator[HttpReceiver]:
    """A server that answers at once, unless the test clears ``open``."""
    receiver = HttpReceiver(status=status)
    receiver.open.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.put(Received(self.path, dict(self.headers), body))
            receiver.open.wait(60)
            self.send_response(receiver.status, receiver.reason)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Not on the terminal of the tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.open.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class SmtpReceiver:
    """A mail server on loopback that keeps what it is sent."""

    port: int = 0
    mails: "Queue[email.message.EmailMessage]" = field(default_factory=Queue)

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:  # noqa: N802  the name that aiosmtpd calls
        """Keep a mail."""
        found = email.message_from_bytes(envelope.content, policy=default)
        assert isinstance(found, email.message.EmailMessage)
        self.mails.put(found)
        return "250 OK"

    def next(self) -> str:
        """Subject and text of the next mail, waited for."""
        mail = self.mails.get(timeout=60)
        body = mail.get_body(("plain", "html"))
        return f"{mail['Subject']}\n{'' if body is None else body.get_content()}"


@contextmanager
def smtp_receiver() -> Iterator[SmtpReceiver]:
    """A mail server on a port that is free."""
    with held_port() as port:
        receiver = SmtpReceiver(port=port)
        controller = Controller(receiver, hostname="127.0.0.1", port=port)
        controller.start()
        try:
            yield receiver
        finally:
            controller.stop()
