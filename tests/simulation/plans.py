"""What happens in a schedule: who takes part, what they do, what goes wrong, and when. Drawn from a seed."""

import random
from collections.abc import Iterator
from typing import Final

import msgspec

_STEPS: Final = 350

OF_ONE_TABLE: Final = ("throttled", "away", "full", "denied", "hangs", "transient")
"""The lasting troubles of a neighbour, by the amount of its event."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One transaction of a writer."""

    kind: str
    """append, remove, rewrite, property, or unknown (an action that nobody knows)"""
    table: int = -1
    """-1: all of them, in one transaction"""
    files: int = 1
    retried: str = "token"
    """By what it is known again: token, app (an application's version), or nothing."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happens at a step."""

    at: int
    kind: str
    """A method of ``chaos.Chaos``."""
    target: int = 0
    amount: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule, but for the order of steps, which ``seed`` gives."""

    seed: int
    tables: int = 1
    services: int = 1
    writers: tuple[tuple[Operation, ...], ...] = ()
    events: tuple[Event, ...] = ()
    stickiness: int = 0
    batch: int = 100
    interval: int = 10
    stage_above: int = 1_000
    verify: str = "basic"
    look_ahead: bool = True
    adopts: bool = False
    """Whether the operator adopts what somebody else wrote; otherwise it is moved out of the log."""
    poisoned: bool = False
    """Whether the first table goes on failing for a while when nothing else does."""
    poison_hangs: bool = False
    """Whether its calls do not come back, instead of failing; services are stopped and started meanwhile."""
    expires: bool = False
    """Whether logs are kept for a day only."""
    neighbours: bool = False
    """Whether nothing goes wrong but at single tables, which must not delay the others."""

    @property
    def hangs(self) -> bool:
        """Whether any call of a store may hang."""
        return self.poison_hangs or any(map(_hangs, self.events))


def _hangs(event: Event) -> bool:
    lasting = event.kind == "neighbour" and OF_ONE_TABLE[event.amount % len(OF_ONE_TABLE)] == "hangs"
    return lasting or event.kind == "table_hangs"


# How often each kind of event is drawn, how many things it may concern, and the range of its amount.
_EVENTS: Final[dict[str, tuple[int, tuple[int, int]]]] = {
    "crash": (4, (5, 150)),
    "crash_after_write": (4, (5, 150)),
    "crash_after_put": (3, (5, 150)),
    "suspend": (6, (20, 250)),
    "elapse": (4, (1, 400)),
    "pass_days": (2, (1, 2)),
    "set_clock": (1, (-120, 1_800)),
    "store_down": (3, (10, 150)),
    "store_flaky": (5, (50, 300)),
    "table_down": (2, (30, 200)),
    "table_hangs": (3, (30, 250)),
    "store_partial": (2, (30, 200)),
    "database_down": (2, (3, 20)),
    "database_flaky": (3, (30, 150)),
    "foreign_commit": (4, (0, 2)),
    "lose_commit": (2, (0, 9)),
    "alter_commit": (1, (0, 9)),
    "lose_checkpoint": (1, (0, 9)),
    "lose_checksum": (1, (0, 9)),
    "lose_pointer": (1, (0, 0)),
    "repair": (1, (0, 0)),
}

_NEIGHBOURHOODS: Final = 10
"""One of so many schedules is of neighbours."""

_OPERATIONS: Final = {"append": 8, "remove": 5, "rewrite": 5, "property": 2, "unknown": 1}


def drawn(seed: int) -> Plan:
    """The plan of a seed."""
    lots = random.Random(f"plan {seed}")
    if seed % _NEIGHBOURHOODS == _NEIGHBOURHOODS - 1:
        return _neighbourhood(seed, lots)
    tables = lots.choice([1, 1, 1, 2, 2, 3])
    poisoned = tables > 1 and lots.random() < 0.5
    return Plan(
        seed=seed,
        tables=tables,
        services=lots.choice([1, 1, 2, 2, 3]),
        writers=tuple(_operations(lots, tables) for _ in range(lots.choice([1, 2, 2, 3]))),
        events=(*(_event(lots) for _ in range(lots.choice([0, 2, 4, 8, 12]))), *_misleading(seed)),
        stickiness=lots.choice([0, 3, 6, 8]),
        batch=lots.choice([1, 2, 3, 100]),
        interval=lots.choice([2, 3, 5]),
        stage_above=lots.choice([1, 1_000]),
        verify=lots.choice(["basic", "basic", "strict"]),
        look_ahead=lots.random() < 0.7,
        adopts=lots.random() < 0.6,
        expires=lots.random() < 0.4,
        poisoned=poisoned,
        poison_hangs=poisoned and lots.random() < 0.5,
    )


def _neighbourhood(seed: int, lots: random.Random) -> Plan:
    """Many tables in one store, most of which may be in lasting trouble, each in its own way."""
    tables = lots.randint(3, 10)
    troubled = lots.sample(range(tables), lots.randint(1, tables - 1))
    return Plan(
        seed=seed,
        tables=tables,
        services=lots.choice([1, 1, 2]),
        writers=tuple(_appends(lots, tables) for _ in range(3)),
        events=tuple(
            Event(
                at=lots.randrange(100, 250),
                kind="neighbour",
                target=table,
                amount=lots.randrange(2 * len(OF_ONE_TABLE)),
            )
            for table in troubled
        ),
        stickiness=lots.choice([0, 3, 6, 8]),
        batch=lots.choice([1, 3, 100]),
        interval=5,
        look_ahead=False,
        neighbours=True,
    )


def _appends(lots: random.Random, tables: int) -> tuple[Operation, ...]:
    return tuple(Operation(kind="append", table=lots.randrange(tables)) for _ in range(lots.randint(8, 16)))


def _operations(lots: random.Random, tables: int) -> tuple[Operation, ...]:
    return tuple(_operation(lots, tables) for _ in range(lots.randint(2, 8)))


def _operation(lots: random.Random, tables: int) -> Operation:
    [kind] = lots.choices(list(_OPERATIONS), list(_OPERATIONS.values()))
    everywhere = kind == "append" and lots.random() < 0.3
    return Operation(
        kind=kind,
        table=-1 if everywhere else lots.randrange(tables),
        files=lots.choice([1, 1, 2, 3]),
        retried=lots.choice(["token", "token", "app", ""]),
    )


def _event(lots: random.Random) -> Event:
    [kind] = lots.choices(list(_EVENTS), [weight for weight, _ in _EVENTS.values()])
    least, most = _EVENTS[kind][1]
    return Event(at=lots.randrange(_STEPS), kind=kind, target=lots.randrange(12), amount=lots.randint(least, most))


def _misleading(seed: int) -> Iterator[Event]:
    """Objects that mislead readers, in half of all schedules, whatever else happens in them."""
    lots = random.Random(f"misleading {seed}")
    for _ in range(lots.choice([0, 0, 1, 3])):
        yield Event(at=lots.randrange(_STEPS), kind="mislead", target=lots.randrange(12), amount=lots.randrange(30))
