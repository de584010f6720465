"""Compression of chunks, by Arrow's zstd: a module of its own, since Arrow takes a tenth of a second to import."""

import pyarrow as pa

from deltamirror.errors import Internal


def compress(data: bytes) -> bytes:
    """The data as one zstd frame."""
    packed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    return packed


def decompress(data: bytes, size: int) -> bytes:
    """The ``size`` bytes that were compressed; Internal where these are others."""
    try:
        whole: bytes = pa.Codec("zstd").decompress(data, size, asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise Internal(f"a stored chunk cannot be decompressed to {size} bytes: {error}") from error
    return whole
