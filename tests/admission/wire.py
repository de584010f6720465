"""Steps that hand in complete lines of a commit, as another writer would, in usual and unusual JSON."""

import json
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import msgspec

from tests.admission.life import Life
from tests.admission.steps import Step

Lines = list[bytes]


def _lines(life: Life, add: dict[str, Any]) -> Lines:
    now = time.time_ns() // 1_000_000 + 50
    info: dict[str, Any] = {"timestamp": now, "operation": "WRITE", "operationParameters": {}, "txnId": f"x{now}"}
    if life.configuration.get("delta.enableInCommitTimestamps") == "true":
        info = {"inCommitTimestamp": now, **info}
    return [_line({"commitInfo": info}), _line({"add": add})]


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _in_add(old: str, new: str) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines[:-1], lines[-1].replace(old.encode(), new.encode(), 1)]


def _in_info(old: str, new: str) -> Callable[[Lines], Lines]:
    return lambda lines: [lines[0].replace(old.encode(), new.encode(), 1), *lines[1:]]


def _more(*lines: bytes) -> Callable[[Lines], Lines]:
    return lambda found: [*found, *lines]


MUTATIONS: Final[Mapping[str, Callable[[Lines], Lines]]] = {
    "as it should be": lambda lines: lines,
    "no line end": lambda lines: [*lines[:-1], lines[-1].rstrip(b"\n")],
    "carriage returns": lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
    "a blank line": lambda lines: [*lines, b"\n"],
    "a blank line first": lambda lines: [b"\n", *lines],
    "spaces around": lambda lines: [b"  " + line.rstrip(b"\n") + b"  \n" for line in lines],
    "byte order mark": lambda lines: [b"\xef\xbb\xbf" + lines[0], *lines[1:]],
    "no commitInfo": lambda lines: lines[1:],
    "commitInfo last": lambda lines: [*lines[1:], lines[0]],
    "commitInfo twice": lambda lines: [lines[0], *lines],
    "only commitInfo": lambda lines: lines[:1],
    "nothing": lambda lines: [],
    "key twice": _in_add('"size":', '"size":1,"size":'),
    "path twice": _in_add('"path":', '"path":"other.parquet","path":'),
    "action twice": lambda lines: [*lines[:-1], lines[-1].rstrip(b"}\n") + b'},"add":{}}\n'],
    "wrapper key twice": lambda lines: [*lines[:-1], lines[-1][:-2] + b"," + lines[-1][1:]],
    "two actions in a line": lambda lines: [*lines[:-1], lines[-1][:-2] + b',"txn":{"appId":"a","version":1}}\n'],
    "two lines in one": lambda lines: [lines[0].rstrip(b"\n") + lines[1]],
    "unknown action": _more(b'{"unknown":{"a":1}}\n'),
    "empty object": _more(b"{}\n"),
    "an array": _more(b"[]\n"),
    "null": _more(b"null\n"),
    "null action": _more(b'{"txn":null}\n'),
    "garbage": _more(b"garbage\n"),
    "garbage after": lambda lines: [*lines[:-1], lines[-1].rstrip(b"\n") + b" garbage\n"],
    "comment": _more(b"// comment\n"),
    "unknown field": _in_add('"size":', '"unknown":{"a":[1]},"size":'),
    "null field": _in_add('"size":', '"tags":null,"size":'),
    "null size": _in_add('"dataChange":true', '"dataChange":null'),
    "missing dataChange": _in_add('"dataChange":true,', ""),
    "size as text": _in_add('"size":', '"size":"1","was":'),
    "size as float": _in_add('"size":', '"size":100.0,"was":'),
    "size with exponent": _in_add('"size":', '"size":1e3,"was":'),
    "huge size": _in_add('"size":', '"size":9223372036854775808,"was":'),
    "boolean as text": _in_add('"dataChange":true', '"dataChange":"true"'),
    "boolean as number": _in_add('"dataChange":true', '"dataChange":1'),
    "stats as object": _in_add('"stats":"', '"stats":{"numRecords":1},"was":"'),
    "escaped key": _in_add('"path"', '"p\\u0061th"'),
    "escaped value": _in_add(".parquet", ".p\\u0061rquet"),
    "lone surrogate": _in_add('"size":', '"tags":{"a":"\\ud800"},"size":'),
    "upper case key": _in_add('"size"', '"Size"'),
    "trailing comma": lambda lines: [*lines[:-1], lines[-1].replace(b"}}\n", b",}}\n")],
    "single quotes": _in_add('"path"', "'path'"),
    "NaN": _in_add('"size":', '"tags":{"a":NaN},"size":'),
    "deep": _in_info('"operationParameters":{}', '"operationParameters":{"a":' + "[" * 600 + "]" * 600 + "}"),
    "timestamp as text": _in_info('"timestamp":', '"timestamp":"x","was":'),
    "timestamp as float": _in_info('"timestamp":', '"timestamp":1.5,"was":'),
    "no timestamp": _in_info('"timestamp":', '"was":'),
    "parameters as list": _in_info('"operationParameters":{}', '"operationParameters":[]'),
    "metrics as numbers": _in_info('"operationParameters":{}', '"operationMetrics":{"a":1}'),
    "metrics nested": _in_info('"operationParameters":{}', '"operationMetrics":{"a":{"b":1}}'),
    "version in commitInfo": _in_info('"timestamp":', '"version":99,"timestamp":'),
    "readVersion negative": _in_info('"timestamp":', '"readVersion":-5,"timestamp":'),
    "isBlindAppend as text": _in_info('"timestamp":', '"isBlindAppend":"yes","timestamp":'),
    "job as text": _in_info('"timestamp":', '"job":"x","timestamp":'),
    "userMetadata as object": _in_info('"timestamp":', '"userMetadata":{"a":1},"timestamp":'),
    "tags with null": _in_info('"timestamp":', '"tags":{"a":null},"timestamp":'),
    "clusterId as number": _in_info('"timestamp":', '"clusterId":5,"timestamp":'),
    "engineInfo as number": _in_info('"timestamp":', '"engineInfo":5,"timestamp":'),
    "checkpointMetadata": _more(b'{"checkpointMetadata":{"version":1}}\n'),
    "sidecar": _more(b'{"sidecar":{"path":"x","sizeInBytes":1,"modificationTime":1}}\n'),
    "txn without version": _more(b'{"txn":{"appId":"a"}}\n'),
    "txn with huge version": _more(b'{"txn":{"appId":"a","version":9223372036854775808}}\n'),
    "txn": _more(b'{"txn":{"appId":"a","version":1}}\n'),
    "cdc": _more(b'{"cdc":{"path":"_change_data/x","partitionValues":{},"size":1,"dataChange":false}}\n'),
    "remove of nothing": _more(b'{"remove":{"path":"never.parquet","dataChange":true}}\n'),
    "remove without dataChange": _more(b'{"remove":{"path":"never.parquet"}}\n'),
    "remove with odd time": _more(b'{"remove":{"path":"n.parquet","deletionTimestamp":1e3,"dataChange":true}}\n'),
    "domain without feature": _more(b'{"domainMetadata":{"domain":"d","configuration":"","removed":false}}\n'),
    "far future": _in_info('"inCommitTimestamp":', '"inCommitTimestamp":9223372036854775807,"was":'),
    "past": _in_info('"inCommitTimestamp":', '"inCommitTimestamp":1,"was":'),
}
"""What is done to the lines of a commit that adds one file."""

_LOSES_ADD: Final = ("only commitInfo", "nothing")


def stage_mutated(life: Life, random: Random, name: str, *, wrong: bool = False, **place: str) -> None:
    """Commit the lines of one add, after a mutation; ``place`` is the spelling of its path, and the path."""
    written = life.write(random, rows=1, **place)  # type: ignore[arg-type]
    add = msgspec.to_builtins(written.add)
    lines = MUTATIONS[name](_lines(life, add))

    def act() -> None:
        with life.catalog.transaction() as tx:
            tx.stage_lines(life.name, list(lines), at_version=life.catalog.table(life.name).info().head + 1)

    def effect() -> None:
        if name not in _LOSES_ADD:
            life.live(written)

    life.attempt("lines", f"{name} {place}" if place else name, act, effect, wrong=wrong)


def _mutated(life: Life, random: Random) -> None:
    stage_mutated(life, random, random.choice(list(MUTATIONS)))


def _intact(life: Life, random: Random) -> None:
    stage_mutated(life, random, "as it should be")


LINE_STEPS: Final[Mapping[str, Step]] = {
    "lines": Step(_mutated, 8, valid=True),
    "intact lines": Step(_intact, 1),
}
