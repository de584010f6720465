"""One schedule, from its plan to its end."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from deltamirror import Catalog
from deltamirror.config import (
    AlertSettings,
    BreakerSettings,
    CatalogSettings,
    CheckpointSettings,
    MirrorSettings,
    ReconcileSettings,
    Settings,
    StorageSettings,
    WriterSettings,
)
from tests.simulation.actors import Actor, Operator, Service, Writer
from tests.simulation.chaos import Chaos
from tests.simulation.guarantees import Observer
from tests.simulation.plans import Plan
from tests.simulation.world import Trouble, World

_TROUBLED: Final = 500
"""Steps in which things go wrong."""

_TROUBLED_SECONDS: Final = 7_200.0
"""The same in time of one day, for when all who would take steps are down."""

_TROUBLED_NEIGHBOURS: Final = 900

_NEIGHBOURLY: Final = 60.0
"""Seconds that the trouble of others may delay a table: all requests that hang, two at a time, and the next pass."""

_PATIENCE: Final = 3_600.0
"""Seconds after the last trouble within which everything has to be as if there had been none."""

_LONG_CALL: Final = 90.0
"""Longer than a lease, within which a service has to end."""

_SHORT_CALL: Final = 10.0
"""All neighbours but one may hang, two at once, and the last one is to be published to in time."""

_HANGING: Final = 600.0
"""Seconds for which a table hangs, and within which all others are as if it did not."""

_LAST_STEPS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a schedule."""

    plan: Plan
    failure: str
    """Empty: all guarantees hold."""
    trace: tuple[str, ...]
    versions: int

    @property
    def steps(self) -> int:
        """How many steps it took."""
        return len(self.trace)


def run(world: World, plan: Plan) -> Outcome:
    """Run a schedule. Whatever it comes to, nothing of it is left."""
    world.begin(plan.seed, stickiness=plan.stickiness)
    observer, failure = Observer(world), ""
    try:
        _Run(world, observer, plan).to_the_end()
    except Exception as error:  # noqa: BLE001 - a schedule that fails is an outcome
        failure = f"{type(error).__name__}: {error}"
    finally:
        world.witness = type(world.witness).__mro__[-2]()
        trace = tuple(world.schedule.trace)
        world.schedule.kill_all()
    versions = sum(len(table.versions) for table in observer.tables.values())
    return Outcome(plan, failure, trace, versions)


