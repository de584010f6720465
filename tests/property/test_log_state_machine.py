"""The log in SQL agrees with a dict: a list of versions a table, the live files of each, tokens, applications.

Hypothesis drives creates, appends, removes, metadata changes, stale and exact versions, tokens, application
transactions, staged commits, statements that fail, lost replies, time travel, drops. A failing run prints the steps
that lead to it, and the line that reproduces it.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import func, select

from deltamirror import Add, Catalog, Committed, Remove, Transaction
from deltamirror.config import CatalogSettings, Settings, WriterSettings
from deltamirror.delta import lines
from deltamirror.delta.replay import State, replay
from deltamirror.errors import (
    AlreadyExists,
    Conflict,
    DeltaMirrorError,
    NotFound,
    TokenReused,
    Unavailable,
)
from deltamirror.txnlog.database.schema import stages
from tests.property.log_model import (
    NAMES,
    PARTITIONS,
    Fault,
    Interrupted,
    ModelTable,
    Open,
    Tokened,
    Version,
    apps,
    disturbed,
    faults,
    names,
    partitions,
    path_of,
    some_spots,
    spots,
)
from tests.support.databases.catalogs import database_url
from tests.support.suite.examples import long_examples

pytestmark = [pytest.mark.requirement("R36"), pytest.mark.requirement("R38"), pytest.mark.requirement("R35")]
STAGE_ABOVE = 3
_EVERYTHING = -3600.0


class LogMachine(RuleBasedStateMachine):
    """The catalog beside its model."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.catalog = catalog
        self.prefix = f"m{uuid.uuid4().hex}"
        self.tables: dict[str, ModelTable] = {}
        self.tokens: dict[str, Tokened] = {}
        self.open: list[Open] = []
        self.sizes = 0
        # Examples share a database: what a failing one left there is not this one's.
        catalog.writer.optimise(older_than=_EVERYTHING)

    # What the rules are made of

    def name(self, short: str) -> str:
        return f"{self.prefix}.{short}"

    def add(self, spot: tuple[str, int]) -> Add:
        self.sizes += 1
        values: dict[str, str | None] = {"p": spot[0]}
        return Add(path=path_of(spot), partition_values=values, size=self.sizes, modification_time=1, data_change=True)

    def attempt(self, act: Callable[[], Committed], fault: Fault | None = None) -> Committed | DeltaMirrorError | None:
        """Do it under a fault: the answer, the error, or None where the fault kept it from taking place."""
        try:
            with disturbed(self.catalog.database, fault):
                return act()
        except Interrupted:
            # It may have come while a stage was being discarded; then that is left to the sweeper.
            self.catalog.writer.optimise(older_than=_EVERYTHING)
            return None
        except Unavailable:
            # A stage whose own COMMIT got lost is given up: its stream cannot be read twice.
            assert fault is not None
            assert fault.kind.startswith("lost")
            return None
        except DeltaMirrorError as error:
            return error

    def committed(
        self,
        outcome: Committed | DeltaMirrorError | None,
        short: str,
        *,
        added: list[Add] | tuple[Add, ...] = (),
        removed: tuple[str, ...] = (),
        properties: dict[str, str] | None = None,
        app: tuple[str, int] | None = None,
        unplaced: bool = False,
    ) -> None:
        """The commit took place as the next version; unless a fault undid it, and all of it.

        Its removes are ``unplaced`` if they do not say of which partition: it may be any.
        """
        if outcome is None:
            return
        assert isinstance(outcome, Committed), repr(outcome)
        assert not outcome.already_applied
        table = self.tables[short]
        before = table.versions[-1]
        assert outcome.versions[self.name(short)] == table.head + 1
        assert outcome.timestamp > before.timestamp
        kept = {path: size for path, size in before.files.items() if path not in removed}
        paths = {*removed, *(add.path for add in added)}
        version = Version(
            files={**kept, **{add.path: add.size for add in added}},
            properties={**before.properties, **(properties or {})},
            apps={**before.apps, **dict([app] if app else [])},
            timestamp=outcome.timestamp,
            touched=frozenset(PARTITIONS) if unplaced else frozenset(path[2] for path in paths),
            removed=frozenset(removed),
            changes_metadata=properties is not None,
        )
        table.versions.append(version)
        if app is not None:
            table.app_versions[app] = table.head

    def transact(self, fill: Callable[[Transaction], object], **options: Any) -> Callable[[], Committed]:
        def act() -> Committed:
            with self.catalog.transaction(**options) as tx:
                fill(tx)
            return tx.result

        return act

    # Tables come and go

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for short in NAMES:
            self.create(short)

    @rule(short=names, fault=st.none() | st.builds(Fault, st.just("statement"), st.integers(1, 12)))
    def create(self, short: str, fault: Fault | None = None) -> None:
        name = self.name(short)

        def act() -> Committed:
            table = self.catalog.create_table(
                name, location=f"/lake/{name}", schema="id long, p string", partition_by=["p"]
            )
            return Committed(versions={name: 0}, timestamp=table.snapshot().timestamp)

        outcome = self.attempt(act, fault)
        if short in self.tables:
            assert outcome is None or isinstance(outcome, AlreadyExists)
        elif outcome is not None:
            assert isinstance(outcome, Committed), repr(outcome)
            properties = self.catalog.table(name).snapshot().metadata.configuration
            first = Version(files={}, properties=dict(properties), apps={}, timestamp=outcome.timestamp)
            self.tables[short] = ModelTable([first])

    @rule(short=names, often=st.integers(0, 3))
    def drop(self, short: str, often: int) -> None:
        if short in self.tables and not often:
            self.catalog.drop_table(self.name(short), unpublished=True)
            del self.tables[short]

    # Commits

    @rule(short=names, spots=some_spots, fault=faults, tokened=st.booleans())
    def append(self, short: str, spots: set[tuple[str, int]], fault: Fault | None, tokened: bool) -> None:
        files = [self.add(spot) for spot in sorted(spots)]
        token = f"{self.prefix}-{self.sizes}" if tokened else None
        outcome = self.attempt(self.transact(lambda tx: tx.append(self.name(short), files), token=token), fault)
        if short not in self.tables:
            assert outcome is None or isinstance(outcome, NotFound), repr(outcome)
            return
        self.committed(outcome, short, added=files)
        if token is not None and isinstance(outcome, Committed):
            self.tokens[token] = Tokened(self.tables[short], self.name(short), files, outcome)

    @precondition(lambda self: len(self.tables) == len(NAMES))
    @rule(spots=some_spots, fault=faults)
    def append_to_both(self, spots: set[tuple[str, int]], fault: Fault | None) -> None:
        files = [self.add(spot) for spot in sorted(spots)]

        def fill(tx: Transaction) -> None:
            for short in reversed(NAMES):
                tx.append(self.name(short), files)

        outcome = self.attempt(self.transact(fill), fault)
        for short in NAMES:
            self.committed(outcome, short, added=files)

    @rule(short=names, partition=partitions, spots=some_spots, fault=faults)
    def replace_partition(self, short: str, partition: str, spots: set[tuple[str, int]], fault: Fault | None) -> None:
        if short not in self.tables:
            return
        live = tuple(path for path in self.tables[short].live if path[2] == partition)
        files = [self.add(spot) for spot in sorted(spots) if spot[0] == partition and path_of(spot) not in live]
        if not live:
            return

        def fill(tx: Transaction) -> None:
            tx.read(self.name(short), partitions={"p": partition})
            tx.remove(self.name(short), live)
            tx.append(self.name(short), files)

        self.committed(self.attempt(self.transact(fill), fault), short, added=files, removed=live)

    @rule(short=names, key=st.sampled_from(["k1", "k2"]), fault=faults)
    def change_metadata(self, short: str, key: str, fault: Fault | None) -> None:
        if short not in self.tables:
            return
        self.sizes += 1
        properties = {key: str(self.sizes)}
        fill = self.transact(lambda tx: tx.set_metadata(self.name(short), properties=properties))
        self.committed(self.attempt(fill, fault), short, properties=properties)

    @rule(short=names, spot=spots, distance=st.integers(-2, 2), fault=faults)
    def commit_at_version(self, short: str, spot: tuple[str, int], distance: int, fault: Fault | None) -> None:
        if short not in self.tables:
            return
        wanted = max(self.tables[short].head + 1 + distance, 0)
        file = self.add(spot)
        act = self.transact(lambda tx: tx.stage(self.name(short), [file], at_version=wanted))
        outcome = self.attempt(act, fault)
        if distance == 0:
            self.committed(outcome, short, added=[file])
        else:
            assert outcome is None or isinstance(outcome, Conflict), repr(outcome)

    @rule(short=names, spots=some_spots, age=st.integers(-1, 4), fault=faults)
    def append_from_an_old_version(
        self, short: str, spots: set[tuple[str, int]], age: int, fault: Fault | None
    ) -> None:
        """An append conflicts with a change of the metadata, and with the removal of a file that it adds again."""
        if short not in self.tables:
            return
        table = self.tables[short]
        version = max(table.head - age, 0)
        files, paths = [self.add(spot) for spot in sorted(spots)], [path_of(spot) for spot in spots]
        act = self.transact(lambda tx: tx.stage(self.name(short), files, read_version=version))
        outcome = self.attempt(act, fault)
        if age < 0:
            assert outcome is None or isinstance(outcome, NotFound), repr(outcome)
        elif any(w.changes_metadata or not w.removed.isdisjoint(paths) for w in table.since(version)):
            assert outcome is None or isinstance(outcome, Conflict), repr(outcome)
        else:
            self.committed(outcome, short, added=files)

    @rule(short=names, age=st.integers(0, 3), pick=st.integers(0, 9), fault=faults)
    def remove_from_an_old_version(self, short: str, age: int, pick: int, fault: Fault | None) -> None:
        """A remove that names no read set read the whole table: it follows no other change of files."""
        if short not in self.tables:
            return
        table = self.tables[short]
        version = max(table.head - age, 0)
        live = sorted(table.versions[version].files)
        if not live:
            return
        remove = Remove(path=live[pick % len(live)], data_change=True)
        act = self.transact(lambda tx: tx.stage(self.name(short), [remove], read_version=version))
        outcome = self.attempt(act, fault)
        if any(winner.touched or winner.changes_metadata for winner in table.since(version)):
            assert outcome is None or isinstance(outcome, Conflict), repr(outcome)
        else:
            self.committed(outcome, short, removed=(remove.path,), unplaced=True)

    # Transactions that stay open while others commit

    @rule(short=names, partition=partitions)
    def open_transaction(self, short: str, partition: str) -> None:
        if short in self.tables and len(self.open) < 3:
            transaction = self.catalog.transaction()
            transaction.read(self.name(short), partitions={"p": partition})
            table = self.tables[short]
            self.open.append(Open(transaction, short, table, table.head, partition))

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 4), fault=faults)
    def finish_transaction(self, number: int, fault: Fault | None) -> None:
        """It read a partition: whoever changed that came first. Other partitions do not matter."""
        opened = self.open.pop(0)
        file = self.add((opened.partition, number))
        opened.transaction.append(self.name(opened.name), [file])
        outcome = self.attempt(opened.transaction.commit, fault)
        winners = opened.table.since(opened.version)
        if self.tables.get(opened.name) is not opened.table:
            assert outcome is None or isinstance(outcome, NotFound | Conflict), repr(outcome)
        elif any(opened.partition in winner.touched or winner.changes_metadata for winner in winners):
            assert outcome is None or isinstance(outcome, Conflict), repr(outcome)
        else:
            self.committed(outcome, opened.name, added=[file])

    # What was done before is not done again

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), other=st.booleans(), fault=faults)
    def use_a_token_again(self, data: st.DataObject, other: bool, fault: Fault | None) -> None:
        token = data.draw(st.sampled_from(sorted(self.tokens)))
        first = self.tokens[token]
        files = [*first.files, self.add(("x", 9))] if other else first.files
        outcome = self.attempt(self.transact(lambda tx: tx.append(first.name, files), token=token), fault)
        now = self.tables.get(first.name.removeprefix(f"{self.prefix}."))
        if isinstance(outcome, NotFound):
            assert now is None
        elif other:
            assert outcome is None or isinstance(outcome, TokenReused), repr(outcome)
        elif now not in (None, first.table) and outcome is not None:
            assert isinstance(outcome, Conflict), repr(outcome)
            assert outcome.reason == "table-replaced"
        elif outcome is not None:
            assert isinstance(outcome, Committed), repr(outcome)
            assert outcome.already_applied
            assert (outcome.versions, outcome.timestamp) == (first.answer.versions, first.answer.timestamp)

    @rule(short=names, app=apps, number=st.integers(0, 5), spot=spots, fault=faults)
    def record_progress(self, short: str, app: str, number: int, spot: tuple[str, int], fault: Fault | None) -> None:
        if short not in self.tables:
            return
        table, file = self.tables[short], self.add(spot)

        def fill(tx: Transaction) -> None:
            tx.set_transaction(self.name(short), app, number)
            tx.append(self.name(short), [file])

        outcome = self.attempt(self.transact(fill), fault)
        if number > table.versions[-1].apps.get(app, -1):
            self.committed(outcome, short, added=[file], app=(app, number))
        elif outcome is not None:
            assert isinstance(outcome, Committed), repr(outcome)
            assert outcome.already_applied
            exact = table.app_versions.get((app, number))
            latest = table.app_versions[app, table.versions[-1].apps[app]]
            assert outcome.versions == {self.name(short): latest if exact is None else exact}

    # After every step

    @rule(short=names, pick=st.integers(0, 99))
    def travel_in_time(self, short: str, pick: int) -> None:
        if short in self.tables:
            table = self.tables[short]
            version = pick % len(table.versions)
            self.check_version(short, version)
            when = table.versions[version].timestamp
            assert self.catalog.table(self.name(short)).snapshot(as_of=when).version == version

    @invariant()
    def the_heads_are_those_of_the_model(self) -> None:
        found = {info.name: info.head for info in self.catalog.tables() if info.name.startswith(self.prefix)}
        assert found == {self.name(short): table.head for short, table in self.tables.items()}

    @invariant()
    def the_newest_versions_are_those_of_the_model(self) -> None:
        for short, table in self.tables.items():
            self.check_version(short, table.head)

    @invariant()
    def no_stage_is_left_behind(self) -> None:
        with self.catalog.database.read() as connection:
            assert connection.execute(select(func.count()).select_from(stages)).scalar_one() == 0

    def teardown(self) -> None:
        for short, table in self.tables.items():
            states = self.replayed(short)
            for version in range(len(table.versions)):
                self.check_version(short, version, next(states))

    def check_version(self, short: str, version: int, replayed: State | None = None) -> None:
        """SQL's projection, the model, and (where given) the replay of the stored bytes are one and the same."""
        snapshot = self.catalog.table(self.name(short)).snapshot(version)
        expected = self.tables[short].versions[version]
        rows = snapshot.files().to_pylist()
        assert len({row["path"] for row in rows}) == len(rows)
        assert {row["path"]: row["size"] for row in rows} == expected.files
        assert snapshot.timestamp == expected.timestamp
        assert snapshot.metadata.configuration == expected.properties
        assert {app: txn.version for app, txn in snapshot.transactions().items()} == expected.apps
        if replayed is not None:
            assert {path: add.size for (path, _), add in replayed.files.items()} == expected.files
            assert replayed.metadata == snapshot.metadata
            assert replayed.protocol == snapshot.protocol
            assert replayed.txns == snapshot.transactions()

    def replayed(self, short: str) -> Iterator[State]:
        """The state after each version, from the bytes of the log alone."""
        state, table = State(), self.catalog.table(self.name(short))
        assert [entry.version for entry in table.history()] == list(range(self.tables[short].head, -1, -1))
        for version in range(len(self.tables[short].versions)):
            yield replay([lines.decode_commit(table.commit_file(version))], onto=state)


@contextmanager
def opened(url: str) -> Iterator[Catalog]:
    catalog_settings = CatalogSettings(url=url, stage_above=STAGE_ABOVE, chunk_lines=2)
    writer = WriterSettings(retry_base=0.001, retry_max=0.001)
    with Catalog(settings=Settings(catalog=catalog_settings, writer=writer)) as catalog:
        catalog.init()
        yield catalog


def run_machine(url: str, *, examples: int, steps: int) -> None:
    with opened(url) as catalog:
        profile = settings(
            max_examples=long_examples(examples),
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(
            lambda: LogMachine(catalog),  # type: ignore[arg-type]  # Hypothesis documents that any factory will do
            settings=profile,
        )


@pytest.mark.slow
def test_the_log_agrees_with_its_model(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run_machine(database_url("sqlite", request, tmp_path), examples=60, steps=30)


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("duckdb", marks=pytest.mark.elsewhere),  # ten seconds; test_conflict_model has it, too
        pytest.param("postgresql", marks=pytest.mark.postgres),
    ],
)
def test_the_log_agrees_with_its_model_on_the_other_engines(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run_machine(database_url(engine, request, tmp_path), examples=5, steps=20)
