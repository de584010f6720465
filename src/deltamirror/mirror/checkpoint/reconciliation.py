"""Newer file actions replace older ones of the same key: path and deletion vector, as in ``delta.replay``."""

from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.paths import path_identity
from deltamirror.mirror.checkpoint.blocks import in_threads
from deltamirror.mirror.checkpoint.columns import combined

__all__ = ["Columns", "keys_of", "reconciled"]

Columns: TypeAlias = dict[str, pa.ChunkedArray]

# Escapes with a lower-case digit, and schemes: what ``path_identity`` may change.
_SPELLED_OTHERWISE: Final = r"%(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-Fa-f])|^[A-Za-z][A-Za-z0-9+.\-]*:"
_ORDER: Final = [("key", "ascending"), ("ordinal", "ascending")]


def reconciled(adds: Columns, removes: Columns) -> tuple[pa.Table, pa.Table]:
    """The rows with the highest ``ordinal`` of each key, in the order of keys: path first, then vector.

    The columns are taken out of ``adds`` and ``removes``, so that few of them are in memory twice at a time.
    """
    keys = pa.concat_arrays([keys_of(adds), keys_of(removes)])
    ordinals = [combined(files.pop("ordinal")) for files in (adds, removes)]
    order = pc.sort_indices(pa.table({"key": keys, "ordinal": pa.concat_arrays(ordinals)}), _ORDER)
    winners = order.filter(_is_last(keys.take(order)))
    count = pa.scalar(len(ordinals[0]), winners.type)
    of_adds = pc.less(winners, count)
    of_removes = pc.subtract(winners.filter(pc.invert(of_adds)), count)
    return _taken(adds, winners.filter(of_adds)), _taken(removes, of_removes)


def keys_of(files: Columns) -> pa.Array:
    """What tells file actions apart, in the order in which a checkpoint has them."""
    identities = _identities(combined(files["path"]))
    vectors = combined(files["deletionVector"])
    if vectors.null_count == len(vectors):
        return identities
    ids = _vector_ids(vectors).cast(identities.type)
    # No path holds a zero byte, and it sorts before all others.
    joined = pc.binary_join_element_wise(identities, ids, pa.scalar("\0", identities.type))
    return pc.if_else(vectors.is_null(), identities, joined)


def _identities(paths: pa.Array) -> pa.Array:
    """The paths with one spelling for all that ``java.net.URI`` holds equal."""
    if not any(pc.any(pc.match_substring(paths, mark)).as_py() for mark in "%:"):
        return paths  # looking for two characters takes a tenth of the time of the expression
    suspects = pc.match_substring_regex(paths, _SPELLED_OTHERWISE)
    if not pc.any(suspects).as_py():
        return paths
    identities = [path_identity(path) for path in paths.filter(suspects).to_pylist()]
    return pc.replace_with_mask(paths, suspects, pa.array(identities, paths.type))


def _vector_ids(vectors: pa.StructArray) -> pa.Array:
    kind, where, offset = (pc.struct_field(vectors, [number]) for number in range(3))
    places = pc.binary_join_element_wise(kind, where, "")
    return pc.coalesce(pc.binary_join_element_wise(places, offset.cast(pa.string()), "@"), places)


def _is_last(keys: pa.Array) -> pa.Array:
    """Of sorted keys, whether the next one is another."""
    if not len(keys):
        return pa.array([], pa.bool_())
    return pa.concat_arrays([pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)), pa.array([True])])


def _taken(files: Columns, rows: pa.Array) -> pa.Table:
    names = list(files)
    columns = in_threads(lambda name: combined(files.pop(name)).take(rows), names)
    return pa.table(dict(zip(names, columns, strict=True)))
