"""A fence is an ordinary commit, and so is its end: the protocol says it, and everything else of the table stays."""

import pytest

from deltamirror import Catalog, Protocol
from deltamirror.delta.features import FENCE_FEATURE
from deltamirror.errors import Conflict, InvalidInput
from tests.support.lakes.lake import add, create, info_of, paths

pytestmark = [pytest.mark.requirement("R39"), pytest.mark.default_on("sqlite")]

LEGACY = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"}


def test_a_fence_is_a_commit_and_its_end_is_another(catalog: Catalog) -> None:
    table = create(catalog, properties=LEGACY)
    assert (fenced := table.fence()) is not None
    assert fenced.versions == {"t": 1}
    features = [FENCE_FEATURE, "invariants", "appendOnly"]
    assert table.snapshot().protocol == Protocol(min_reader_version=1, min_writer_version=7, writer_features=features)
    assert info_of(table, 1)["operation"] == "UPGRADE PROTOCOL"
    assert table.fence() is None

    table.append([add("a")])
    assert table.unfence() is not None
    assert table.snapshot().protocol == Protocol(min_reader_version=1, min_writer_version=2)
    assert info_of(table, 3)["operation"] == "DROP FEATURE"
    assert info_of(table, 3)["operationParameters"] == {"featureName": FENCE_FEATURE, "truncateHistory": False}
    assert table.unfence() is None
    table.append([add("b")])
    assert (table.info().head, paths(table)) == (4, ["a", "b"])


def test_the_other_features_stay_when_the_fence_comes_and_goes(catalog: Catalog) -> None:
    table = create(catalog, features=["deletionVectors", "rowTracking"], properties={"delta.enableRowTracking": "true"})
    before = table.snapshot().protocol
    table.fence()
    assert {FENCE_FEATURE, *(before.writer_features or [])} == set(table.snapshot().protocol.writer_features or [])
    assert table.snapshot().protocol.reader_features == before.reader_features
    table.unfence()
    assert table.snapshot().protocol == before


def test_no_other_feature_goes_with_the_fence(catalog: Catalog) -> None:
    table = create(catalog, features=["deletionVectors"])
    table.fence()
    with pytest.raises(InvalidInput, match="deletionVectors"), catalog.transaction() as tx:
        tx.stage("t", [Protocol(min_reader_version=1, min_writer_version=2)])
    assert FENCE_FEATURE in (table.snapshot().protocol.writer_features or [])


def test_a_fence_that_came_in_between_is_a_conflict_for_who_read_before_it(catalog: Catalog) -> None:
    table = create(catalog)
    tx = catalog.transaction()
    tx.read("t", all=True)
    tx.append("t", [add("a")])
    table.fence()
    with pytest.raises(Conflict):
        tx.commit()
    table.append([add("a")])
    assert table.info().head == 2
