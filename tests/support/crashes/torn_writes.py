"""Writers that are killed (kill -9) at a random moment: ``python -m tests.support.crashes.torn_writes FOLDER KILLS``.

Each is a fork of this process, which never writes itself; before them one writes everything once. Prints how many were
killed, and every object that is not whole.
"""

import hashlib
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store

_DIGEST = 32


def body(size: int) -> bytes:
    """Bytes that say whether they are complete."""
    content = os.urandom(size)
    return hashlib.sha256(content).digest() + content


def is_whole(data: bytes) -> bool:
    """Whether nothing is missing of a body."""
    return hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]


def _write(store: Store, name: str, data: bytes) -> None:
    store.create(f"_delta_log/{name}.json", data)
    store.put("_delta_log/checkpoint", data)
    if (known := store.head("_delta_log/_last_checkpoint")) is None:
        store.create("_delta_log/_last_checkpoint", data)
    else:
        store.replace("_delta_log/_last_checkpoint", data, if_match=known.etag)


def _write_for_ever(store: Store, writer: int, bodies: Sequence[bytes]) -> None:
    for step in count():
        _write(store, f"{writer:05d}-{step:05d}", bodies[step % len(bodies)])


def _writer_that_lives(store: Store, data: bytes) -> None:
    """On a slow disk those who are killed may not get beyond their first object."""
    child = os.fork()
    if child == 0:
        try:
            _write(store, "first", data)
        finally:
            os._exit(0)  # what follows is the parent's
    os.waitpid(child, 0)


def _killed_writer(store: Store, writer: int, bodies: Sequence[bytes]) -> None:
    begun, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b"!")
        _write_for_ever(store, writer, bodies)
    os.read(begun, 1)  # on a busy machine a child may begin long after its fork
    os.close(begun)
    os.close(tell)
    time.sleep(random.uniform(0.002, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main(folder: Path, kills: int) -> None:
    """Kill writers one after the other, and look at everything after each."""
    store = store_at(str(folder), StorageSettings())
    bodies = [body(1 << power) for power in range(10, 23, 3)]
    seen = set()
    _writer_that_lives(store, bodies[0])
    for writer in range(kills):
        _killed_writer(store, writer, bodies)
        for meta in store.list():
            found = None if meta.key in seen and writer < kills - 1 else store.read(meta.key)
            if found is not None and not is_whole(found.data):
                sys.stdout.write(f"torn: {meta.key}\n")
            if meta.key.endswith(".json"):
                seen.add(meta.key)
    sys.stdout.write(f"killed {kills}, wrote {len(seen)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
