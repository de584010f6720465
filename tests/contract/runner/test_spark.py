"""What only Spark can get wrong: secrets in its logs, servers that go away, a machine without Java."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest

from deltamirror.config import StorageSettings
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.states import state_at
from deltamirror.errors import MissingExtra, Unavailable
from deltamirror.ops.validate.commit_sweep import Foundation
from deltamirror.ops.validate.validating import validate_log
from deltamirror.ops.verify import commit_parts
from deltamirror.ops.verify.commit_parts import CommitParts
from deltamirror.pipeline.run.inspection import Inspector
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import store_at
from deltamirror.work import CommitUnit, ExpectedObject, ObjectDifference
from tests.support.logs.checkpoints import commit, file, first_commit
from tests.support.logs.commit_units import commit_key, unit_of, work_of
from tests.support.servers.postgres_server import PASSWORD
from tests.support.servers.s3_server import SECRET_KEY
from tests.support.spark.connect import ConnectServer
from tests.support.spark.runners import CANARY, SparkRig, started_driver

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]


def unit_at(folder: Path) -> CommitUnit:
    return unit_of([work_of(0, first_commit())], location=str(folder), checksums=False)


@pytest.mark.requirement("R113")
def test_no_secret_is_in_what_spark_writes_down(spark_local: SparkRig, tmp_path: Path) -> None:
    """The event log is all that Spark's pages show: plans, properties, the environment."""
    spark_local.run([unit_at(tmp_path / "t")])
    text = spark_local.event_log()
    assert "SparkListenerEnvironmentUpdate" in text
    assert "SparkListenerJobEnd" in text
    for secret in {CANARY, PASSWORD, SECRET_KEY}:
        assert secret not in text


@pytest.mark.requirement("R70")
def test_a_large_log_is_compared_by_a_job_that_finds_what_is_missing_and_what_is_altered(
    spark_local: SparkRig, tmp_path: Path
) -> None:
    commits = {version: first_commit() + b"%d" % version for version in range(5_000)}
    (tmp_path / "_delta_log").mkdir()
    for version, data in commits.items():
        (tmp_path / commit_key(version)).write_bytes(data)
    expected = [
        ExpectedObject(version=version, key=commit_key(version), pieces=((len(data), sha256(data).digest()),))
        for version, data in commits.items()
    ]
    (tmp_path / commit_key(7)).unlink()
    (tmp_path / commit_key(234)).write_bytes(b"{}")
    spark_local.run([unit_at(tmp_path / "t")])
    before = spark_local.jobs()
    assert spark_local.differences(StoreAddress.of(str(tmp_path), StorageSettings()), expected) == [
        ObjectDifference(version=7, key=commit_key(7), found=""),
        ObjectDifference(version=234, key=commit_key(234), found=sha256(b"{}").hexdigest()),
    ]
    assert spark_local.jobs() == before + 1


@pytest.mark.requirement("R70")
def test_the_commits_of_a_large_log_are_held_against_the_rules_by_one_job(
    spark_local: SparkRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_parts, "_COMMITS", 2)
    (tmp_path / "_delta_log").mkdir()
    for version, data in enumerate([first_commit(), *(commit(file(f"f{number}")) for number in range(9))]):
        (tmp_path / commit_key(version)).write_bytes(data)
    (tmp_path / commit_key(7)).write_bytes(b"{\n")
    address, store = (StoreAddress.of(str(tmp_path), StorageSettings()), store_at(str(tmp_path), StorageSettings()))
    in_force = state_at(store, read_listing(store), 3)
    spark_local.run([unit_at(tmp_path / "t")])
    before = spark_local.jobs()

    def foundation(version: int) -> Foundation:
        return Foundation(version=version, protocol=in_force.protocol, metadata=in_force.metadata)

    examine = partial(CommitParts, cast("Inspector", spark_local), address, foundation)
    found = validate_log(store, examine=examine)
    assert {(each.rule, each.file) for each in found.findings} == {("line.json", commit_key(7))}
    assert spark_local.jobs() == before + 1


def test_a_unit_that_is_too_large_for_one_job_is_put_by_executors_in_two(spark_local: SparkRig, tmp_path: Path) -> None:
    # Random: what compresses would be no load.
    large = [commit(*(file(os.urandom(250_000).hex(), stats=None) for _ in range(20))) for _ in range(3)]
    history = [first_commit(), *large]
    unit = unit_of(itertools.starmap(work_of, enumerate(history)), location=str(tmp_path / "t"), checksums=False)
    spark_local.run([unit_at(tmp_path / "small")])
    before = spark_local.jobs()
    [outcome] = spark_local.run([replace(unit, lease=replace(unit.lease, held_until=float("inf")))])
    assert outcome.failure is None
    assert [(tmp_path / "t" / commit_key(version)).read_bytes() for version in range(4)] == history
    assert spark_local.jobs() == before + 2


@pytest.fixture
def without_java(tmp_path: Path) -> Iterator[SparkRig]:
    folder = tmp_path / "driver"
    folder.mkdir()
    with started_driver(folder, "local[1]", {"JAVA_HOME": "/nowhere"}) as rig:
        yield rig


def test_without_java_the_error_says_what_to_install(without_java: SparkRig, tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match="no Java") as raised:
        without_java.run([unit_at(tmp_path / "t")])
    assert "Java runtime" in raised.value.hint


def test_a_jvm_that_ended_is_replaced(spark_local: SparkRig, tmp_path: Path) -> None:
    spark_local.run([unit_at(tmp_path / "before")])
    spark_local.kill_jvm()
    with pytest.raises(Unavailable, match="Spark"):
        spark_local.run([unit_at(tmp_path / "meanwhile")])
    (outcome,) = spark_local.run([unit_at(tmp_path / "after")])
    assert outcome.failure is None


@pytest.mark.elsewhere  # a Spark that ended is replaced: test_a_jvm_that_ended_is_replaced
def test_a_connect_server_that_comes_back_is_used_again(
    spark_connect: SparkRig, connect_server: ConnectServer, tmp_path: Path
) -> None:
    spark_connect.run([unit_at(tmp_path / "before")])
    connect_server.kill()
    with pytest.raises(Unavailable, match="no server answers"):
        spark_connect.run([unit_at(tmp_path / "meanwhile")])
    connect_server.start()
    (outcome,) = spark_connect.run([unit_at(tmp_path / "after")])
    assert outcome.failure is None
