"""Failures as programs get them over HTTP: problem documents (RFC 9457) with the stable codes of our errors."""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from deltamirror import errors
from deltamirror.config import redact_text
from deltamirror.errors import DeltaMirrorError

PROBLEM: Final = "application/problem+json"
_RETRY_AFTER: Final = 1
"""In seconds, unless the error knows better."""
_STATUSES: Final[Mapping[type[DeltaMirrorError], int]] = {
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Refused: 409,
    errors.Diverged: 409,
    errors.AlreadyExists: 409,
    errors.InvalidInput: 422,
    errors.Unsupported: 422,
    errors.CapacityExceeded: 503,
    errors.LeaseLost: 503,
    errors.Unavailable: 503,
    errors.Transient: 503,  # CommitUnknown, too: the same request with the same key finds out
}


class BodyTooLarge(Exception):
    """A request has a longer body than is taken."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body has more than {limit} bytes")
        self.limit = limit


def status_of(error: DeltaMirrorError) -> int:
    """The status that an error of ours is answered with."""
    return next((number for kind, number in _STATUSES.items() if isinstance(error, kind)), 500)


def problem_of(error: Exception) -> Response:
    """The answer to a request that failed."""
    match error:
        case DeltaMirrorError():
            return _of_ours(error)
        case BodyTooLarge():
            hint = "split the commit, or raise serve.commit_bytes"
            return problem(413, "body-too-large", str(error), hint, fields={"limit": error.limit})
        case HTTPException(status_code=404):
            return problem(404, "not-found", "there is no such address", "/api/v1/openapi.json lists them")
        case HTTPException():
            return problem(error.status_code, "refused", error.detail, headers=error.headers)
    return problem(500, "internal", "this is a defect", "the log of the server says more")


def problem(
    status: int,
    code: str,
    message: str,
    hint: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Response:
    """A problem document, with fields of its own; ``retryable`` says whether the same request may succeed later."""
    retryable = status in (429, 503)
    after = {"Retry-After": str(_RETRY_AFTER)} if retryable else {}
    document = {"title": code, "status": status, "code": code, "detail": message, "hint": hint, "retryable": retryable}
    return Response(msgspec.json.encode({**(fields or {}), **document}), status, {**after, **(headers or {})}, PROBLEM)


def _of_ours(error: DeltaMirrorError) -> Response:
    own = {name: value for name, value in error.as_json().items() if name not in ("message", "hint")}
    fields = {name: redact_text(value) if isinstance(value, str) else value for name, value in own.items()}
    if isinstance(error, errors.Conflict) and error.actual_version is not None:
        fields["head"] = error.actual_version
    after = error.retry_after if isinstance(error, errors.Throttled) else None
    headers = {} if after is None else {"Retry-After": str(math.ceil(after))}
    message, hint = redact_text(error.message), redact_text(error.hint)
    return problem(status_of(error), error.code, message, hint, headers=headers, fields=fields)
