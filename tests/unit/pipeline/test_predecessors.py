"""Before a version is put, the one before it is known to be there: once a service, and after any trouble."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from deltamirror import Catalog
from deltamirror.config import StorageSettings
from deltamirror.errors import LogChanged, Unavailable
from deltamirror.pipeline.run import execution
from deltamirror.pipeline.run.execution import Resources, execute
from deltamirror.pipeline.service.jobs import Predecessors
from deltamirror.publish.commits import publish_commits
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import CommitOutcome, CommitUnit, Outcome
from tests.support.logs.commit_units import commit_key, unit_of, watched, work_of
from tests.support.mirrors.local import append, mirror_of

pytestmark = pytest.mark.requirement("R24")


class Service:
    """Publishes versions one by one to a remote store, which may be out of order at times."""

    def __init__(self, store: Store) -> None:
        self.is_troubled = False
        self._store, self.calls = watched(store, before=self._trouble)
        self._predecessors = Predecessors()

    def publish(self, version: int) -> Outcome:
        """Each time by another executor."""
        planned = self._unit(version)
        resources = Resources(None, open_store=lambda _: self._store)
        outcome = execute(self._predecessors.continued(planned), resources=resources)
        assert isinstance(outcome, CommitOutcome)
        self._predecessors.remember(planned, outcome)
        return outcome

    @property
    def asked(self) -> list[str]:
        """The commits that it has asked for, whether they are there."""
        return [key for key in self.calls.of("head") if key.endswith(".json")]

    def _unit(self, version: int) -> CommitUnit:
        unit = unit_of([work_of(version, b'{"commitInfo":{}}\n')], location=self._store.location, checksums=False)
        lasting = replace(unit.lease, held_until=float("inf"))
        return replace(unit, lease=lasting, follows=commit_key(version - 1) if version else "")

    def _trouble(self, operation: str, key: str) -> object:
        if self.is_troubled and operation == "create":
            raise Unavailable("the store is out of order")
        return None


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def published(outcome: Outcome) -> bool:
    return isinstance(outcome, CommitOutcome) and outcome.failure is None and len(outcome.published) == 1


def test_what_a_service_put_itself_it_does_not_ask_for(store: Store) -> None:
    service = Service(store)
    assert all(published(service.publish(version)) for version in range(4))
    assert service.asked == []


def test_another_service_asks_once(store: Store) -> None:
    Service(store).publish(0)
    service = Service(store)
    assert all(published(service.publish(version)) for version in (1, 2, 3))
    assert service.asked == [commit_key(0)]


def test_after_trouble_it_asks_again(store: Store) -> None:
    service = Service(store)
    service.publish(0)
    service.is_troubled = True
    assert not published(service.publish(1))
    service.is_troubled = False
    assert published(service.publish(1))
    assert service.asked == [commit_key(0)]


def test_nothing_is_put_where_the_version_before_it_is_not(store: Store) -> None:
    outcome = Service(store).publish(7)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, LogChanged)
    assert (outcome.failure.version, outcome.failure.key) == (7, commit_key(6))
    assert "deltamirror reconcile sales.t" in outcome.failure.error.hint
    assert list(store.list()) == []


def test_a_service_looks_for_the_version_before_its_first_and_not_for_its_own(
    sqlite_lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    follows: list[str] = []

    def noted(unit: CommitUnit, *arguments: Any, **options: Any) -> CommitOutcome:
        follows.append(unit.follows)
        return publish_commits(unit, *arguments, **options)

    monkeypatch.setattr(execution, "publish_commits", noted)
    with Catalog(sqlite_lake) as catalog:
        table = catalog.create_table("t", location=f"memory://{uuid4()}/t", schema="id long")
        for _ in range(2):
            with mirror_of(catalog) as engine:
                for _ in range(2):
                    append(table)
                    engine.mirror("t")
    assert follows == ["", "", commit_key(2), ""]
