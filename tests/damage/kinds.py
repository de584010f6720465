"""What somebody else may do to a log: objects deleted, emptied, cut, replaced, added, swapped, or pointed elsewhere."""

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from deltamirror.delta.lastcheckpoint import LastCheckpoint, decode, encode
from tests.damage.lake import Lake

Damage: TypeAlias = Callable[[Lake, Random], str]
"""Does it, and says what it was."""

_UUID: Final = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"
_HIGHEST: Final = 13
"""The version of the donor's newest objects."""


def damaged(lake: Lake, random: Random, count: int) -> list[str]:
    """Do so many things to a log; what they were. What is put has a time of any kind, as a copy may have."""
    before = {path: path.read_bytes() for path in _objects(lake)}
    done = [random.choice(list(KINDS.values() if _objects(lake) else _ADDING))(lake, random) for _ in range(count)]
    when = random.choice(list(_TIMES))
    for path in _objects(lake):
        if before.get(path) != path.read_bytes():
            moment = _TIMES[when](lake, path)
            os.utime(path, (moment, moment))
    return [*done, f"time: {when}"]


def _original(lake: Lake, path: Path) -> float:
    """When what was there before was put, or the log's last object."""
    kept = lake.kept_log / path.relative_to(lake.log)
    found = kept if kept.exists() else max(lake.kept_log.iterdir(), key=lambda each: each.stat().st_mtime)
    return found.stat().st_mtime


_TIMES: Final[Mapping[str, Callable[[Lake, Path], float]]] = {
    "old": lambda _lake, _path: 0,
    "original": _original,
    "now": lambda _lake, _path: time.time(),
    "future": lambda _lake, _path: time.time() + 86_400,
}


def _delete(lake: Lake, random: Random) -> str:
    path = random.choice(_objects(lake))
    path.unlink()
    return f"deleted {_name(lake, path)}"


def _delete_all(lake: Lake, random: Random) -> str:
    suffix = random.choice([".json", ".crc", ".parquet", ""])
    for path in _objects(lake):
        if path.name.endswith(suffix):
            path.unlink()
    return f"deleted *{suffix}"


def _empty(lake: Lake, random: Random) -> str:
    path = random.choice(_objects(lake))
    path.write_bytes(b"")
    return f"emptied {_name(lake, path)}"


def _cut(lake: Lake, random: Random) -> str:
    path = random.choice(_objects(lake))
    path.write_bytes(path.read_bytes()[: random.randrange(1, 200)])
    return f"cut {_name(lake, path)}"


def _replace(lake: Lake, random: Random) -> str:
    """By an object of the donor that has the same ending."""
    path = random.choice(_objects(lake))
    others = [each for each in _donor(lake) if each.suffix == path.suffix]
    if not others:
        return _empty(lake, random)
    other = random.choice(others)
    shutil.copy(other, path)
    return f"replaced {_name(lake, path)} by {other.name}"


def _swap(lake: Lake, random: Random) -> str:
    one = random.choice(_objects(lake))
    other = random.choice([path for path in _objects(lake) if path.suffix == one.suffix])
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    return f"swapped {_name(lake, one)} and {_name(lake, other)}"


def _rename(lake: Lake, random: Random) -> str:
    """An object becomes one of another version."""
    path, version = random.choice(_objects(lake)), random.randrange(_HIGHEST)
    target = path.with_name(f"{version:020}{path.name[20:]}") if path.name[0] == "0" else path
    path.replace(target)
    return f"renamed {_name(lake, path)} to {target.name}"


def _add_theirs(lake: Lake, random: Random) -> str:
    """Objects of the donor under their own names, as far as they are free; what belongs together comes together."""
    version = random.randrange(1, _HIGHEST + 1)
    kinds = random.choice([("json",), ("checkpoint",), ("crc",), ("json", "checkpoint"), ("json", "crc", "checkpoint")])
    taken = []
    for path in _donor(lake):
        if path.name.startswith(f"{version:020}") and path.name[21:].startswith(kinds):
            target = lake.log / path.relative_to(lake.donor)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(path, target)
                taken.append(path.name)
    return f"added {', '.join(taken) or 'nothing'}"


