"""Who works: a name for each process, by which others on the same machine see whether it is still there."""

import os
import socket
import uuid


def owner_name() -> str:
    """A name that no other process has: host, process, and something random."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def is_gone(owner: str) -> bool:
    """Whether the owner's process, of this host, has ended. False for owners elsewhere: that cannot be seen from here.

    Two machines of one name may be wrong about each other. An owner that is taken for gone loses nothing but its turn.
    """
    host, _, rest = owner.partition(":")
    process, _, _ = rest.partition(":")
    return host == socket.gethostname() and process.isdecimal() and not _is_running(int(process))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is there, and another user's
        return True
    return True
