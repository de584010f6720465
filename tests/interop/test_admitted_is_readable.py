"""What is admitted is readable: every commit that the log accepts leaves a table that Delta Spark, delta-rs and DuckDB
open, with the rows that a model of plain Python has.

Delta Spark, which takes a second for a table, reads every twentieth of the named cases, and one of the random ones; in
``make soak`` all of them.

``python -m tests.admission --seed N`` runs one case again, ``--directed NAME`` a named one; ``make soak`` thousands.
"""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from deltamirror.delta import evolution
from deltamirror.delta.validation import table as table_rules
from deltamirror.delta.validation.values import PartitionColumn
from tests.admission.cases import STEPS, Lake, Tried, begin_rich, counted, open_lake, run_seed
from tests.admission.directed import EVERYDAY, GROUPS, run_group
from tests.admission.reading import read_all
from tests.admission.report import directed_problems, told
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.spark, pytest.mark.requirement("R119")]

SEEDS = range(4)
BY_SPARK = 1
BY_SPARK_EVERY = 20
PART = 35


@pytest.fixture(scope="module")
def readers(delta_rs: Reader, duckdb_delta: Reader, delta_spark: Reader) -> dict[str, Reader]:
    return {"delta-rs": delta_rs, "duckdb": duckdb_delta, "delta-spark": delta_spark}


def kernels(readers: dict[str, Reader]) -> dict[str, Reader]:
    """Those that are quick."""
    return {name: reader for name, reader in readers.items() if name != "delta-spark"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake(tmp_path_factory.mktemp("admission")) as opened:
        yield opened


@pytest.fixture(scope="module")
def tried(lake: Lake) -> list[Tried]:
    return [run_seed(lake, seed) for seed in SEEDS]


def test_whatever_is_admitted_is_read_with_the_same_rows(
    lake: Lake, tried: list[Tried], readers: dict[str, Reader]
) -> None:
    wrong = {**read_all(kernels(readers), tried[BY_SPARK:]), **read_all(readers, tried[:BY_SPARK])}
    texts = [
        told(lake, readers, seed, wrong[each.name])
        for seed, each in zip(SEEDS, tried, strict=True)
        if each.name in wrong
    ]
    assert not texts, "\n".join(texts)


@pytest.mark.parametrize("kind", STEPS)
def test_every_kind_of_step_is_tried_and_a_valid_one_admitted(lake: Lake, kind: str) -> None:
    life = begin_rich(lake, f"kind_{list(STEPS).index(kind)}")
    begun = len(life.events)
    for number in range(60):
        STEPS[kind].act(life, Random(f"{kind}/{number}"))
        tried = life.events[begun:]
        if tried and (not STEPS[kind].valid or any(not event.refusal for event in tried)):
            return
    pytest.fail(f"in 60 draws: {[str(event) for event in life.events[begun:]][:5]}")


def test_some_of_what_is_drawn_is_refused(tried: list[Tried]) -> None:
    admitted, refused = counted(tried)
    assert sum(admitted.values()) > len(SEEDS)
    assert sum(refused.values()) > len(SEEDS) // 2


@pytest.mark.parametrize("first", range(0, len(EVERYDAY), PART))
def test_every_named_oddity_is_refused_or_read(lake: Lake, readers: dict[str, Reader], first: int) -> None:
    some = EVERYDAY[first : first + PART]
    others = [name for number, name in enumerate(some) if number % BY_SPARK_EVERY]
    by_all = directed_problems(lake, readers, some[::BY_SPARK_EVERY])
    problems = [*by_all, *directed_problems(lake, kernels(readers), others)]
    assert not problems, "\n".join(problems)


def _no_rule_for_paths(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table_rules, "broken_path_rule", lambda *_, **__: None)


def _no_rule_for_partition_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionColumn, "is_readable", lambda *_, **__: True)
    patch.setattr(PartitionColumn, "respelled", lambda _, text, **__: text)


def _no_rule_for_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evolution, "find_breaches", lambda *_, **__: iter(()))


@pytest.mark.parametrize(
    ("defect", "group", "part", "reader"),
    [
        (_no_rule_for_paths, "paths 0", "a:b.parquet", "delta-spark"),
        (_no_rule_for_partition_values, "partition values", "timestamp '2024-01-02T03:04:05'", "delta-rs"),
        (_no_rule_for_changes, "another type", "", "delta-spark"),
    ],
)
def test_a_rule_that_is_missing_is_found(
    lake: Lake,
    readers: dict[str, Reader],
    defect: Callable[[pytest.MonkeyPatch], None],
    group: str,
    part: str,
    reader: str,
) -> None:
    only = next(name for name in GROUPS[group].parts if part in name)
    with pytest.MonkeyPatch.context() as patch:
        defect(patch)
        tried = run_group(lake, GROUPS[group], only=only, name=f"defect_{group}".replace(" ", "_"))
    [problem] = read_all({reader: readers[reader]}, [tried])[tried.name]
    assert problem.startswith(reader)