def _add_their_checkpoint(lake: Lake, random: Random) -> str:
    """A checkpoint of the donor as one of any version, in any form; sidecars come with it."""
    version, form = random.randrange(_HIGHEST), random.choice(["classic", "part", "uuid"])
    theirs = random.choice(sorted(lake.donor.glob("*.checkpoint*")))
    for sidecar in lake.donor.glob("_sidecars/*"):
        (lake.log / "_sidecars").mkdir(parents=True, exist_ok=True)
        shutil.copy(sidecar, lake.log / "_sidecars")
    suffix = {"classic": "parquet", "part": "0000000001.0000000001.parquet", "uuid": f"{_UUID}{theirs.suffix}"}[form]
    target = _ready(lake.log / f"{version:020}.checkpoint.{suffix}")
    shutil.copy(theirs, target)
    return f"added {target.name} as {theirs.name}"


def _add_compaction(lake: Lake, random: Random) -> str:
    first = random.randrange(_HIGHEST - 1)
    last = random.randrange(first + 1, _HIGHEST)
    commits = [path for version in range(first, last + 1) for path in lake.donor.glob(f"{version:020}.json")]
    path = _ready(lake.log / f"{first:020}.{last:020}.compacted.json")
    data = random.choice([b"".join(each.read_bytes() for each in commits), b"", b"no lines"])
    path.write_bytes(data)
    return f"added {path.name} of {len(data)} bytes"


def _add_nothing(lake: Lake, random: Random) -> str:
    """An object without a byte, or with some that are nothing."""
    version, data = random.randrange(_HIGHEST), random.choice([b"", b"nothing"])
    kind = random.choice(["json", "crc", "checkpoint.parquet", f"checkpoint.{_UUID}.json", "tmp", "json.bak"])
    path = _ready(lake.log / f"{version:020}.{kind}")
    path.write_bytes(data)
    return f"wrote {data!r} to {path.name}"


def _misspell(lake: Lake, random: Random) -> str:
    """An object of the donor under a name that Spark alone takes for one of the log."""
    version, theirs = (
        random.randrange(_HIGHEST),
        random.choice([each for each in _donor(lake) if each.suffix != ".crc"]),
    )
    kind = random.choice(
        ["json", "crc", "checkpoint.parquet", "checkpoint.1.1.parquet", f"{version + 1}.compacted.json"]
    )
    number = random.choice(
        [f"{version}", f"{version:010}", f"{version:021}", f"{version:026}", "9" * 19, "9" * 20, "9" * 30]
    )
    path = _ready(lake.log / f"{number}.{kind}")
    path.write_bytes(random.choice([b"", theirs.read_bytes()]))
    return f"added {path.name}"


def _link(lake: Lake, random: Random) -> str:
    """An object becomes a link: to the same bytes, to those of another table, or to nothing."""
    path = random.choice(_objects(lake))
    same = lake.folder / "elsewhere"
    shutil.copy(path, same)
    target = random.choice([same, random.choice(_donor(lake)), lake.folder / "nothing"])
    path.unlink()
    path.symlink_to(target)
    return f"linked {_name(lake, path)} to {target.name}"


def _add_link(lake: Lake, random: Random) -> str:
    """A link under a name of the log that is free."""
    version, kind = random.randrange(_HIGHEST), random.choice(["json", "crc", "checkpoint.parquet"])
    path, target = lake.log / f"{version:020}.{kind}", random.choice(_donor(lake))
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.symlink_to(target)
    return f"added a link {path.name} to {target.name}"


def _folder(lake: Lake, random: Random) -> str:
    """An object becomes a folder."""
    path = random.choice([each for each in _objects(lake) if each.parent == lake.log] or _objects(lake))
    path.unlink()
    path.mkdir()
    return f"made {_name(lake, path)} a folder"


def _pipe(lake: Lake, random: Random) -> str:
    """An object becomes a pipe: a process that opens it waits for ever."""
    path = random.choice(_objects(lake))
    path.unlink()
    os.mkfifo(path)
    return f"made {_name(lake, path)} a pipe"


