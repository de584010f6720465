"""One of our errors for any exception: no other kind is recorded, shown or told of."""

import traceback
from pathlib import Path

from deltamirror.config import redact_text
from deltamirror.errors import CapacityExceeded, DeltaMirrorError, Internal


def our_error(error: BaseException) -> DeltaMirrorError:
    """The error that stands for any exception; it says nothing that is secret."""
    match error:
        case DeltaMirrorError():
            return error
        case MemoryError():
            return CapacityExceeded("there is not enough memory for this unit", hint="lower mirror.batch_bytes")
    # The place says more than a traceback that does not travel. The text may repeat what it was called with.
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return Internal(redact_text(f"{type(error).__name__} at {place}: {error}"))
