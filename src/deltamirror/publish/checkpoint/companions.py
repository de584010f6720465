"""Whether what belongs to a checkpoint beside its own file is as it should be: its sidecars, and the pointer."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Final

import msgspec
import pyarrow.parquet as pq

from deltamirror.delta import names
from deltamirror.delta.actions import Action, CheckpointMetadata, Sidecar
from deltamirror.delta.lastcheckpoint import LastCheckpoint, V2Checkpoint
from deltamirror.delta.lines import decode as decode_line
from deltamirror.deltalog.checkpoint.parquet import SCHEMA_KEY
from deltamirror.deltalog.commits import read_whole
from deltamirror.deltalog.listing import CheckpointFiles
from deltamirror.deltalog.parquet import opened
from deltamirror.errors import InvalidInput, InvalidLocation
from deltamirror.publish.checkpoint.sidecars import TopFile, read_top
from deltamirror.storage.ranges import stored_digest
from deltamirror.storage.store import Store
from deltamirror.work import ObjectDifference

_THREADS: Final = 4


def damaged_sidecars(store: Store, key: str, version: int, *, whole: bool) -> list[ObjectDifference]:
    """The sidecars of a checkpoint of ours that are gone or have other bytes, or its own file if that one does.

    Without ``whole``, a sidecar that has its size is not read.
    """
    top = store.read(key)
    if top is None:
        return [ObjectDifference(version=version, key=key, found="")]
    digest = sha256(top.data)
    try:
        file = read_top(top.data, source=key)
    except (InvalidInput, ValueError):
        file = None
    if file is None or not file.is_named(key, version, digest.digest()):
        return [ObjectDifference(version=version, key=key, found=digest.hexdigest())]
    compare = partial(_difference, store, file, version, whole=whole)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="sidecar") as threads:
        return [found for found in threads.map(compare, file.sidecars) if found is not None]


def _difference(store: Store, file: TopFile, version: int, sidecar: Sidecar, *, whole: bool) -> ObjectDifference | None:
    key = f"{names.SIDECARS}/{sidecar.path}"
    try:
        if not whole:
            meta = store.head(key)
            if meta is not None and meta.size == sidecar.size_in_bytes:
                return None
        digest = stored_digest(store, key)
    except InvalidLocation:
        digest = None  # a link in its place, which is not followed
    if digest is not None and file.is_as_written(sidecar, version, digest):
        return None
    return ObjectDifference(version=version, key=key, found="" if digest is None else digest.hex())


def leads_to(pointer: LastCheckpoint, files: CheckpointFiles) -> bool:
    """Whether readers that follow a pointer come to this checkpoint, by its version, its parts and its name."""
    v2 = pointer.v2_checkpoint
    same_form = (pointer.parts or 1) == len(files.metas) and (v2 is None or v2.path == files.name)
    return same_form and pointer.version == files.version


def repeats(store: Store, pointer: LastCheckpoint, files: CheckpointFiles) -> bool:
    """Whether what a pointer repeats of a checkpoint is what its file holds, which readers then need not open."""
    top = files.metas[0]
    try:
        if top.key.endswith(".json"):
            return pointer.v2_checkpoint is None or _repeats_top(pointer.v2_checkpoint, read_whole(store, top), top.key)
        return pointer.checkpoint_schema is None or _repeats_schema(pointer.checkpoint_schema, opened(store, top))
    except (InvalidInput, ValueError):
        return False


def _repeats_top(told: V2Checkpoint, data: bytes, source: str) -> bool:
    top = read_top(data, source=source)
    lines = [decode_line(bytes(each)) for each in told.non_file_actions or ()]
    actions = [each for each in lines if not isinstance(each, CheckpointMetadata)]
    same_sidecars = told.sidecar_files is None or list(told.sidecar_files) == list(top.sidecars)
    return same_sidecars and (told.non_file_actions is None or _are_same(actions, top.others))


def _are_same(some: Sequence[Action], others: Sequence[Action]) -> bool:
    return len(some) == len(others) and all(each in others for each in some)


def _repeats_schema(told: msgspec.Raw, file: pq.ParquetFile) -> bool:
    stated = (file.metadata.metadata or {}).get(SCHEMA_KEY)
    return stated is None or msgspec.json.decode(stated) == msgspec.json.decode(told)
