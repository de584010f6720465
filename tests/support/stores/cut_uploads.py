"""Uploads that end at a random byte, as of a process that is killed: objects are whole, or not there."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest
from msgspec.structs import replace

from deltamirror.config import StorageSettings
from deltamirror.errors import Transient, Unavailable
from deltamirror.storage import object_store
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.faults.rules import Cut
from tests.support.faults.s3_proxy import Access, S3Proxy

_PART: Final = 5 * 1024 * 1024
"""The smallest that S3 takes."""
_LARGEST: Final = 512 * 1024
"""Of an upload by one request."""
_PATIENCE: Final = 120.0
"""For how many seconds a server may be busy with broken uploads before it answers."""
_HEAD_BYTES: Final = 1_000
"""About as long as the head of a request is."""


@dataclass(slots=True)
class CutUploads:
    """Uploads through a proxy that cuts one request of each at a random byte; others look past the proxy."""

    proxy: S3Proxy
    cut: Store
    direct: Store
    whole: int = 0
    """How many uploads were over before the cut, or not hit by it."""

    @classmethod
    def through(cls, proxy: S3Proxy, location: str, settings: StorageSettings) -> "CutUploads":
        """To and from a location; clients do not try again by themselves."""
        cut = store_at(location, replace(proxy.settings(settings), retries=0))
        return cls(proxy, cut, store_at(location, replace(settings, timeout=_PATIENCE)))

    def create(self, seed: int) -> None:
        """An object that is new, by one request: whole or absent, and whole after the next attempt."""
        lots, key = random.Random(seed), f"{seed}/new"
        data = lots.randbytes(lots.randint(1, _LARGEST))
        self._cut(lots, requests=1, size=len(data))
        self._try(partial(self.cut.create, key, data))
        self._require(seed, key, None, data)
        self.cut.create(key, data)
        self._require(seed, key, data)

    def overwrite(self, seed: int) -> None:
        """An object in the place of another, in several parts: the old one or the new one, each as a whole."""
        lots, key = random.Random(seed), "one/overwritten"
        data, before = lots.randbytes(lots.randint(_PART + 1, 2 * _PART + _PART // 2)), self._found(key)
        parts = -(-len(data) // _PART)
        self._cut(lots, requests=parts + 2, size=_PART)  # the first request begins the upload, the last one ends it
        self._try(partial(self.cut.put, key, data))
        self._require(seed, key, before, data)
        self.cut.put(key, data)
        self._require(seed, key, data)

    def _cut(self, lots: random.Random, *, requests: int, size: int) -> None:
        """Cut one of the next requests that write."""
        self.proxy.heal()
        passed = iter([False] * lots.randrange(requests))
        self.proxy.fail(Cut(lots.randint(0, _HEAD_BYTES + size)), lambda access: _writes(access) and next(passed, True))

    def _try(self, upload: Callable[[], object]) -> None:
        with suppress(Unavailable, Transient):
            upload()
            self.whole += 1
        self.proxy.heal()

    def _require(self, seed: int, key: str, *whole: bytes | None) -> None:
        """Readers get one of these, and a listing has one: a request that was cut last may take place meanwhile."""
        assert self._found(key) in whole, f"seed {seed}: a torn object"
        listed = [meta.size for meta in self.direct.list(key.partition("/")[0])]
        assert listed in [[] if each is None else [len(each)] for each in whole], f"seed {seed}: a torn listing"

    def _found(self, key: str) -> bytes | None:
        found = self.direct.read(key)
        return None if found is None else found.data


@pytest.fixture
def cut_uploads(
    s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> CutUploads:
    """Uploads to the session's S3 server, those in parts as small as it takes them."""
    monkeypatch.setattr(object_store, "_PART", _PART)
    monkeypatch.setattr(object_store, "_MULTIPART", _PART)
    return CutUploads.through(s3_proxy, f"s3://{s3_bucket}/t", s3_settings)


def _writes(access: Access) -> bool:
    return access.method in ("PUT", "POST")
