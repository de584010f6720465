"""Without faults, commits become visible within the objectives: for ``SOAK_MINUTES``, by a service on Spark."""

import os

import pytest

from benchmarks.lag import Load, measure
from benchmarks.machine import facts
from deltamirror import Catalog
from deltamirror.config import SloSettings
from tests.support.servers.postgres_server import PostgresServer

MINUTES = float(os.environ.get("SOAK_MINUTES", "15"))
LOAD = Load(tables=20, commits_a_second=20, seconds=int(MINUTES * 60), warms_up_for=30)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(MINUTES * 60 + 900)
@pytest.mark.requirement("R102")
def test_versions_are_visible_within_the_objectives(postgres_server: PostgresServer, postgres_url: str) -> None:
    about = facts(postgresql=postgres_server.version())
    with Catalog(postgres_url) as catalog:
        catalog.init()
    figures = measure(postgres_url, LOAD).figures()
    print(about["machine"], f"load {about['load']}, {os.getloadavg()[0]:.1f} after it", LOAD, figures, sep="\n")  # noqa: T201
    assert figures["rate"] >= LOAD.commits_a_second * 0.9, "the load was not made: nothing is known of the lag under it"
    slo = SloSettings()
    assert figures["p95"] < slo.p95 * 1000
    assert figures["p99"] < slo.p99 * 1000
