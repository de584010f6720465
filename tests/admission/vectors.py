"""Deletion vectors as files and descriptors have them: roaring bitmaps, Z85, checksums."""

import struct
import uuid
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC: Final = 1681511377
_COOKIE: Final = 12346


def bitmap(positions: Collection[int]) -> bytes:
    """Few positions, all below 65536: one bucket with one array."""
    if not positions:
        return struct.pack("<iq", _MAGIC, 0)
    values = sorted(positions)
    head = struct.pack("<iqi", _MAGIC, 1, 0)
    container = struct.pack("<IIHHI", _COOKIE, 1, 0, len(values) - 1, 16)
    return head + container + struct.pack(f"<{len(values)}H", *values)


def run_bitmap(runs: Sequence[tuple[int, int]], *, containers: int = 1) -> bytes:
    """The same runs, each a first and a last number, in so many containers."""
    cookie = 12347 | (containers - 1) << 16
    flags = ((1 << containers) - 1).to_bytes((containers + 7) // 8, "little")
    size = sum(last - first + 1 for first, last in runs)
    header = b"".join(struct.pack("<HH", key, size - 1) for key in range(containers))
    body = struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", first, last - first) for first, last in runs)
    start = 4 + len(flags) + len(header) + 4 * containers
    offsets = b"".join(struct.pack("<I", start + key * len(body)) for key in range(containers))
    head = struct.pack("<IqI", _MAGIC, 1, 0) + struct.pack("<I", cookie) + flags + header
    return head + (offsets if containers >= 4 else b"") + body * containers


def bits_bitmap(positions: Collection[int]) -> bytes:
    """More than 4096 positions, all below 65536: one bucket with one container of bits."""
    bits = sum(1 << each for each in positions).to_bytes(8192, "little")
    head = struct.pack("<IqI", _MAGIC, 1, 0)
    return head + struct.pack("<IIHHI", _COOKIE, 1, 0, len(positions) - 1, 16) + bits


def z85(data: bytes) -> str:
    """ZeroMQ's base 85; the length is a multiple of four."""
    texts = []
    for start in range(0, len(data), 4):
        number, text = int.from_bytes(data[start : start + 4], "big"), ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            text = _Z85[digit] + text
        texts.append(text)
    return "".join(texts)


def inline_vector(positions: Collection[int]) -> dict[str, Any]:
    """The descriptor of a vector that is part of the log."""
    return described(bitmap(positions), len(positions))


def described(data: bytes, cardinality: int) -> dict[str, Any]:
    """The descriptor of these bytes as a vector that is part of the log."""
    text = z85(data + bytes(-len(data) % 4))
    return {"storage_type": "i", "path_or_inline_dv": text, "size_in_bytes": len(data), "cardinality": cardinality}


def written_vector(folder: Path, positions: Collection[int], *, seed: int, prefix: str = "") -> dict[str, Any]:
    """The descriptor of a vector in a file of its own below the table."""
    name, data = uuid.UUID(int=seed), bitmap(positions)
    target = folder / prefix / f"deletion_vector_{name}.bin"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data)))
    return {
        "storage_type": "u",
        "path_or_inline_dv": prefix + z85(name.bytes),
        "offset": 1,
        "size_in_bytes": len(data),
        "cardinality": len(positions),
    }
