"""Cases by their seeds: a table, some steps, and what readers have to find in the end."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from deltamirror import Catalog, MirrorEngine
from deltamirror.errors import DeltaMirrorError
from tests.admission.changes import CHANGE_STEPS
from tests.admission.kinds import PARTITIONING, Column, Struct, Uids, draw_kind
from tests.admission.life import Definition, Event, Life
from tests.admission.steps import FILE_STEPS
from tests.admission.wire import LINE_STEPS
from tests.support.mirrors.local import local_settings

STEPS: Final = {**FILE_STEPS, **CHANGE_STEPS, **LINE_STEPS}
MOST_STEPS: Final = 6
_NAMES: Final = ("id", "name", "Größe", "a-b", "value_1", "select", "x.y")
_MAPPED_NAMES: Final = ("a b", "p, q", "{}", "=")
_FOLDERS: Final = ("table", "table", "table", "lake of São Paulo + x=y & 'co'", "c#d")


@dataclass(frozen=True, slots=True)
class Lake:
    """A catalog, the engine that publishes its tables, and where these lie."""

    catalog: Catalog
    engine: MirrorEngine
    root: Path


@dataclass(frozen=True, slots=True)
class Tried:
    """A case that was run: where its table lies, what it has to hold, and what was found on the way."""

    name: str
    location: str
    events: tuple[Event, ...]
    rows: tuple[str, ...] | None
    """None: there is no table."""
    column: str = ""
    filtered: tuple[str, ...] = ()
    """The rows where ``column`` is not null."""
    traits: frozenset[str] = frozenset()
    findings: tuple[str, ...] = ()
    definition: Definition = field(default_factory=lambda: Definition(()))


@contextmanager
def open_lake(folder: Path) -> Iterator[Lake]:
    """An empty lake in a folder."""
    with Catalog(f"sqlite:///{folder / 'lake.db'}") as catalog:
        catalog.init()
        with MirrorEngine(settings=local_settings(), database=catalog.database) as engine:
            yield Lake(catalog, engine, folder)


def run_seed(lake: Lake, seed: int, *, name: str = "", only: Collection[int] | None = None) -> Tried:
    """Run the case of a seed, or ``only`` some of its steps."""
    name = name or f"seed{seed}"
    uids = Uids()
    random = Random(seed)
    definition = draw_definition(random, uids)
    life = Life.begin(lake.catalog, name, lake.root / name, definition, uids)
    for number in range(random.randint(2, MOST_STEPS)):
        if life.created and (only is None or number in only):
            own = Random(f"{seed}/{number}")
            STEPS[_kind(seed, number, own)].act(life, own)
    return finish(lake, life)


def begin_rich(lake: Lake, name: str) -> Life:
    """A table with a file that has something for every kind of step."""
    inner = Struct((Column(3, "a", "integer"), Column(4, "b", "string")))
    plain = (Column(1, "part", "integer"), Column(2, "id", "long"), Column(5, "s", inner), Column(6, "n", "short"))
    columns = (*plain, Column(7, "r", "date", nullable=False))
    switched_on = ("delta.enableDeletionVectors", "delta.enableTypeWidening")
    properties = {"delta.columnMapping.mode": "name", **dict.fromkeys(switched_on, "true")}
    definition, uids = Definition(columns, ("part",), properties, ("domainMetadata",)), Uids(above=100)
    life = Life.begin(lake.catalog, name, lake.root / name, definition, uids)
    for number in range(4):
        STEPS["append"].act(life, Random(number))
    return life


def _kind(seed: int, number: int, random: Random) -> str:
    """First there is a file; the second step takes turns, so that some seeds in a row have every kind."""
    kinds = list(STEPS)
    if number == 0:
        return "append"
    return kinds[seed % len(kinds)] if number == 1 else random.choices(kinds, [STEPS[each].weight for each in kinds])[0]


def finish(lake: Lake, life: Life) -> Tried:
    """Publish the table, with a checkpoint if the case wants one."""
    findings = [str(event) for event in life.events if event.is_finding]
    rows: list[str] | None = None
    column = life.model.columns[0] if life.model.columns else Column(0, "", "string")
    if life.created:
        rows = life.model.rows()
        try:
            lake.engine.mirror(life.name)
            if life.definition.checkpoint:
                lake.engine.checkpoint(life.name)
        except DeltaMirrorError as error:
            findings.append(f"cannot be published: {type(error).__name__} {error}"[:400])
    return Tried(
        name=life.name,
        location=str(life.folder),
        events=tuple(life.events),
        rows=None if rows is None else tuple(rows),
        column=column.name,
        filtered=tuple(life.model.rows(column.uid)) if life.created else (),
        traits=traits(life),
        findings=tuple(findings),
        definition=life.definition,
    )


def traits(life: Life) -> frozenset[str]:
    """What a reader is known to have trouble with, if it is so."""
    found: set[str] = set()
    if not life.created:
        return frozenset()
    if life.model.partitioning and any(life.metadata.get(uid) for uid in life.model.partitioning):
        found.add("mapped partition")
    found |= {f"feature {name}" for name in life.foundation[1].reader_features or ()}
    if '"void"' in str(life.foundation[0].schema_string):
        found.add("void")
    return frozenset(found)


def draw_definition(random: Random, uids: Uids) -> Definition:
    """A table of any shape; most are plain, so that more than one oddity at a time is rare."""
    properties: dict[str, str] = {}
    mode = random.choice(["none", "none", "none", "name", "id"])
    if mode != "none":
        properties["delta.columnMapping.mode"] = mode
    for key, chance in _PROPERTIES.items():
        if random.random() < chance:
            properties[key] = "v2" if "Policy" in key else "false" if "InCommit" in key else "true"
    names = random.sample(_NAMES + (_MAPPED_NAMES if mode != "none" else ()), random.randint(1, 4))
    columns = [Column(uids(), name, draw_kind(random, uids), nullable=random.random() < 0.85) for name in names]
    partition_by = []
    for number in range(random.choice([0, 0, 1, 1, 2])):
        kind = random.choice(PARTITIONING)
        columns.insert(0, Column(uids(), f"part{number}", kind, nullable=random.random() < 0.8))
        partition_by.append(f"part{number}")
    return Definition(
        columns=tuple(columns),
        partition_by=tuple(partition_by),
        properties=properties,
        folder=random.choice(_FOLDERS),
        checkpoint=random.random() < 0.5,
    )


_PROPERTIES: Final = {
    "delta.enableDeletionVectors": 0.5,
    "delta.enableRowTracking": 0.2,
    "delta.enableChangeDataFeed": 0.1,
    "delta.enableTypeWidening": 0.3,
    "delta.enableInCommitTimestamps": 0.3,
    "delta.appendOnly": 0.05,
    "delta.checkpointPolicy": 0.15,
}


def counted(tried: Collection[Tried]) -> tuple[Counter[str], Counter[str]]:
    """How often each kind of step was admitted, and refused."""
    events = [event for each in tried for event in each.events]
    admitted = Counter(event.kind for event in events if not event.refusal)
    refused = Counter(event.kind for event in events if event.refusal)
    return admitted, refused
