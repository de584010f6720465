"""Whether a Delta log lies at a location already."""

import os
from pathlib import Path

import obstore
from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from deltamirror.errors import PermissionDenied, Unavailable
from deltamirror.storage.location import local_path

__all__ = ["has_delta_log"]

_LOG = "_delta_log"


def has_delta_log(location: str) -> bool:
    """Whether there is anything in ``_delta_log/`` below a canonical location."""
    path = local_path(location)
    if path is not None:
        return _has_local_log(Path(path, _LOG))
    try:
        first = next(iter(obstore.list(from_url(location), prefix=_LOG, chunk_size=1)), ())
    except NotFoundError:
        return False
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionDenied(
            f"cannot look into {location}: {_reason(error)}", hint="check the credentials"
        ) from error
    except BaseError as error:
        raise Unavailable(f"cannot look into {location}: {_reason(error)}", hint="check the store") from error
    return len(first) > 0


def _has_local_log(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return False
    except PermissionError as error:
        raise PermissionDenied(f"cannot look into {folder}", hint="check the rights of the folder") from error


def _reason(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
