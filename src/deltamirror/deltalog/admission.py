"""Which tables may come under SQL, by their protocol."""

from typing import Final

from deltamirror.delta.actions import Protocol
from deltamirror.delta.features import reader_features_of, require_readable, writer_features_of
from deltamirror.errors import Unsupported

_OF_A_CATALOG: Final = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})
_REDIRECTED: Final = frozenset({"redirectReaderWriter-preview", "redirectWriterOnly-preview"})


def require_importable(protocol: Protocol, *, location: str) -> None:
    """Raise Unsupported, naming the features, where the log is not the truth, or where we do not understand it.

    Features that bind writers alone do not keep a table out: its lines are carried as they are. Commits through us are
    refused as long as it has a feature that we do not know.
    """
    features = reader_features_of(protocol) | writer_features_of(protocol)
    if found := tuple(sorted(features & _OF_A_CATALOG)):
        raise Unsupported(
            f"the table at {location} is managed by a catalog ({', '.join(found)}): its log lags behind that catalog",
            hint="take the table out of that catalog's management (drop the feature there), and try again",
            table=location,
            features=found,
        )
    if found := tuple(sorted(features & _REDIRECTED)):
        raise Unsupported(
            f"the table at {location} is redirected ({', '.join(found)}): its log goes on in another place",
            hint="take the location that it is redirected to",
            table=location,
            features=found,
        )
    require_readable(protocol, table=location)
