"""What people validate: a table's location, its ``_delta_log/``, one file of it, or a file that lies elsewhere."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deltamirror.delta.names import LOG_DIRECTORY, SIDECARS, is_log_name
from deltamirror.ops.validate.validating import Validated, validate_file, validate_log
from deltamirror.storage.store import Store

__all__ = ["Target", "parse_target"]

_FOLDERS: Final = (SIDECARS, LOG_DIRECTORY)
"""The folders of a table that have files of its log, the deepest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A log, or a file."""

    location: str
    """Of the table; of a file that lies in no log, its folder."""
    key: str | None = None
    """The file, below the location."""
    is_in_log: bool = True

    def validated(self, store: Store) -> Validated:
        """What validating it comes to; ``store`` is the one at its location."""
        if self.key is not None and not self.is_in_log:
            return validate_file(store, self.key)
        return validate_log(store, only=self.key)


def parse_target(text: str) -> Target:
    """The table, log or file that a text names. A file is known by its name, or because there is one on this disk."""
    trimmed = text.rstrip("/")
    if trimmed == LOG_DIRECTORY or trimmed.endswith(f"/{LOG_DIRECTORY}"):
        return Target(location=trimmed.removesuffix(LOG_DIRECTORY).rstrip("/") or ".")
    folder, _, name = trimmed.rpartition("/")
    for each in _FOLDERS:
        if folder == each or folder.endswith(f"/{each}"):
            return Target(location=folder.removesuffix(each).rstrip("/") or ".", key=f"{each}/{name}")
    if not text.endswith("/") and (is_log_name(name) or _is_file(text)):
        return Target(location=folder or ("/" if text.startswith("/") else "."), key=name, is_in_log=False)
    return Target(location=text)


def _is_file(text: str) -> bool:
    try:
        return Path(text.removeprefix("file://")).is_file()
    except (OSError, ValueError):
        return False