def _add_special(lake: Lake, random: Random) -> str:
    """A pipe or a socket under a name of the log that is free."""
    version, kind = random.randrange(_HIGHEST), random.choice(["json", "crc", "checkpoint.parquet"])
    path, what = lake.log / f"{version:020}.{kind}", random.choice(["pipe", "socket"])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() or path.is_symlink():
        return "added nothing"
    if what == "pipe":
        os.mkfifo(path)
    else:
        _listen(path, lake.folder / "s")
    return f"added {path.name} as a {what}"


def _listen(path: Path, short: Path) -> None:
    """A socket at a path, by way of a short one: addresses of sockets have 107 characters at most."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short))
    short.rename(path)


def _link_folder(lake: Lake, random: Random) -> str:
    """The log, or its sidecars, become a link to the same folder elsewhere, or to that of another table."""
    place = random.choice([lake.log, lake.log / "_sidecars"])
    moved = lake.folder / f"moved{place.name}"
    shutil.rmtree(moved, ignore_errors=True)
    if place.is_symlink():
        place.unlink()
    elif place.exists():
        place.rename(moved)
    place.parent.mkdir(parents=True, exist_ok=True)
    what = "moved" if moved.exists() and random.random() < 0.5 else "another table's"
    if what != "moved":
        shutil.rmtree(moved, ignore_errors=True)
        shutil.copytree(lake.donor, moved)
    place.symlink_to(moved)
    return f"linked {place.name} to {what}"


def _point(lake: Lake, random: Random) -> str:
    """The pointer names another version, another form, or is no pointer."""
    path, version = _ready(lake.log / "_last_checkpoint"), random.randrange(_HIGHEST)
    told = decode(path.read_bytes()).pointer if path.exists() else None
    data = random.choice(
        [
            encode(LastCheckpoint(version=version, size=3)),
            json.dumps({"version": version, "size": 3}).encode(),
            json.dumps({"version": version, "size": 3, "parts": random.randrange(1, 4)}).encode(),
            encode(LastCheckpoint(version=told.version if told else version, size=3, parts=2)),
            json.dumps({"version": version, "size": 3, "checksum": "0"}).encode(),
            b"{",
            b"",
            (lake.donor / "_last_checkpoint").read_bytes(),
        ]
    )
    path.write_bytes(data)
    return f"pointed by {data[:80]!r}"


def _lose_log(lake: Lake, _: Random) -> str:
    if lake.log.is_symlink():
        lake.log.unlink()
    else:
        shutil.rmtree(lake.log)
    return "deleted _delta_log/"


def _lose_place(lake: Lake, _: Random) -> str:
    shutil.rmtree(lake.table)
    return "deleted the table's folder"


def _ready(path: Path) -> Path:
    """A path that can be written to: a pipe would wait for a reader, and a link lead to another table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    elif not path.is_file() or path.is_symlink():
        path.unlink(missing_ok=True)
    return path


def _objects(lake: Lake) -> list[Path]:
    return sorted(path for path in lake.log.rglob("*") if path.is_file() and not path.is_symlink())


def _donor(lake: Lake) -> list[Path]:
    return sorted(path for path in lake.donor.rglob("*") if path.is_file())


def _name(lake: Lake, path: Path) -> str:
    return str(path.relative_to(lake.log))


KINDS: Final[Mapping[str, Damage]] = {
    "delete": _delete,
    "delete all": _delete_all,
    "empty": _empty,
    "cut": _cut,
    "replace": _replace,
    "swap": _swap,
    "rename": _rename,
    "add theirs": _add_theirs,
    "add their checkpoint": _add_their_checkpoint,
    "add compaction": _add_compaction,
    "add nothing": _add_nothing,
    "misspell": _misspell,
    "link": _link,
    "add link": _add_link,
    "folder": _folder,
    "pipe": _pipe,
    "add special": _add_special,
    "link folder": _link_folder,
    "point": _point,
    "lose log": _lose_log,
    "lose place": _lose_place,
}

_ADDING: Final = (_add_theirs, _add_their_checkpoint, _add_compaction, _add_nothing, _misspell, _add_link, _point)
"""What can be done to a log that has no object."""
