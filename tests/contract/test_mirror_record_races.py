"""A record of published versions beside a comparison that finds one of them gone."""

from typing import Any

import pytest

from deltamirror.errors import Unavailable
from deltamirror.txnlog.database import number_rows
from deltamirror.txnlog.queue import outcomes
from deltamirror.txnlog.queue.findings import Turn
from deltamirror.txnlog.queue.leases import take
from deltamirror.work import Failure, Lane, Stage
from tests.support.lakes.lake import add, create, execute, opened
from tests.support.mirrors.claims import HOUR, claimed, published, record, status_of, work_on

pytestmark = pytest.mark.requirement("R25")


def test_a_version_that_is_found_gone_meanwhile_is_not_hidden_by_a_record(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison lowers how far a table is published between the look of a record and what it writes down."""
    encoded, told = number_rows.rows_value, list[str]()

    def meanwhile(those: Any) -> str:
        told.append(encoded(those))
        if len(told) == 2:  # the first call is for the versions themselves
            lease = take(catalog.database, found.table_id, lane=Lane.RECONCILIATION, owner="other", seconds=HOUR)
            assert lease is not None
            lost = Failure(error=Unavailable("it is gone"), stage=Stage.PUT, version=1, key="1")
            Turn(catalog.database, lease, seconds=HOUR).take_back([lost])
        return told[-1]

    with opened(postgres_url) as catalog:
        catalog.init()
        made = create(catalog)
        for number in range(4):
            made.append([add(f"file{number}")])
        work_on(catalog, upto=3)
        [found] = claimed(catalog)
        monkeypatch.setattr(outcomes, "rows_value", meanwhile)
        assert record(catalog, published(found.lease, 4)).published == 0
        assert len(told) == 2
        states = execute(catalog, "SELECT state FROM dl_mirror_status ORDER BY version")
        assert [state for (state,) in states] == ["SUCCESS", "FAILED", "SUCCESS", "SUCCESS", "SUCCESS"]
        assert (status_of(catalog).published, status_of(catalog).failed) == (0, 1)
        [again] = claimed(catalog)
        assert (again.published, record(catalog, published(again.lease, 1)).published) == (0, 4)
