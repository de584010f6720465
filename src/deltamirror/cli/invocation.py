"""What every command is given: how to answer, and which settings hold."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

import click

from deltamirror.cli.logs import configure_logs
from deltamirror.config import LiveSettings, Loaded, examine, load
from deltamirror.errors import InvalidSettings
from deltamirror.telemetry.traces import traced

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that all commands share; given after the command they win over those given before it."""

    json: bool = False
    debug: bool = False
    config: Path | None = None
    catalog: str | None = None
    runner: str | None = None
    master: str | None = None
    interval: float | None = None

    def refined(self, other: "Invocation") -> "Invocation":
        """This invocation with what ``other`` says laid over it."""
        return Invocation(
            json=self.json or other.json,
            debug=self.debug or other.debug,
            config=self.config if other.config is None else other.config,
            catalog=self.catalog if other.catalog is None else other.catalog,
        )

    def on_runner(self, runner: str | None, master: str | None) -> "Invocation":
        """This invocation with the runner that a command was asked for; to name a master is to ask for Spark."""
        return replace(self, runner="spark" if runner is None and master is not None else runner, master=master)

    def comparing_every(self, interval: float | None) -> "Invocation":
        """This invocation with the interval that a command was asked for."""
        return replace(self, interval=interval)

    def loaded(self) -> Loaded:
        """The settings in force; logging follows them from here on."""
        loaded = load(environment=os.environ, config=self.config, flags=self._flags())
        configure_logs(loaded.settings.log)
        return loaded

    def examined(self) -> tuple[Loaded, list[InvalidSettings]]:
        """The settings and everything that is wrong with them."""
        return examine(environment=os.environ, config=self.config, flags=self._flags())

    def lasting(self) -> Loaded:
        """The settings in force, which name a catalog that outlives the command."""
        return _lasting(self.loaded())

    def live(self) -> LiveSettings:
        """As :meth:`lasting`, for a command that runs for long; logging follows the settings as they change."""
        live = LiveSettings.load(environment=os.environ, config=self.config, flags=self._flags(), checked=_lasting)
        configure_logs(live.current.log)
        live.on_change(lambda settings: configure_logs(settings.log))
        return live

    def _flags(self) -> dict[str, str]:
        given = {
            "catalog.url": self.catalog,
            "mirror.runner": self.runner,
            "spark.master": self.master,
            "reconcile.interval": None if self.interval is None else str(self.interval),
        }
        return {path: value for path, value in given.items() if value is not None}


_IN_MEMORY: Final = ("sqlite:///:memory:", "duckdb:///:memory:")


def _lasting(loaded: Loaded) -> Loaded:
    url, origin = loaded.settings.catalog.url, loaded.origins["catalog.url"]
    if url in _IN_MEMORY:
        message = f"{origin}: {url} is in memory, and gone when the command ends"
        raise InvalidSettings(message, hint="name a file: sqlite:///lake.db", key="catalog.url", source=origin)
    return loaded


_OPTIONS = (
    click.option("--json", "json_", is_flag=True, help="Answer with one JSON document."),
    click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Settings file; otherwise DELTAMIRROR_CONFIG, or deltamirror.toml in the working folder.",
    ),
    click.option("--catalog", metavar="URL", help="The catalog's database, over the setting catalog.url."),
    click.option("--debug", is_flag=True, help="Show the traceback of an error."),
)


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all commands share."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def with_invocation(function: Callable[Concatenate[Invocation, P], None]) -> Callable[..., Any]:
    """Make a command of ``function``: its first argument is the invocation, the rest its own options."""

    @click.pass_context
    @functools.wraps(function)
    def run(context: click.Context, /, *args: P.args, **kwargs: P.kwargs) -> None:
        given = _taken(kwargs)
        context.obj = given if context.obj is None else context.obj.refined(given)
        with traced():
            function(context.obj, *args, **kwargs)

    return common_options(run)


def _taken(options: dict[str, Any]) -> Invocation:
    return Invocation(
        json=options.pop("json_"),
        debug=options.pop("debug"),
        config=options.pop("config"),
        catalog=options.pop("catalog"),
    )
