"""What a Prometheus knows, asked over its API."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 300.0


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server at an address."""

    url: str

    def query(self, expression: str) -> list[float]:
        """The values of an expression. A wrong expression raises what the server says."""
        return [float(each["value"][1]) for each in self._asked("/api/v1/query", query=expression)["result"]]

    def until(self, expression: str, holds: Callable[[list[float]], bool] = bool) -> None:
        """Wait until the values of an expression are so; by themselves, until there is one."""
        deadline = time.monotonic() + _LONGEST
        while not holds(values := self.query(expression)):
            if time.monotonic() > deadline:
                raise AssertionError(f"after {_LONGEST:g} s, {expression} is {values}")
            time.sleep(0.1)

    def alerts(self, name: str) -> list[Mapping[str, str]]:
        """The labels and annotations of an alert that fires."""
        return [
            {**each["labels"], **each["annotations"]}
            for each in self._asked("/api/v1/alerts")["alerts"]
            if (each["labels"]["alertname"], each["state"]) == (name, "firing")
        ]

    def _asked(self, path: str, **parameters: str) -> Any:
        address = f"{self.url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310  the test's own server
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
