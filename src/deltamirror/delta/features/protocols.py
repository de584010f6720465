"""Protocol versions and features: what a protocol stands for, whether we may touch it, how it grows."""

from collections.abc import Iterable, Iterator, Mapping

from deltamirror.delta.actions import Protocol
from deltamirror.delta.features.table import (
    FEATURES,
    FENCE_FEATURE,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
    Feature,
    Support,
)
from deltamirror.delta.order import champ_order
from deltamirror.delta.properties import FEATURE_PREFIX, PROTOCOL_PROPERTIES
from deltamirror.errors import InvalidInput, Unsupported

DEFAULT_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
"""What a table needs that uses no feature."""

_RANK = {name: rank for rank, name in enumerate(FEATURES)}
_BY_LOWER_NAME = {name.lower(): name for name in FEATURES}
_UNKNOWN = Feature("", support=Support.REFUSE)
_PROTOCOL_KEYS = {key.lower(): key for key in PROTOCOL_PROPERTIES}


def reader_features_of(protocol: Protocol) -> frozenset[str]:
    """The features that bind readers of the table, implied and listed."""
    if protocol.min_reader_version >= READER_FEATURES_VERSION:
        return frozenset(protocol.reader_features or ())
    return frozenset(
        name
        for name, row in FEATURES.items()
        if row.legacy_reader is not None and row.legacy_reader <= protocol.min_reader_version
    )


def writer_features_of(protocol: Protocol) -> frozenset[str]:
    """The features that bind writers of the table, implied and listed."""
    if protocol.min_writer_version >= WRITER_FEATURES_VERSION:
        return frozenset(protocol.writer_features or ())
    return frozenset(_implied(protocol))


def _implied(protocol: Protocol) -> Iterator[str]:
    """The legacy features that the version numbers stand for, in order of the table."""
    for name, row in FEATURES.items():
        reader, writer = row.versions
        fits = reader <= protocol.min_reader_version and writer <= protocol.min_writer_version < WRITER_FEATURES_VERSION
        if fits and row.legacy_writer is not None:
            yield name


def require_readable(protocol: Protocol, *, table: str = "") -> None:
    """Raise Unsupported, naming the features, unless we understand all that binds readers."""
    if not 1 <= protocol.min_reader_version <= READER_FEATURES_VERSION:
        raise _unsupported(f"reader version {protocol.min_reader_version}", (), table, "read")
    if refused := _refused(reader_features_of(protocol)):
        raise _unsupported(f"reader features {', '.join(refused)}", refused, table, "read")


def require_writable(protocol: Protocol, *, table: str = "") -> None:
    """Raise Unsupported, naming the features, unless we may commit to the table at all.

    CARRY features pass: whether a commit is allowed depends on what it holds, and is validation's business.
    """
    require_readable(protocol, table=table)
    if not 1 <= protocol.min_writer_version <= WRITER_FEATURES_VERSION:
        raise _unsupported(f"writer version {protocol.min_writer_version}", (), table, "write to")
    if refused := _refused(writer_features_of(protocol)):
        raise _unsupported(f"writer features {', '.join(refused)}", refused, table, "write to")


def _refused(features: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in features if FEATURES.get(name, _UNKNOWN).support is Support.REFUSE))


def _unsupported(what: str, features: tuple[str, ...], table: str, verb: str) -> Unsupported:
    subject = f"table {table}" if table else "the table"
    return Unsupported(
        f"{subject} has {what}, which we do not support: refusing to {verb} it",
        hint="drop the feature with the engine that added it, or leave the table to that engine",
        table=table,
        features=features,
    )


def protocol_for(features: Iterable[str], *, named: Iterable[str] = ()) -> Protocol:
    """The weakest protocol of a table that begins with these features, as Delta Lake on Spark spells it.

    ``named`` are those that the caller asked for by name, rather than by a property or a column that needs them.
    """
    return upgrade(DEFAULT_PROTOCOL, features, named=named)


