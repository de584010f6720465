"""The life of a pair of tables: random operations by a seed, after each of which both have the same rows."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from deltamirror import Catalog
from tests.lockstep.kinds import KINDS, LONG, PARTITION_KINDS, Column
from tests.lockstep.operations import draw_operation
from tests.lockstep.pair import Disagreement, Pair
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader
from tests.support.readers.rows import row_texts


@dataclass(frozen=True, slots=True)
class Readers:
    """Those that read our table in the end; Delta Spark also has the other one."""

    spark: Reader
    delta_rs: Reader
    duckdb: Reader


def live(
    seed: int, steps: int, catalog: Catalog, readers: Readers, folder: Path, told: Callable[[str], object] = str
) -> Counter[str]:
    """Take some steps, then let all readers read all versions; how often each operation was taken, or refused."""
    random = Random(seed)
    pair = _drawn_pair(random, catalog, readers, folder)
    counts: Counter[str] = Counter()
    for number in range(steps):
        name, step = draw_operation(random, pair)
        told(f"seed {seed}, step {number}: {name.strip('_')}")
        try:
            counts[name if pair.take(step) else f"{name} refused"] += 1
        except Disagreement as error:
            raise Disagreement(f"seed {seed}, step {number}, {name}: {error}") from None
    _read_by_all(catalog, pair, readers)
    return counts


def _drawn_pair(random: Random, catalog: Catalog, readers: Readers, folder: Path) -> Pair:
    partitions = [f"p{number}" for number in range(random.choice((0, 1, 1, 2)))]
    columns = [
        Column("id", LONG),
        *(Column(name, random.choice(PARTITION_KINDS)) for name in partitions),
        *(Column(f"v{number}", kind) for number, kind in enumerate(random.sample(KINDS, 6))),
    ]
    mode = random.choice(("none", "name", "id"))
    properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    if random.random() < 0.5:
        properties["delta.enableDeletionVectors"] = "true"  # with which theirs deletes, and ours does not
    return Pair.create(catalog, (readers.spark, readers.delta_rs), folder, columns, partitions, properties)


def _read_by_all(catalog: Catalog, pair: Pair, readers: Readers) -> None:
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    # DuckDB reads null from partition columns with a mapped name.
    reading = [readers.spark, readers.delta_rs, *([] if pair.is_mapped and pair.partitions else [readers.duckdb])]
    for version, rows in {each.ours: each.rows for each in pair.moments}.items():
        assert row_texts(pair.table.to_arrow(version=version).to_pylist()) == rows, f"version {version}"
        digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
        for reader in reading:
            found = reader.snapshot(pair.folder / "ours", version=version, rows=True)
            assert (found.row_count, found.row_digest) == (len(rows), digest), f"{reader.name}, version {version}"
