"""A chain of checkpoints, each made from the one before, has the rows of checkpoints made from all lines."""

from collections.abc import Callable

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamirror.deltalog.checkpoint import parquet
from tests.support.logs import sidecar_chains
from tests.support.logs.checkpoint_chains import FEWEST_ROWS, Chain, Life, assert_same
from tests.support.logs.sidecar_chains import FEWEST_ACTIONS, SidecarChain
from tests.support.suite.examples import long_examples

pytestmark = [pytest.mark.requirement("R9"), pytest.mark.requirement("R11")]

OPERATIONS: tuple[Callable[[Life, int], None], ...] = (
    Life.append,
    Life.remove,
    Life.add_again,
    Life.restore,
    Life.delete_rows,
    Life.note,
)
RARE: tuple[Callable[[Life, int], None], ...] = (Life.change_retention, Life.change_statistics, Life.change_schema)
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS) | st.sampled_from(OPERATIONS * 2 + RARE), st.integers(0, 30)),
    max_size=3,
)


def assert_statistics_are_right(data: bytes) -> None:
    """What a reader skips row groups by is what these hold."""
    metadata = parquet.opened(data).metadata
    for number in range(metadata.num_row_groups):
        paths = pc.struct_field(parquet.File(data).row_group(number).column("add"), "path").combine_chunks()
        group = metadata.row_group(number)
        (told,) = (c.statistics for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "add.path")
        assert told.null_count == paths.null_count
        if told.null_count < len(paths):
            assert (told.min, told.max) == tuple(pc.min_max(paths).as_py().values())


@given(st.integers(0, 40), st.lists(STEPS, min_size=1, max_size=12))
@settings(max_examples=long_examples(30))
def test_a_chain_of_checkpoints_has_the_rows_of_those_from_all_lines(
    count: int, steps: list[list[tuple[Callable[[Life, int], None], int]]]
) -> None:
    life, chain = Life(), Chain()
    life.append(count)
    assert_same(*chain.next(life))
    for operations in steps:
        for operation, number in operations:
            operation(life, number)
        life.note(len(life.commits))
        found, expected = chain.next(life)
        assert_same(found, expected)
        assert_statistics_are_right(found)
        metadata = parquet.opened(found).metadata
        assert metadata.num_row_groups <= metadata.num_rows / FEWEST_ROWS + 3


@given(st.integers(0, 60), st.lists(STEPS, min_size=1, max_size=12))
@settings(max_examples=long_examples(30))
def test_a_chain_of_checkpoints_with_sidecars_has_the_rows_of_those_from_all_lines(
    count: int, steps: list[list[tuple[Callable[[Life, int], None], int]]]
) -> None:
    life, chain = Life(v2=True), SidecarChain()
    life.append(count)
    sidecar_chains.assert_same(*chain.next(life))
    for operations in steps:
        for operation, number in operations:
            operation(life, number)
        life.note(len(life.commits))
        found, expected = chain.next(life)
        sidecar_chains.assert_same(found, expected)
        for data in found.sidecars.values():
            assert_statistics_are_right(data)
        assert len(found.sidecars) <= len(found.rows) / FEWEST_ACTIONS + 1