def upgrade(protocol: Protocol, features: Iterable[str], *, named: Iterable[str] = ()) -> Protocol:
    """``protocol`` if it has all ``features`` and what these depend on, else the weakest that has both.

    The order of the elements is Spark's: listed features, those asked for by name, other added ones, implied ones;
    those that bind readers first; from five on, the order of a hash trie.
    """
    require_writable(protocol)
    asked = frozenset(map(_known, named))
    wanted = frozenset(_dependencies_first((*asked, *map(_known, features))))
    if wanted <= writer_features_of(protocol):
        return protocol
    added = (*sorted(asked, key=_RANK.__getitem__), *sorted(wanted, key=_RANK.__getitem__))
    listed = [*(protocol.writer_features or ()), *added, *_implied(protocol)]
    names = champ_order(sorted(listed, key=lambda name: not FEATURES[name].reader))
    return _weakest(champ_order(_dependencies_first(names)))


def without_fence(protocol: Protocol) -> Protocol:
    """``protocol`` if it has no fence, else the weakest that has all its other features."""
    names = protocol.writer_features or []
    return _weakest([name for name in names if name != FENCE_FEATURE]) if FENCE_FEATURE in names else protocol


def _weakest(names: list[str]) -> Protocol:
    """The protocol of exactly these features: version numbers where these say it all, else lists."""
    reader = max((FEATURES[name].versions[0] for name in names), default=1)
    writer = max((FEATURES[name].versions[1] for name in names), default=1)
    legacy = Protocol(min_reader_version=min(reader, 2), min_writer_version=min(writer, 6))
    if frozenset(_implied(legacy)) == frozenset(names):
        return legacy
    binding_readers = champ_order(name for name in names if FEATURES[name].reader)
    return Protocol(
        min_reader_version=reader,
        min_writer_version=WRITER_FEATURES_VERSION,
        reader_features=binding_readers if reader == READER_FEATURES_VERSION else None,
        writer_features=names,
    )


def _known(name: str) -> str:
    known = _BY_LOWER_NAME.get(name.lower())
    if known is None or FEATURES[known].support is Support.REFUSE:
        supported = sorted(n for n, feature in FEATURES.items() if feature.support is Support.WRITE and _is_offered(n))
        raise Unsupported(
            f"table feature {name!r} is not one that we support",
            hint=f"one of {', '.join(supported)}",
            features=(name,),
        )
    return known


def _is_offered(name: str) -> bool:
    """Previews, with a hyphen in their names, are not offered; the fence has a command of its own."""
    return name.isalnum() and name != FENCE_FEATURE


def _dependencies_first(names: Iterable[str]) -> Iterator[str]:
    """The features, each after those that it depends on; a feature may come more than once."""
    for name in names:
        yield from _dependencies_first(FEATURES[name].requires)
        yield name


def table_features_from_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """Take the user's words about the protocol out of the properties.

    Returns the other properties, and the features asked for: ``delta.feature.<name>=supported`` (or
    ``enabled``), and what a pair of minimum versions below 7 stands for.
    """
    rest, features, versions = dict[str, str](), set[str](), dict[str, str]()
    for key, value in properties.items():
        if key.lower().startswith(FEATURE_PREFIX):
            features.add(_asked_for(key[len(FEATURE_PREFIX) :], value))
        elif key.lower() in _PROTOCOL_KEYS:
            versions[_PROTOCOL_KEYS[key.lower()]] = value
        else:
            rest[key] = value
    return rest, frozenset(features) | _features_of_versions(versions)


def _asked_for(name: str, value: str) -> str:
    if value.lower() not in ("supported", "enabled"):
        raise InvalidInput(f"property {FEATURE_PREFIX}{name} has to be 'supported', not {value!r}")
    return _known(name)


def _features_of_versions(versions: Mapping[str, str]) -> frozenset[str]:
    reader = _version(versions, "delta.minReaderVersion", READER_FEATURES_VERSION)
    writer = _version(versions, "delta.minWriterVersion", WRITER_FEATURES_VERSION)
    return frozenset(_implied(Protocol(min_reader_version=reader, min_writer_version=writer)))


def _version(versions: Mapping[str, str], key: str, largest: int) -> int:
    text = versions.get(key, "1")
    if not text.isdecimal() or not 1 <= int(text) <= largest:
        raise InvalidInput(f"property {key} has to be a number from 1 to {largest}, not {text!r}")
    return int(text)
