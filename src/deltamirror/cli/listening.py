"""The option ``--listen`` of processes that run for long: health and metrics over HTTP."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deltamirror.errors import InvalidInput, MissingExtra
from deltamirror.ops.health import HealthMonitor
from deltamirror.web.address import ListenAddress

if TYPE_CHECKING:
    from deltamirror.web.listener import Listener

_Command = TypeVar("_Command", bound=Callable[..., Any])


def with_listen(command: _Command) -> _Command:
    """Give a command the option ``--listen``."""
    return click.option(
        "--listen",
        callback=_address,
        metavar="[HOST:]PORT",
        help="Serve /healthz, /readyz and /metrics here, with --follow; without HOST to this machine alone.",
    )(command)


class Monitoring:
    """What a process tells of itself over HTTP, if it was asked to; nothing is served before ``serving``."""

    def __init__(self, listener: "Listener | None") -> None:
        self._listener = listener

    @property
    def url(self) -> str | None:
        """Where; None if nowhere."""
        return None if self._listener is None else self._listener.url

    @property
    def sentence(self) -> str:
        """The same for people, to be added to another sentence."""
        return "" if self.url is None else f" Health and metrics: {self.url}/healthz, /readyz, /metrics."

    @contextmanager
    def serving(self, health: HealthMonitor) -> Iterator[None]:
        """Answer until the end of the block, and not while what is asked about is being closed."""
        if self._listener is None:
            yield
            return
        self._listener.serve(_web().monitoring_app(health))
        try:
            yield
        finally:
            self._listener.close()


@contextmanager
def listening(address: ListenAddress | None) -> Iterator[Monitoring]:
    """Take the port, before anything else is begun; a port that is in use, or a missing extra, is an error."""
    if address is None:
        yield Monitoring(None)
        return
    with _web().Listener(address) as listener:
        yield Monitoring(listener)


def _web() -> Any:
    try:
        return import_module("deltamirror.web.listener")
    except ImportError as error:
        raise MissingExtra(
            f"--listen needs a library that is not installed: {error.name}",
            hint="pip install 'deltamirror[server]', or do without --listen",
            extra="server",
        ) from error


def _address(context: click.Context, parameter: click.Parameter, value: str | None) -> ListenAddress | None:
    try:
        return None if value is None else ListenAddress.parse(value)
    except InvalidInput as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error
