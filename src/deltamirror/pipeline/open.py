"""The runner that the settings name."""

from importlib import import_module

from deltamirror.config import Settings
from deltamirror.errors import MissingExtra
from deltamirror.pipeline.inprocess import InProcessRunner
from deltamirror.pipeline.runner import Runner
from deltamirror.txnlog.database import Database

__all__ = ["open_runner"]

_SPARK = "deltamirror.pipeline.spark.runner"


def open_runner(settings: Settings, database: Database) -> Runner:
    """Spark, or threads of this process. Spark starts when it is first used."""
    if settings.mirror.runner == "local":
        return InProcessRunner(database, settings)
    try:
        module = import_module(_SPARK)
    except ImportError as error:
        raise MissingExtra(
            f"the mirror runs on Spark, which is not installed: {error.name}",
            hint="pip install 'deltamirror[spark]', or set mirror.runner to local",
            extra="spark",
        ) from error
    runner: Runner = module.SparkRunner(settings, database)
    return runner
