"""Small checkpoints made in the way of large ones: everything is put aside, divided, and compared in pieces."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deltamirror.deltalog.checkpoint import reconciliation
from deltamirror.deltalog.checkpoint.scratch import Gathering, Pile
from deltamirror.publish.checkpoint import fetching, grouping, placement, v2_base


@contextmanager
def as_if_large() -> Iterator[None]:
    """No table and no object is small enough to stay in memory."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Gathering, Pile):
            patch.setattr(kind.__init__, "__defaults__", (0, None)[: len(kind.__init__.__defaults__ or ())])
        patch.setattr(reconciliation.reconciled, "__kwdefaults__", {"in_memory": 0})
        patch.setattr(reconciliation, "_PIECE_ROWS", 3)
        patch.setattr(reconciliation, "_RANGES", 4)
        patch.setattr(v2_base, "_IN_MEMORY", 0)
        for module in (fetching, placement):
            patch.setattr(module, "PIECE_BYTES", 1_000)
        yield


@contextmanager
def in_small_groups() -> Iterator[None]:
    """A row group may be as small as its limit says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "FEWEST_ROWS", 3)
        yield
