"""Table locations: one canonical form for each place.

``s3a://b/t/``, ``s3n://b//t`` and ``s3://b/t`` are one place; so are ``/data/t``, ``//data/t``, ``file:/data/t``
and ``file:///data/t/``, and the hosts of one Azure account. Two tables may not share a location, and none may lie
inside another. Links on a disk are left as they are; ``places`` compares what they lead to.
"""

import os
import re
from urllib.parse import quote, unquote, urlsplit

from deltamirror.config.secrets import MASK
from deltamirror.delta.paths import decode_path, is_absolute
from deltamirror.errors import InvalidLocation

_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "az": "az",
    "abfs": "abfs",
    "abfss": "abfs",
    "memory": "memory",
}
_WITH_ACCOUNT = ("abfs", "abfss")
"""As in ``abfs://container@account.dfs.core.windows.net/path``."""
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")
"""With a drive, or with a server behind two backslashes."""
_CONTROL = re.compile(r"[\x00-\x1f]")
_USERINFO = re.compile(r"//.*@")


def canonical_location(location: str, *, or_bucket: bool = False) -> str:
    """The one spelling under which the catalog knows this place; a whole bucket is none, unless told so."""
    if not location or location != location.strip() or _has_controls(location):
        raise _invalid(location, "is empty or has blanks or control characters around it")
    if not _is_utf8(location):
        raise _invalid(location, "is not UTF-8 text")
    if _WINDOWS_PATH.match(location):
        raise _invalid(location, "is a Windows path")
    if location == "~" or location.startswith("~/"):
        raise _invalid(location, "begins with ~, which only a shell takes for the home folder")
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return _local(location, location)
    if scheme.lower() == "file":
        return _local(location, _file_url_path(location))
    return _remote(location, scheme.lower(), rest, or_bucket=or_bucket)


def file_place(path: str, location: str) -> tuple[str, str]:
    """Where a path of the log of a table at a location leads: a location, and the key of the file there."""
    if not is_absolute(path):
        return location, decode_path(path)
    folder, _, name = path.rpartition("/")
    given = folder if folder.lower().startswith("file:") else decode_path(folder)
    return canonical_location(given), decode_path(name)


def is_inside(inner: str, outer: str) -> bool:
    """Whether one canonical location lies below (or is) the other.

    ``az://`` names no account: it may be that of any ``abfs://`` location with the same container, and counts as it.
    """
    if {inner.partition(":")[0], outer.partition(":")[0]} == {"az", "abfs"}:
        inner, outer = _without_account(inner), _without_account(outer)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def folders_above(location: str) -> list[str]:
    """All texts of canonical locations that one lies in, but for what ``is_inside`` knows of Azure."""
    _, _, path = location.partition("://")
    begin = len(location) - len(path)
    ends = [number for number, letter in enumerate(location) if letter == "/" and number > begin]
    return [location[: end + more] for end in ends for more in (0, 1)]


def store_prefix(location: str) -> str:
    """What the locations of one store begin with: its bucket, or the local disk."""
    scheme, _, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"


def local_path(location: str) -> str | None:
    """The path on disk of a canonical ``file://`` location, or None for a remote one."""
    return unquote(location.removeprefix("file://")) if location.startswith("file://") else None


def is_of_one_machine(location: str) -> bool:
    """Whether a canonical location is a disk or a memory, which another machine may have under the same name."""
    return location.startswith(("file://", "memory://"))


def _local(given: str, path: str) -> str:
    absolute = os.path.abspath(path)  # noqa: PTH100 - a table may be reached through a link; links stay
    absolute = "/" + absolute.lstrip("/")  # POSIX keeps two slashes at the beginning apart; no file system does
    if absolute == "/":
        raise _invalid(given, "is the root of the disk")
    return "file://" + quote(absolute, safe="/=+:,;@!$&'()*~-_.")


def _without_account(location: str) -> str:
    """Container and path of a location on Azure."""
    container, slash, path = location.partition("://")[2].partition("/")
    return container.partition("@")[0] + slash + path


def _file_url_path(location: str) -> str:
    parts = urlsplit(location)
    if parts.netloc not in ("", "localhost"):
        raise _invalid(location, "names another host")
    if parts.query or parts.fragment or not parts.path.startswith("/"):
        raise _invalid(location, "is not a plain absolute file URL")
    return _decoded(location, parts.path)


def _decoded(given: str, path: str) -> str:
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise _invalid(given, "is not UTF-8 text") from None
    if _has_controls(decoded):
        raise _invalid(given, "has control characters in it")
    return decoded


def _remote(given: str, scheme: str, rest: str, *, or_bucket: bool) -> str:
    if scheme not in _SCHEMES:
        raise _invalid(given, f"has the unknown scheme {scheme!r} (known: file, {', '.join(sorted(_SCHEMES))})")
    if not rest.startswith("//") or "?" in rest or "#" in rest:
        raise _invalid(given, "is not of the form scheme://bucket/path")
    bucket, *path = [part for part in rest[2:].split("/") if part] or [""]
    if not bucket or rest.startswith("///"):
        raise _invalid(given, "names no bucket")
    if ":" in bucket or ("@" in bucket and scheme not in _WITH_ACCOUNT):
        raise _invalid(given, "has credentials in it, which belong into the settings or the environment")
    if not path and not or_bucket:
        raise _invalid(given, "is a whole bucket: a table needs a folder of its own")
    if any(part in (".", "..") for part in path):
        raise _invalid(given, "contains '.' or '..'")
    return f"{_SCHEMES[scheme]}://{'/'.join([_with_one_host(bucket), *path])}"


def _with_one_host(bucket: str) -> str:
    """A container with the host of its account: hosts have no cases, may end with a dot, and each account has two."""
    container, at, host = bucket.partition("@")
    account, *domain = host.lower().rstrip(".").split(".")
    if domain[:1] == ["blob"]:
        domain[0] = "dfs"
    return container + at + ".".join([account, *domain])


def _has_controls(text: str) -> bool:
    return _CONTROL.search(text) is not None


def _is_utf8(text: str) -> bool:
    return text.encode(errors="ignore").decode() == text


def _invalid(location: str, why: str) -> InvalidLocation:
    shown = _without_secrets(location)
    return InvalidLocation(
        f"the location {shown!r} {why}",
        hint="give a folder of its own, such as s3://bucket/path/table or /data/table",
        location=shown,
    )


def _without_secrets(location: str) -> str:
    """An address that may be a signed one, or have keys before its host, as it can be repeated."""
    address, parameters, _ = location.partition("?")
    return _USERINFO.sub(f"//{MASK}@", address) + (f"?{MASK}" if parameters else "")
