"""Row ids assigned to the bare actions of Delta Lake on Spark are the ids that it assigned itself."""

import pytest
from msgspec.structs import replace

from deltamirror.delta.actions import Action, Add, DomainMetadata
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.replay import State
from deltamirror.delta.rowtracking import ROW_TRACKING_DOMAIN, assign, high_water_mark
from tests.support.reference_logs.golden import reference

pytestmark = [pytest.mark.requirement("R37"), pytest.mark.reference]

REFERENCE = reference()


def is_mark(action: Action) -> bool:
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN


def bare(action: Action, *, mark: int) -> Action:
    """The action as the command staged it: without the ids that the commit gave it."""
    if isinstance(action, Add) and action.base_row_id is not None and action.base_row_id > mark:
        return replace(action, base_row_id=None, default_row_commit_version=None)
    return action


@pytest.mark.parametrize("table", REFERENCE.row_ids)
def test_the_reference_writers_row_ids_are_reproduced(table: str) -> None:
    state, assigned, log = State(), 0, REFERENCE.root / table / "_delta_log"
    paths = sorted(path for path in log.glob("*.json") if path.stem.isdigit())
    for version, path in enumerate(paths):
        expected = decode_commit(path.read_bytes(), source=str(path))
        mark = high_water_mark(state.domains)
        staged = [bare(action, mark=-1 if mark is None else mark) for action in expected if not is_mark(action)]
        actions, domain = assign(staged, high_water_mark=mark, version=version)
        assert actions == expected
        assigned += domain is not None
        state.apply(expected)
    assert assigned == REFERENCE.row_ids[table]
