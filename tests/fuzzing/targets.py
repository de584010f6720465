"""The parsers of bytes that come from outside: whatever they are given, they answer, or raise an error of ours.

``tests/property/test_parsers.py`` gives them damaged and random bytes in the default suite; ``python -m tests.fuzzing``
lets atheris look for bytes that reach further.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

from deltamirror.config.load import load
from deltamirror.delta import checksum, lastcheckpoint, lines, names
from deltamirror.delta.names import LOG_DIRECTORY, LogFile
from deltamirror.deltalog.checkpoints import read_checkpoint
from deltamirror.deltalog.listing import read_listing
from deltamirror.errors import DeltaMirrorError
from tests.support.imports.foreign_logs import HISTORY, put_classic, state_after, store_in_memory
from tests.support.logs.checkpoint_tables import rows

_SETTINGS = b"""
[catalog]
url = "sqlite:///lake.db"
[storage]
endpoint = "https://127.0.0.1:9000"
access_key_id = "i"
secret_access_key = "s"
[mirror]
verify = "strict"
retry_max = 300
[[tables]]
match = "sales.*"
mirror.enabled = false
[[alerts.rules]]
name = "late"
metric = "lag_seconds"
threshold = 10
"""
_TOP = '{"checkpointMetadata":{"version":2}}\n'


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """A parser, and inputs that it takes, to begin with."""

    parse: Callable[[bytes], object]
    seeds: Callable[[], tuple[bytes, ...]]


def answer(target: FuzzTarget, data: bytes) -> object:
    """What a parser makes of bytes, or its refusal; every other exception is a finding."""
    try:
        return target.parse(data)
    except DeltaMirrorError as refusal:
        return refusal


def _line(data: bytes) -> None:
    """A line that can be read can be written, and is read again as the same action."""
    action = lines.decode(data)
    assert lines.decode(lines.encode(action)) == action


def _name(data: bytes) -> None:
    """A name of a log file is the name that the file has."""
    name = data.decode("utf-8", "surrogateescape")
    file = names.parse(name)
    assert not isinstance(file, LogFile) or file.name == name


def _checkpoint(data: bytes) -> None:
    _read(f"{2:020d}.checkpoint.parquet", data)


def _checkpoint_lines(data: bytes) -> None:
    _read(f"{2:020d}.checkpoint.0f5e8a1e-0000-4000-8000-000000000000.json", data)


def _read(name: str, data: bytes) -> None:
    store = store_in_memory()
    store.put(f"{LOG_DIRECTORY}/{name}", data)
    for files in read_listing(store).checkpoints:
        read_checkpoint(store, files)


def _settings(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "deltamirror.toml"
        file.write_bytes(data)
        load(environment={}, config=file)


@cache
def _lines() -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(line for commit in HISTORY for line in commit.splitlines()))


@cache
def _checkpoints() -> tuple[bytes, ...]:
    store = store_in_memory()
    put_classic(store, 2, rows(state_after(HISTORY)))
    return tuple(found.data for meta in store.list(LOG_DIRECTORY) if (found := store.read(meta.key)) is not None)


TARGETS: Mapping[str, FuzzTarget] = {
    "line": FuzzTarget(_line, _lines),
    "commit": FuzzTarget(lines.decode_commit, lambda: tuple(HISTORY)),
    "ndjson": FuzzTarget(lambda data: list(lines.read_ndjson(BytesIO(data), source="fuzz")), lambda: tuple(HISTORY)),
    "name": FuzzTarget(
        _name,
        lambda: tuple(
            f"{7:020d}.{suffix}".encode()
            for suffix in (
                *("json", "crc", "checkpoint.parquet", f"{9:020d}.compacted.json"),
                *(f"checkpoint.{1:010d}.{2:010d}.parquet", "checkpoint.0f5e8a1e.json"),
            )
        ),
    ),
    "checkpoint": FuzzTarget(_checkpoint, _checkpoints),
    "checkpoint-lines": FuzzTarget(_checkpoint_lines, lambda: (_TOP.encode() + b"".join(HISTORY),)),
    "pointer": FuzzTarget(lastcheckpoint.decode, lambda: (b'{"version":10,"size":7,"checksum":"0"}',)),
    "checksum": FuzzTarget(
        checksum.decode, lambda: (b'{"tableSizeBytes":1,"numFiles":1,"numMetadata":1,"numProtocol":1}',)
    ),
    "settings": FuzzTarget(_settings, lambda: (_SETTINGS,)),
}
