"""Whether a ``protocol`` action is well formed, and one that we support."""

from collections.abc import Iterable

from deltamirror.delta.actions import Protocol
from deltamirror.delta.features import FEATURES, FENCE_FEATURE, Support, writer_features_of
from deltamirror.delta.features.table import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from deltamirror.delta.validation.rules import violation
from deltamirror.errors import InvalidAction


def check_protocol(protocol: Protocol, index: int | None = None) -> None:
    """Raise InvalidAction unless versions and lists fit together, and we support every feature."""
    _check_versions(protocol, index)
    readers, writers = protocol.reader_features or [], protocol.writer_features or []
    for field, names in (("readerFeatures", readers), ("writerFeatures", writers)):
        if twice := _first(name for i, name in enumerate(names) if name in names[:i]):
            raise _broken("feature-twice", index, field, twice)
    if stray := _first(name for name in readers if name not in writers):
        raise _broken("reader-subset", index, "readerFeatures", stray)
    if unknown := sorted(name for name in writers if not _is_supported(name)):
        raise _broken("unsupported", index, "writerFeatures", ", ".join(unknown))
    if unlisted := _first(name for name in writers if not _reaches_readers(name, protocol)):
        raise _broken("reader-unlisted", index, "readerFeatures", unlisted)
    for name in writers:
        if lacking := _first(needed for needed in FEATURES[name].requires if not _is_listed(needed, writers)):
            raise _broken("dependency", index, "writerFeatures", f"{name} without {lacking}")


def check_upgrade(protocol: Protocol, previous: Protocol, index: int | None = None) -> None:
    """Raise InvalidAction if the protocol lacks a feature that the table has. The fence may go: no commit needs it."""
    if dropped := sorted(writer_features_of(previous) - writer_features_of(protocol) - {FENCE_FEATURE}):
        raise _broken("downgrade", index, "writerFeatures", ", ".join(dropped))


def _check_versions(protocol: Protocol, index: int | None) -> None:
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if not (1 <= reader <= READER_FEATURES_VERSION and 1 <= writer <= WRITER_FEATURES_VERSION):
        raise _broken("version", index, "minReaderVersion", f"{reader}, {writer}")
    if reader == READER_FEATURES_VERSION and writer != WRITER_FEATURES_VERSION:
        raise _broken("writer-behind-reader", index, "minWriterVersion", writer)
    if (protocol.reader_features is not None) != (reader == READER_FEATURES_VERSION):
        raise _broken("reader-list", index, "readerFeatures", protocol.reader_features)
    if (protocol.writer_features is not None) != (writer == WRITER_FEATURES_VERSION):
        raise _broken("writer-list", index, "writerFeatures", protocol.writer_features)


def _is_supported(name: str) -> bool:
    return name in FEATURES and FEATURES[name].support is not Support.REFUSE


def _reaches_readers(name: str, protocol: Protocol) -> bool:
    """Whether readers learn of the feature: from their list, or from a version that implies it."""
    row = FEATURES[name]
    if not row.reader or name in (protocol.reader_features or ()):
        return True
    return row.legacy_reader == protocol.min_reader_version


def _is_listed(name: str, writers: Iterable[str]) -> bool:
    return name in writers or FEATURES[name].preview in writers


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)


def _broken(rule: str, index: int | None, field: str, found: object) -> InvalidAction:
    return violation(f"protocol.{rule}", action="protocol", index=index, field=field, found=found)
