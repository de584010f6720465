"""The options of commands that publish: on which Spark, or without it."""

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from deltamirror.cli.invocation import Invocation
from deltamirror.cli.parameters import not_empty
from deltamirror.config import LiveSettings, Loaded
from deltamirror.pipeline.run.spark.environment import exported_environment

RUNNERS: Final = click.Choice(["spark", "local"])

_OPTIONS: Final = (
    click.option(
        "--runner",
        type=RUNNERS,
        metavar="spark|local",
        help="On Spark, or in threads of this process; over the setting mirror.runner.",
    ),
    click.option(
        "--master",
        callback=not_empty,
        metavar="URL",
        help="The Spark to run on: local[*], spark://HOST:PORT, sc://HOST:PORT; over the setting spark.master.",
    ),
)

_Command = TypeVar("_Command", bound=Callable[..., Any])


def with_runner(command: _Command) -> _Command:
    """Give a command the options ``--runner`` and ``--master``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def require_spark_for_master(runner: str | None, master: str | None) -> None:
    """Refuse a master for a run without Spark."""
    if runner == "local" and master is not None:
        raise click.UsageError("--master is for Spark, and --runner local is without it")


def chosen_runner(invocation: Invocation, runner: str | None, master: str | None) -> LiveSettings:
    """The settings of a command that publishes, with its runner.

    Executors of a Spark that this process starts find the settings in its environment.
    """
    require_spark_for_master(runner, master)
    live = invocation.on_runner(runner, master).live()
    if live.current.mirror.runner == "spark":
        os.environ.update(exported_environment(live.loaded))
    return live


def exported_runner(loaded: Loaded, runner: str | None) -> str:
    """The runner of a command that reads large logs; executors of Spark find the settings in the environment."""
    runner = runner or loaded.settings.mirror.runner
    if runner == "spark":
        os.environ.update(exported_environment(loaded))
    return runner
