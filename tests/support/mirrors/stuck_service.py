"""A service that hangs: it has claimed what is due, renews its leases, and does nothing. Says so, and waits."""

import os
import sys
import threading

from deltamirror import MirrorEngine
from deltamirror.config import load
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.txnlog.database.opening import open_database
from deltamirror.work import Unit
from tests.support.mirrors.local import ScriptedRunner

__all__: list[str] = []


def _hang(unit: Unit) -> None:
    sys.stdout.write(f"{unit.table}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    settings = load(environment=os.environ).settings
    database = open_database(settings.catalog)
    runner = ScriptedRunner(InProcessRunner(database, settings), _hang)
    MirrorEngine(settings=settings, database=database, runner=runner).run()