class _Run:
    def __init__(self, world: World, observer: Observer, plan: Plan) -> None:
        self._world, self._observer, self._plan = world, observer, plan
        self._settings = _settings(plan)
        world.hangs = plan.hangs
        self._create_tables()
        parts = (world, observer, self._settings)
        self._writers = [Writer(*parts, f"w{number}", each) for number, each in enumerate(plan.writers)]
        self._services = [Service(*parts, f"s{number}") for number in range(plan.services)]
        self._operator = Operator(*parts, "operator", adopts=plan.adopts)
        self._chaos = Chaos(world, observer, [*self._writers, *self._services, self._operator], plan.events)

    def to_the_end(self) -> None:
        schedule = self._world.schedule
        schedule.before_step = self._chaos.before_step
        for actor in (*self._writers, *self._services):
            actor.start()
        schedule.run(self._is_troubled_enough)
        if self._plan.neighbours and (delayed := self._observer.delayed(_NEIGHBOURLY)):
            raise AssertionError(f"G7: {delayed} wait for more than {_NEIGHBOURLY:.0f} s, for the trouble of others")
        schedule.note("no trouble from here on")
        self._chaos.end()
        if self._plan.poisoned:
            self._settle_but_one()
        if self._operator.process.is_done:
            self._operator.start()
        self._settle()
        self._stop([*self._services, self._operator], within=_PATIENCE)
        self._observer.check_end()

    def _is_troubled_enough(self) -> bool:
        schedule = self._world.schedule
        if self._plan.neighbours:
            return schedule.steps >= _TROUBLED_NEIGHBOURS or bool(self._observer.delayed(_NEIGHBOURLY))
        if schedule.steps >= _TROUBLED or schedule.now % 86_400 >= _TROUBLED_SECONDS:
            return True
        return self._chaos.is_over and self._is_settled()

    def _settle_but_one(self) -> None:
        """One poisoned table never delays another."""
        schedule, [poisoned, *_] = self._world.schedule, list(self._observer.tables.values())
        kinds = ["hangs"] if self._plan.poison_hangs else ["away", "denied", "full"]
        self._world.troubles.stores.append((poisoned.location, Trouble(kinds, 100, sys.maxsize)))
        begun, last = schedule.now, schedule.steps + _LAST_STEPS
        late = begun + (_HANGING if self._plan.poison_hangs else _PATIENCE)
        schedule.run(lambda: schedule.now > late or schedule.steps > last or not self._observer.held_up(but=poisoned))
        if held_up := self._observer.held_up(but=poisoned):
            raise AssertionError(f"G7: {held_up} are held up by {poisoned.name}")
        schedule.note(f"the others went on within {schedule.now - begun:.0f} s")
        if self._plan.poison_hangs:
            schedule.run(lambda: schedule.now > late)  # for as long as it takes to try again many times
            self._restart_services()
            soon = schedule.now + self._world.lots.uniform(0, self._settings.storage.timeout)
            schedule.run(lambda: schedule.now > soon)  # calls that nobody knows to hang are under way
            self._restart_services()
        self._world.end_troubles()

    def _restart_services(self) -> None:
        """A service that is told to stop is gone within a lease, though a store hangs."""
        begun = self._world.schedule.now
        self._stop(self._services, within=self._settings.mirror.lease)
        self._world.schedule.note(f"the services ended within {self._world.schedule.now - begun:.0f} s")
        for service in self._services:
            service.start()

    def _settle(self) -> None:
        schedule = self._world.schedule
        late, last = schedule.now + _PATIENCE, schedule.steps + _LAST_STEPS
        schedule.run(lambda: schedule.now > late or schedule.steps > last or self._is_settled())
        if not self._is_settled():
            busy = [writer.name for writer in self._writers if not writer.is_finished]
            self._observer.check_end()
            raise AssertionError(f"G6: not settled; writers {busy}")

    def _is_settled(self) -> bool:
        return all(writer.is_finished for writer in self._writers) and self._observer.is_settled

    def _stop(self, actors: Sequence[Actor], *, within: float) -> None:
        for actor in actors:
            actor.stop()
        schedule = self._world.schedule
        late = schedule.now + within
        schedule.run(lambda: schedule.now > late or all(actor.process.is_done for actor in actors))
        running = [actor.name for actor in actors if not actor.process.is_done]
        if running:
            raise AssertionError(f"G7: {running} do not come to an end within {within:.0f} s")

    def _create_tables(self) -> None:
        self._world.witness = self._observer
        catalog = Catalog(settings=self._settings)
        properties = {"delta.logRetentionDuration": "interval 1 days"} if self._plan.expires else {}
        for number in range(self._plan.tables):
            catalog.create_table(
                f"t{number}", location=f"{self._world.bucket}/t{number}", schema="id long", properties=properties
            )


def _settings(plan: Plan) -> Settings:
    """Times are short where waiting costs steps, and in the proportions of the defaults."""
    return Settings(
        catalog=CatalogSettings(url="sqlite:///:memory:", stage_above=plan.stage_above),
        writer=replace(WriterSettings(), retries=3, look_ahead=plan.look_ahead),
        mirror=MirrorSettings(
            runner="local",
            batch_versions=plan.batch,
            poll=5.0,
            verify=plan.verify,  # type: ignore[arg-type]
            retry_permanent=120.0,
            concurrency=2,
        ),
        checkpoint=CheckpointSettings(interval=plan.interval, lease=90.0),
        # Neighbours: whoever waits for a circuit that is open waits for too long.
        breaker=BreakerSettings(pause=600.0 if plan.neighbours else 20.0),
        reconcile=ReconcileSettings(interval=100.0, sample=3),
        alerts=AlertSettings(enabled=False),
        storage=StorageSettings(timeout=_SHORT_CALL if plan.neighbours else _LONG_CALL),
    )
