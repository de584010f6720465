"""Health as it is asked for over HTTP, and waiting for what it says."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from deltamirror.ops.health import HealthMonitor
from deltamirror.web.address import ListenAddress
from deltamirror.web.listener import Listener, monitoring_app

_ATTEMPTS = 3_000
_PAUSE = 0.1


@dataclass(frozen=True)
class Answer:
    """What a process answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def part(self, name: str) -> dict[str, Any]:
        """One part of a report."""
        return next(part for part in json.loads(self.body)["parts"] if part["name"] == name)

    def states(self) -> dict[str, str]:
        """The states of all parts."""
        return {part["name"]: part["state"] for part in json.loads(self.body)["parts"]}


def asked(url: str, path: str, *, method: str = "GET") -> Answer:
    """What a process answers to a request, whatever its status."""
    request = urllib.request.Request(f"{url}{path}", method=method)  # noqa: S310  the process of a test
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return Answer(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


@contextmanager
def served(health: HealthMonitor) -> Iterator[str]:
    """The address at which a process tells of its health."""
    with Listener(ListenAddress.parse("0")) as listener:
        listener.serve(monitoring_app(health))
        yield listener.url


def until_part(url: str, name: str, state: str, *, more: Callable[[Answer], bool] = lambda _: True) -> Answer:
    """Ask until a part is in a state, for as long as any machine needs; the answer that says so."""
    answer = None
    for _ in range(_ATTEMPTS):
        answer = asked(url, "/readyz")
        if answer.states()[name] == state and more(answer):
            return answer
        threading.Event().wait(_PAUSE)
    raise AssertionError(f"{name} does not become {state}: {answer and answer.part(name)}")
