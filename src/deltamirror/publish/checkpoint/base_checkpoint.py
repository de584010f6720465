"""The checkpoint to start from: read from the store, and believed only if it is the one that was recorded."""

from hashlib import sha256

from deltamirror.delta import names
from deltamirror.publish.checkpoint.classic_base import ClassicBase
from deltamirror.publish.checkpoint.fetching import fetched
from deltamirror.publish.checkpoint.v2_base import V2Base
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase


def read_base(base: CheckpointBase, store: Store) -> ClassicBase | V2Base | None:
    """What the checkpoint says; None where it is gone, or is not the file that was recorded.

    One of the errors ``UNREADABLE`` where it cannot be read, be it for one of its sidecars.
    """
    data = fetched(store, f"{names.LOG_DIRECTORY}/{base.name}")
    if data is None or sha256(data).digest() != base.digest:
        return None
    if isinstance(names.parse(base.name), names.Checkpoint):
        return ClassicBase.of(data)
    return V2Base.read(data.to_pybytes(), base, store)
