"""The one translator of what obstore and the operating system raise into the errors of ``errors.py``.

Texts of stores are never passed on whole: a complaint about a signature repeats the request, session token included.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from deltamirror.config import redact_text
from deltamirror.errors import (
    CapacityExceeded,
    DeltaMirrorError,
    InvalidLocation,
    InvalidSettings,
    NotFound,
    PermissionDenied,
    Throttled,
    Transient,
    Unavailable,
    Unsupported,
)

# Azure answers a delete of many with a status and a reason for each, without a document.
_STATUS: Final = re.compile(r"(?:status |\()code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([^<]{1,80})</Code>")
_MESSAGE: Final = re.compile(r'(?:<Message>|\breason: ")([^<"\n]{1,200})')
# What the document says: the client does not hand on the headers of an answer, which `throttling` asks for.
_RETRY_AFTER: Final = re.compile(r"(?i)\bretry[-_ ]?after(?:_?seconds)?\b\W{0,20}(\d{1,6})\b")
_KIND: Final = re.compile(r"HttpError \{\s*kind: (\w+)")
_CAUSE: Final = re.compile(r'(?:message|ConnectError\(\s*|error: )\s*:?\s*"([^"]{1,120})"')

_MISSING_BUCKET: Final = (
    "NoSuchBucket",
    "ContainerNotFound",
    "The specified bucket does not exist",
    "The specified container does not exist",
)
_EXPIRED: Final = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AuthorizationHeaderMalformed")
# The places where a machine in a cloud finds its own identity, asked when there are no keys.
_NO_IDENTITY: Final = (
    "169.254.169.254",
    "/latest/api/token",
    "/metadata/identity/oauth2/token",
    "metadata.google.internal",
    "External AWS credential provider",
)

_CREDENTIALS_HINT: Final = "check the keys of `[storage]` or of the environment, and what they may do in this bucket"


@contextmanager
def translated(doing: str, where: str) -> Iterator[None]:
    """Raise one of our errors for whatever a store raises inside: ``cannot <doing> <where>: …``."""
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        raise from_store(error, f"cannot {doing} {where}") from None


def status_of(error: BaseException) -> int | None:
    """The HTTP status that a store answered, if it answered."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def is_missing_bucket(error: BaseException) -> bool:
    """Whether it is the bucket that is missing, not an object in it."""
    return any(sign in str(error) for sign in _MISSING_BUCKET)


def is_broken_off(error: BaseException) -> bool:
    """Whether a connection broke before the store's answer was read. Time that is over is something else."""
    kind = _KIND.search(str(error))
    return kind is not None and kind[1] in ("Interrupted", "Request")


def from_client(error: BaseException, what: str) -> InvalidSettings:
    """What keeps a client from being made: nothing was asked of the store."""
    reason = redact_text(str(error).strip().partition("\n")[0])
    return InvalidSettings(f"{what}: {reason}", hint="complete `[storage]` or the environment", key="storage")


def from_store(error: BaseException, what: str) -> DeltaMirrorError:
    """What a store's refusal or silence means."""
    text, status = str(error), status_of(error)
    if any(sign in text for sign in _NO_IDENTITY):
        return PermissionDenied(f"{what}: there are no credentials", hint=_CREDENTIALS_HINT)
    if "BareRedirect" in text or status in (301, 307):
        return InvalidSettings(f"{what}: the bucket is in another region", hint="set `storage.region`")
    if "BadScheme" in text:
        return InvalidSettings(f"{what}: the endpoint is without TLS", hint="set `storage.allow_http` if this is meant")
    message = f"{what}: {_answer(text, status)}"
    if is_missing_bucket(error):
        return _from_status(404, text, message)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in (401, 403):
        return PermissionDenied(message, hint=_CREDENTIALS_HINT)
    if isinstance(error, PreconditionError | AlreadyExistsError):
        return Transient(message, hint="another writer was at it; try again")
    if status is None and not isinstance(error, FileNotFoundError):
        return Unavailable(message, hint="check `storage.endpoint` and the network")
    return _from_status(status or 404, text, message)


def _from_status(status: int, text: str, message: str) -> DeltaMirrorError:
    code = _code(text)
    match status:
        case 404:
            return NotFound(message, hint="create the bucket, or correct the table's location")
        case 400 if code in _EXPIRED:
            return PermissionDenied(message, hint=_CREDENTIALS_HINT)
        case 413 | 507:
            return CapacityExceeded(message, hint="the store does not take objects of this size, or is full")
        case 429:
            return _throttled(text, message)
        case 503 if "slow" in code.lower() or "busy" in code.lower():
            return _throttled(text, message)
        case 408 | 409 | 412:
            return Transient(message, hint="try again")
        case 501:
            return Unsupported(message, hint="the store lacks an operation that safe publishing needs")
        case _ if status >= 500:
            return Unavailable(message, hint="the store has a problem of its own; the mirror tries again")
    return Unsupported(message, hint="the store does not understand the request; is it what `storage.endpoint` says?")


def _throttled(text: str, message: str) -> Throttled:
    asked = _RETRY_AFTER.search(text)
    return Throttled(
        message,
        hint="the mirror waits by itself; fewer workers put less load on the store",
        retry_after=float(asked[1]) if asked else None,
    )


def _code(text: str) -> str:
    found = _CODE.search(text)
    return found[1] if found else ""


def _answer(text: str, status: int | None) -> str:
    if status is None:
        kind, cause = _KIND.search(text), _CAUSE.search(text)
        return " ".join(filter(None, ["no answer", kind and f"({kind[1].lower()})", cause and cause[1]]))
    message = _MESSAGE.search(text)
    return " ".join(filter(None, [f"HTTP {status}", _code(text), message and f"({message[1].strip()})"]))


_OF_THE_DISK: Final[dict[int, tuple[type[DeltaMirrorError], str]]] = {
    errno.ENOSPC: (CapacityExceeded, "make room on the disk"),
    errno.EDQUOT: (CapacityExceeded, "raise the quota, or make room"),
    errno.EFBIG: (CapacityExceeded, "the file system does not take files of this size"),
    errno.EACCES: (PermissionDenied, "check the rights of the folder"),
    errno.EPERM: (PermissionDenied, "check the rights of the folder"),
    errno.EROFS: (PermissionDenied, "the disk is mounted read-only"),
    errno.ENOTDIR: (InvalidLocation, "a table needs a folder, and there is a file in its place"),
    errno.EISDIR: (InvalidLocation, "there is a folder in the place of a file"),
    errno.ELOOP: (InvalidLocation, "put the folder or file itself in the place of the symbolic link"),
    errno.ESPIPE: (InvalidLocation, "move it out of the log; the file itself is written again"),
    errno.ENAMETOOLONG: (InvalidLocation, "choose a shorter path"),
    errno.EMFILE: (Transient, "raise the limit of open files (ulimit -n)"),
    errno.ENFILE: (Transient, "raise the limit of open files (ulimit -n)"),
    errno.EOPNOTSUPP: (Unsupported, "the file system lacks hard links or locks, which safe publishing needs"),
    errno.ENOSYS: (Unsupported, "the file system lacks hard links or locks, which safe publishing needs"),
}


def from_os(error: OSError, what: str) -> DeltaMirrorError:
    """What a complaint of the disk means; an unknown one is taken for a disk that is gone."""
    kind, hint = _OF_THE_DISK.get(error.errno or 0, (Unavailable, "check the disk and its mount"))
    return kind(f"{what}: {error.strerror or error}", hint=hint)
