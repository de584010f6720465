"""``deltamirror vacuum`` as it is typed."""

import os

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

pytestmark = pytest.mark.requirement("R89")


@pytest.fixture
def left(orders: Prompt, add: AddLine) -> Prompt:
    """A prompt with the table ``orders``, and an old file in its folder that no commit names."""
    orders("commit", "orders", "-", stdin=add())
    file = orders.folder / "lake/orders/left.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"left")
    os.utime(file, (1, 1))
    return orders


def test_what_a_dry_run_shows_is_what_goes(left: Prompt) -> None:
    file = left.folder / "lake/orders/left.parquet"
    said = left("vacuum", "orders", "--dry-run").stdout.splitlines()
    assert said[:2] == ["left.parquet", "Would be deleted: 1 file, 4 bytes."]
    assert said[2] == "Files that unpublished commits removed stay: 2 versions to publish."
    assert said[3].startswith("Versions of orders since ")
    shown = left.json("vacuum", "orders", "--dry-run")
    assert (shown["files"], shown["num_files"], shown["num_bytes"]) == (["left.parquet"], 1, 4)
    assert (shown["num_deleted"], shown["version"], shown["num_unpublished"]) == (0, None, 2)
    assert shown["retention"] == 7 * 86_400_000
    assert file.exists()
    done = left("vacuum", "orders").stdout
    assert "Deleted: 1 file of 1 file, 4 bytes; it is version 3 of orders." in done
    assert not file.exists()
    assert left("vacuum", "orders").stdout.startswith("Nothing to delete: 0 files, 0 bytes.")
    again = left.json("vacuum", "orders")
    assert (again["files"], again["num_files"], again["version"]) == ([], 0, None)


def test_less_than_the_retention_is_refused_unless_told(left: Prompt) -> None:
    error = left.error("vacuum", "orders", "--retain", "2h", exits=16)
    assert (error["code"], "168 hours" in error["message"]) == ("refused", True)
    assert left.json("vacuum", "orders", "--retain", "0s", "--no-retention-check")["num_deleted"] == 1


def test_a_length_of_time_that_is_none_is_named(left: Prompt) -> None:
    for retain in ("", "7", "7 days", "-1d", "1e9d", "99999999d"):
        assert f"`{retain}` is no length of time" in left("vacuum", "orders", "--retain", retain, exits=64).stderr
