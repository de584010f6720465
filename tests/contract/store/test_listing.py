from concurrent.futures import ThreadPoolExecutor

import pytest

from deltamirror.storage.store import Store

LOG = "_delta_log"


def names(store: Store, folder: str = "", after: str | None = None) -> list[str]:
    return [meta.key for meta in store.list(folder, after=after)]


@pytest.mark.default_on("memory", "disk", "s3")  # a page of Azure is longer, and versitygw speaks to the same client
@pytest.mark.requirement("R45")
def test_a_listing_goes_past_a_thousand_keys_and_begins_where_it_is_told(any_store: Store) -> None:
    keys = [f"{LOG}/{version:020d}.json" for version in range(1_205)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: any_store.put(key, b"x"), reversed(keys)))
    assert names(any_store, LOG) == keys
    assert names(any_store, LOG, after=f"{LOG}/{1_200:020d}.json") == keys[1_201:]
    assert names(any_store, LOG, after=f"{LOG}/{1_200:020d}.") == keys[1_200:]
    assert names(any_store, LOG, after=f"{LOG}/{5:020d}") == keys[5:]
    assert names(any_store, LOG, after=keys[-1]) == []
    any_store.delete(keys)
    assert names(any_store, LOG) == []


@pytest.mark.requirement("R45")
def test_a_listing_is_in_the_order_of_the_keys_characters_folders_or_not(any_store: Store) -> None:
    keys = sorted(["a/x", "a-b", "a.c/y/z", "a.c", "a0", "b/z", "b%2", "é", "z", "Z", "😀", "_delta_log/0.json"])
    for key in keys:
        if key != "a.c":  # a disk cannot have a file and a folder of one name
            any_store.put(key, b"x")
    expected = [key for key in keys if key != "a.c"]
    assert names(any_store) == expected
    assert sorted(meta.key for meta in any_store.walk()) == expected
    for after in expected:
        assert names(any_store, after=after) == [key for key in expected if key > after], after


def test_a_folder_lists_what_is_below_it_and_not_what_begins_like_it(any_store: Store) -> None:
    for key in ("log/a", "log/sub/b", "logs/c", "log.d"):
        any_store.put(key, b"x")
    assert names(any_store, "log") == ["log/a", "log/sub/b"]
    assert names(any_store, "lo") == []
    assert names(any_store, "log/sub") == ["log/sub/b"]
    assert names(any_store, "log", after="log/a") == ["log/sub/b"]


def test_the_folders_of_a_folder_are_those_directly_in_it(any_store: Store) -> None:
    for key in ("b/x", "b/deep/er/y", "a-b/z", "a/z", "é/z", "plain", "B/_delta_log/0.json"):
        any_store.put(key, b"x")
    assert any_store.folders() == ["B", "a", "a-b", "b", "é"]
    assert any_store.folders("b") == ["deep"]
    assert any_store.folders("b/deep") == ["er"]
    assert any_store.folders("b/deep/er") == any_store.folders("nowhere") == []


@pytest.mark.default_on("memory", "s3")  # the others have no pages, or the same
def test_folders_go_past_a_thousand(any_store: Store) -> None:
    keys = [f"{number:05d}/x" for number in range(1_205)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: any_store.put(key, b"x"), reversed(keys)))
    assert any_store.folders() == [key[:5] for key in keys]


def test_an_empty_store_lists_nothing(any_store: Store) -> None:
    assert names(any_store) == []
    assert names(any_store, LOG) == []
