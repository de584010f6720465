"""The store on S3, Google, Azure, and in memory, through obstore.

One request of ours is one object: a conditional create is a single PUT with ``If-None-Match: *``, a conditional replace
one with ``If-Match`` (Google: the generation).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from deltamirror.batches import batched
from deltamirror.config import scrub
from deltamirror.errors import DeltaMirrorError, NotFound, Throttled
from deltamirror.storage.failures import is_broken_off, is_missing_bucket, status_of, translated
from deltamirror.storage.keys import check_data, check_folder, check_key, is_hidden, is_temporary
from deltamirror.storage.store import Changed, Created, Data, ETag, Exists, Meta, Object, Obstacle, Replaced, Store
from deltamirror.storage.throttling import AskedPause

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, PutResult
    from obstore.store import ObjectStore as Client

LARGE: Final = 8 * 1024 * 1024
"""What moves more than this has more time."""

_MULTIPART: Final = 64 * 1024 * 1024
_PART: Final = 16 * 1024 * 1024
_PAGE: Final = 1_000
_BEFORE_SLASH: Final = re.compile(r"[\x20-\x2e]")


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of one bucket, which differ in how long they wait, and the member that names an object's content.

    ``quoted``: the name is in quotes, also where a listing leaves them out, as Azure's does.
    """

    calls: Client
    transfers: Client
    tag: Literal["e_tag", "version"] = "e_tag"
    quoted: bool = False
    asked_pause: AskedPause = lambda _: None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts that no message of the store may hold."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """The objects below a path of a bucket.

    ``reopen`` with its arguments opens the same store in another process, with that process's own credentials.
    """

    location: str
    path: str
    clients: Clients
    reopen: tuple[Callable[..., Store], tuple[Any, ...]]

    def __reduce__(self) -> tuple[Callable[..., Store], tuple[Any, ...]]:
        return self.reopen

    def create(self, key: str, data: Data, *, synced: bool = True) -> Created | Exists:
        """One PUT with ``If-None-Match: *``, durable by itself. A timeout is ``Unavailable``, and it may be there.

        A store may refuse before it has read all of a large object, and hang up: the refusal is lost with the rest of
        the object. So after a connection that broke, the store is asked whether there is an object.
        """
        etag = self._put(key, data, mode="create")
        return Exists() if etag is None else Created(etag)

    def sync(self, folder: str) -> None:
        """Nothing but a look at the name: each object was durable before its reply."""
        check_folder(folder)

    def replace(self, key: str, data: Data, *, if_match: ETag | None) -> Replaced | Changed:
        """One PUT with ``If-Match``."""
        mode: PutMode = "create"
        if if_match is not None:
            mode = {"e_tag": if_match} if self.clients.tag == "e_tag" else {"version": if_match}
        etag = self._put(key, data, mode=mode)
        return Changed() if etag is None else Replaced(etag)

    def put(self, key: str, data: Data) -> ETag:
        """One PUT, or a multipart upload of a big object, which is as atomic."""
        return self._put(key, data, mode="overwrite") or ETag("")

    def read(self, key: str) -> Object | None:
        """One GET; a second one, which has more time, for a big object."""
        with self._translated("read", key):
            try:
                found = obstore.get(self.clients.calls, self._path(key))
                if found.meta["size"] > LARGE:
                    found = obstore.get(self.clients.transfers, self._path(key))
                return Object(self._meta(found.meta), found.bytes().to_bytes())
            except FileNotFoundError as error:
                _unless_bucket_is_missing(error)
                return None

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """One GET with a range; a second one, which has more time, where more than 8 MiB are to come.

        What is asked for says little: most objects are smaller than the pieces that they are read in.
        """
        path = self._path(key)
        with self._translated("read", key):
            try:
                if length > LARGE:
                    found = obstore.get(self.clients.calls, path, options={"range": (start, start + length)})
                    first, end = found.range
                    if end - first <= LARGE:
                        return found.bytes().to_bytes()
                return self._client(length).get_range(path, start=start, length=length).to_bytes()
            except FileNotFoundError as error:
                _unless_bucket_is_missing(error)
                return None
            except BaseError as error:
                if status_of(error) == 416 or "Wanted range starting at" in str(error):
                    return b""
                raise

    def head(self, key: str) -> Meta | None:
        """One HEAD; its answer has no body, so that a missing bucket looks like a missing object."""
        with self._translated("look at", key):
            try:
                return self._meta(obstore.head(self.clients.calls, self._path(key)))
            except FileNotFoundError as error:
                _unless_bucket_is_missing(error)
                return None

    def list(self, folder: str = "", *, after: str | None = None) -> Iterator[Meta]:
        """Every page, then sorted: some stores (S3 Express, SeaweedFS with folders) list in an order of their own."""
        found = (meta for meta in self._listed(folder, after) if not is_hidden(meta.key.rpartition("/")[2]))
        return iter(sorted(found, key=lambda meta: meta.key))

    def walk(self) -> Iterator[Meta]:
        """Page by page, as they come."""
        return (meta for meta in self._listed("", None) if not is_hidden(meta.key.rpartition("/")[2]))

    def folders(self, folder: str = "") -> Sequence[str]:
        """The common beginnings of keys, as the store tells them."""
        check_folder(folder)
        with self._translated("list", folder):
            found = obstore.list_with_delimiter(self.clients.calls, self._folder(folder))
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])

    def obstacles(self, folder: str) -> Sequence[Obstacle]:
        """None: every name is free, or an object's."""
        return ()

    def delete(self, keys: Iterable[str]) -> None:
        """In bulk where the store can; one by one when one is missing, which ends a bulk on some stores.

        Also when the connection breaks, as one that was idle does: the client sends no POST twice, and a bulk is one.
        """
        paths = [self._path(key) for key in keys]
        with self._translated("delete", f"{len(paths)} objects"):
            for page in batched(paths, _PAGE):
                try:
                    obstore.delete(self.clients.calls, page)
                except FileNotFoundError as error:
                    _unless_bucket_is_missing(error)
                    self._delete_each(page)
                except BaseError as error:
                    if not is_broken_off(error):
                        raise
                    self._delete_each(page)

    def copy(self, source: str, target: str) -> None:
        """Inside the store."""
        with self._translated("copy", source):
            try:
                obstore.copy(self.clients.transfers, self._path(source), self._path(target))
            except FileNotFoundError as error:
                _unless_bucket_is_missing(error)
                raise NotFound(f"there is no {source} in {self.location}") from None

    def sweep_temporaries(self, folder: str = "", *, before: int) -> int:
        """Delete probes and temporaries of other writers. Parts of broken uploads are the bucket's to expire."""
        listed = [meta for meta in self._listed(folder, None) if is_temporary(meta.key.rpartition("/")[2])]
        old = [meta.key for meta in listed if meta.modified < before]
        if old:
            self.delete(old)
        return len(old)

    def _put(self, key: str, data: Data, *, mode: PutMode) -> ETag | None:
        """Put an object; None if the condition does not hold."""
        check_data(key, data)
        multipart = mode == "overwrite" and len(data) > _MULTIPART
        client = self._client(len(data))
        with self._translated("write", key):
            try:
                sent = data if isinstance(data, bytes) else data.cast("B")  # Arrow's buffers have signed bytes
                put = obstore.put(client, self._path(key), sent, mode=mode, use_multipart=multipart, chunk_size=_PART)
            except (AlreadyExistsError, PreconditionError) as error:
                _unless_bucket_is_missing(error)
                if mode == "overwrite":
                    raise
                return None
            except BaseError as error:
                if mode == "create" and is_broken_off(error) and self._is_there(key):
                    return None
                raise
        return self._tag(put)

    def _is_there(self, key: str) -> bool:
        """Whether there is an object for certain."""
        try:
            return self.head(key) is not None
        except DeltaMirrorError:
            return False

    def _listed(self, folder: str, after: str | None) -> Iterator[Meta]:
        check_folder(folder)
        offset = None if after is None else self._offset(folder, after)
        with self._translated("list", folder):
            pages = obstore.list(self.clients.calls, self._folder(folder), offset=offset, chunk_size=_PAGE)
            for found in (self._meta(entry) for page in pages for entry in page):
                if after is None or found.key > after:
                    yield found

    def _offset(self, folder: str, after: str) -> str | None:
        """A key before which a store may leave out everything, and after which nothing that is asked for.

        A store that lists by folders (SeaweedFS) takes the folder ``a`` to lie before ``a-b``, where S3 has ``a/x``
        after it. So a little more is asked for: from before every folder whose name begins that of the key.
        """
        above, _, name = after.rpartition("/")
        begin = _BEFORE_SLASH.split(name, maxsplit=1)[0]
        if above != folder or not begin.isascii() or not begin:
            return None
        last = chr(ord(begin[-1]) - 1).replace("/", ".")
        return self._path("/".join(filter(None, [folder, f"{begin[:-1]}{last}~"])))

    def _delete_each(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                obstore.delete(self.clients.calls, path)
            except FileNotFoundError as error:
                _unless_bucket_is_missing(error)

    def _client(self, size: int) -> Client:
        return self.clients.transfers if size > LARGE else self.clients.calls

    def _path(self, key: str) -> str:
        check_key(key)
        return f"{self.path}/{key}"

    def _folder(self, folder: str) -> str:
        return "/".join(filter(None, [self.path, folder]))

    def _tag(self, found: ObjectMeta | PutResult) -> ETag:
        tag = found[self.clients.tag] or ""
        return ETag(f'"{tag}"' if self.clients.quoted and not tag.startswith('"') else tag)

    def _meta(self, found: ObjectMeta) -> Meta:
        return Meta(
            found["path"].removeprefix(f"{self.path}/"),
            size=found["size"],
            modified=int(found["last_modified"].timestamp() * 1_000),
            etag=self._tag(found),
        )

    @contextmanager
    def _translated(self, doing: str, key: str) -> Iterator[None]:
        """Errors in our words, without our keys: a store may repeat what it was sent."""
        try:
            with translated(doing, f"{self.location}/{key}".rstrip("/")):
                yield
        except DeltaMirrorError as error:
            error.message = scrub(error.message, self.clients.secrets)
            if isinstance(error, Throttled) and error.retry_after is None:
                raise replace(error, retry_after=self.clients.asked_pause(f"{self.path}/{key}")) from None
            raise


def _unless_bucket_is_missing(error: BaseException) -> None:
    """Go on: nothing is wrong with a missing object. A missing bucket is an error."""
    if is_missing_bucket(error):
        raise error
