"""Four drivers of stock Delta Lake jobs race on one table on S3, our own writers and a stream beside them.

For five minutes, or ``DRIVER_MINUTES``, drivers, writers, the stream, the server and the mirror are killed. Every act
has a name, so that the history tells which took place: none is lost, none doubled, and none fails that Delta's rules
allow.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror import Catalog
from deltamirror.config import Settings, StorageSettings
from deltamirror.txnlog.access.patterns import ALL_TABLES
from deltamirror.txnlog.access.tokens import Right, issue_token
from tests.soak.crowd import QUICK, Crowd, check_log
from tests.soak.driver import SHARED, Plan, acts_in
from tests.support.interfaces.commands import COMMAND, variables
from tests.support.mirrors.local import committed_files, mirror_of
from tests.support.mirrors.reconcilers import assert_clean
from tests.support.readers.s3_access import S3Access
from tests.support.servers.ports import held_port
from tests.support.spark.programs import spark_environment

MINUTES = float(os.environ.get("DRIVER_MINUTES", "5"))
SEED = int(os.environ.get("SOAK_SEED", str(random.SystemRandom().randrange(10**6))))
RACERS = tuple(f"racer{number}" for number in range(4))
WRITERS = ("python0", "python1")
TABLES = {"counts": "p string, act string, n long", "events": "act string", "copy": "act string"}
PATIENCE = 600.0
LEAST_ACTS = 5
"""Of each racer and writer, however slow the machine is."""


@pytest.fixture
def lake(postgres_url: str, s3_bucket: str, s3_settings: StorageSettings) -> Iterator[Catalog]:
    with Catalog(postgres_url, settings=Settings(storage=s3_settings)) as catalog:
        catalog.init()
        for name, schema in TABLES.items():
            by = ["p"] if name == "counts" else []
            catalog.create_table(name, location=f"s3://{s3_bucket}/{name}", schema=schema, partition_by=by)
        names = [*RACERS, *WRITERS, SHARED]
        catalog.table("counts").append(pa.table({"p": names, "act": names, "n": [0] * len(names)}))
        yield catalog


@pytest.fixture
def crowd(
    lake: Catalog, postgres_url: str, s3_bucket: str, s3_settings: StorageSettings, tmp_path: Path
) -> Iterator[Crowd]:
    settings = {
        **QUICK,
        **spark_environment(),
        **variables(s3_settings),
        "DELTAMIRROR_CATALOG__URL": postgres_url,
    }
    token = issue_token(lake.database, "job", rights=[Right.WRITE], tables=ALL_TABLES, seconds=None).text
    with held_port() as port:
        address = f"127.0.0.1:{port}"
    hadoop = S3Access.of(s3_settings).hadoop(s3_bucket)
    Plan(server=f"http://{address}", token=token, root=f"s3a://{s3_bucket}", hadoop=hadoop).write(tmp_path)
    crowd = Crowd(tmp_path, settings)
    try:
        crowd.add("server", [*COMMAND, "serve", "--listen", address])
        crowd.add_service("service")
        for name in (*RACERS, *WRITERS, "stream"):
            crowd.add(name, [sys.executable, "-m", "tests.soak.driver", name.rstrip("0123456789"), name, str(tmp_path)])
        yield crowd
    finally:
        crowd.kill_all()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(MINUTES * 60 + 3 * PATIENCE)
@pytest.mark.requirement("R90")
def test_drivers_that_race_and_are_killed_lose_nothing_double_nothing_and_fail_by_the_rules_of_delta_alone(
    lake: Catalog, crowd: Crowd, s3_settings: StorageSettings, tmp_path: Path
) -> None:
    print(f"SOAK_SEED={SEED}")  # noqa: T201 - the order of what goes wrong
    killed = trouble(crowd)
    settle(crowd)
    done = Counter(entry.user_metadata or "" for name in TABLES for entry in lake.table(name).history(limit=None))
    print(dict(killed), {name: lake.table(name).info().head for name in TABLES})  # noqa: T201
    check_acts(tmp_path, done)
    check_rows(lake, done)
    with mirror_of(lake, settings=replace(Settings(), storage=s3_settings)) as engine:
        engine.run(once=True)
        for name in TABLES:
            assert_clean(engine, name)
            check_log(lake.table(name), committed_files(lake.table(name)), s3_settings)


def trouble(crowd: Crowd) -> Counter[str]:
    """Kill one process after the other, each once it has done something, until all have; how often which."""
    lots, killed, end = random.Random(SEED), Counter[str](), time.monotonic() + MINUTES * 60
    before: Counter[str] = Counter()
    while time.monotonic() < end or not is_race(crowd.folder):
        time.sleep(lots.uniform(1, 8))
        member = crowd.one(lots)
        progress = progress_of(crowd.folder, member.name)
        if progress > before[member.name]:
            before[member.name] = progress
            killed[member.name] += 1
            member.kill()
        crowd.look_after()
    return killed


def is_race(folder: Path) -> bool:
    """Whether all have done something worth the name."""
    ended_well = Counter(act.name.partition("-")[0] for act in acts_in(folder) if act.outcome == "done")
    return all(ended_well[name] >= LEAST_ACTS for name in (*RACERS, *WRITERS))


def progress_of(folder: Path, name: str) -> int:
    """How much was done by processes of this name; for server and mirror, how much all racers did."""
    if name == "stream":
        return len(list((folder / "stream" / "offsets").glob("[0-9]*")))
    counted = RACERS if name in ("server", "service") else (name,)
    return sum(act.name.partition("-")[0] in counted and act.outcome != "" for act in acts_in(folder))


def settle(crowd: Crowd) -> None:
    """Let all that act end by themselves, then the stream, which has copied all by then."""
    crowd.look_after()
    crowd.stop_file.touch()
    for member in [*crowd.of("racer"), *crowd.of("python")]:
        assert member.process is not None
        assert member.process.wait(PATIENCE) == 0, member.log
    (crowd.folder / "stopped").touch()
    [stream] = crowd.of("stream")
    if stream.process is None or stream.process.poll() is not None:
        stream.start()
    assert stream.process is not None
    assert stream.process.wait(PATIENCE) == 0, stream.log


def check_acts(folder: Path, done: Counter[str]) -> None:
    """An act that ended well took place once, one that failed did not, and no act failed that the rules allow."""
    acts = list(acts_in(folder))
    print(Counter((act.name.partition("-")[0], act.kind, act.outcome[:20]) for act in acts))  # noqa: T201
    for act in acts:
        match act.outcome:
            case "done":
                assert done[act.name] == 1, act
            case "conflict":
                assert (act.kind, done[act.name]) == (SHARED, 0), act
            case "":
                assert done[act.name] <= 1, act  # its process was killed
            case _:
                raise AssertionError(f"{act}")


def check_rows(lake: Catalog, done: Counter[str]) -> None:
    """The rows are those of the acts in the history: no update is lost."""
    named = {name: tuple(name.split("-")[:2]) for name in done if name}
    rows = lake.table("counts").to_arrow().to_pylist()
    updates = Counter(kind if kind == SHARED else actor for actor, kind in named.values() if kind in ("own", SHARED))
    counted = {row["p"]: row["n"] for row in rows if row["p"] != "rows"}
    assert counted == {name: updates[name] for name in (*RACERS, *WRITERS, SHARED)}
    appended, events = ([name for name, (_, kind) in named.items() if kind == which] for which in ("append", "event"))
    assert sorted(row["act"] for row in rows if row["p"] == "rows") == sorted(appended)
    for table in ("events", "copy"):
        assert sorted(lake.table(table).to_arrow().column("act").to_pylist()) == sorted(events), table
