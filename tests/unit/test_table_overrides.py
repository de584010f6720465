from pathlib import Path

import pytest

from deltamirror.config import Settings, Switch, examine, keys, load, settings_for
from deltamirror.config.overrides import ignored_properties, origins_for, switched_by
from deltamirror.errors import InvalidSettings

BLOCKS = """\
[checkpoint]
interval = 50

[[tables]]
match = "sales.*"
mirror.enabled = false
checkpoint.interval = 20

[[tables]]
match = "sales.orders"
[tables.checkpoint]
interval = 5
bytes = 7
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "deltamirror.toml"
    path.write_text(BLOCKS)
    return path


@pytest.mark.requirement("R75")
def test_the_last_block_that_matches_goes_before_others_and_these_before_the_section(file: Path) -> None:
    settings = load(environment={"DELTAMIRROR_CHECKPOINT__INTERVAL": "40"}, config=file).settings

    def of(table: str) -> tuple[object, ...]:
        own = settings_for(settings, table, {})
        return own.mirror.enabled, own.checkpoint.interval, own.checkpoint.bytes

    usual = Settings().checkpoint.bytes
    assert of("stock") == (True, 40, usual)
    assert of("sales.eu") == (False, 20, usual)
    assert of("sales.orders") == (False, 5, 7)
    assert settings_for(settings, "stock", {"delta.appendOnly": "true"}) is settings


@pytest.mark.requirement("R75")
def test_a_table_property_goes_before_every_block(file: Path) -> None:
    settings = load(environment={}, config=file).settings
    properties = {
        "delta.checkpointInterval": "3",
        "deltamirror.checkpointBytes": "9",
        "deltamirror.mirrorEnabled": "true",
        "deltamirror.mirrorVerify": "STRICT",
    }
    own = settings_for(settings, "sales.orders", properties)
    assert (own.checkpoint.interval, own.checkpoint.bytes) == (3, 9)
    assert (own.mirror.enabled, own.mirror.verify) == (True, "strict")


def test_a_property_that_cannot_be_read_is_as_if_it_were_absent(file: Path) -> None:
    settings = load(environment={}, config=file).settings
    properties = {"deltamirror.checkpointBytes": "many", "deltamirror.mirrorEnabled": "maybe", "deltamirror.x": "1"}
    assert settings_for(settings, "sales.orders", properties) == settings_for(settings, "sales.orders", {})
    assert dict(ignored_properties(properties)) == {
        "deltamirror.mirrorEnabled": "true or false",
        "deltamirror.checkpointBytes": "whole number",
    }
    assert switched_by(properties) is None


def test_values_for_a_table_name_the_block_or_property_that_they_come_from(file: Path) -> None:
    loaded = load(environment={"DELTAMIRROR_MIRROR__POLL": "2"}, config=file)
    origins = origins_for(loaded, "sales.orders", {"deltamirror.checkpointBytes": "9"})
    assert origins["checkpoint.interval"] == f"{file}:12"
    assert origins["mirror.enabled"] == f"{file}:6"
    assert origins["checkpoint.bytes"] == "table property deltamirror.checkpointBytes"
    assert origins["mirror.poll"] == "DELTAMIRROR_MIRROR__POLL"
    assert origins["mirror.lease"] == "default"
    assert set(origins) == {key.path for key in keys(Settings)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("match = 'a'\nmirror.enable = true\n", "3: block 1 of [[tables]]: unknown setting `mirror.enable`"),
        ("match = 'a'\nmiror.enabled = true\n", "3: block 1 of [[tables]]: unknown section `miror`"),
        ("match = 'a'\nmirror = true\n", "3: block 1 of [[tables]]: `mirror` is a section, not a value"),
        ("match = 'a'\nmirror.poll = 1\n", "3: block 1 of [[tables]]: `mirror.poll` cannot differ between tables"),
        (
            "match = 'a'\n[[tables]]\nmatch = 'b'\nmirror.enabled = 1\n",
            "5: block 2 of [[tables]]: `mirror.enabled`: expected true or false, found 1",
        ),
        ("mirror.enabled = true\n", "1: block 1 of [[tables]]: `match` has to be a pattern for names of tables"),
        ("match = 'a[b]'\n", "1: block 1 of [[tables]]: `match` has to be a pattern for names of tables"),
        ("match = 5\n", "1: block 1 of [[tables]]: `match` has to be a pattern for names of tables"),
    ],
)
def test_what_is_wrong_in_a_block_is_named_with_line_and_number(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "deltamirror.toml"
    file.write_text(f"[[tables]]\n{text}")
    with pytest.raises(InvalidSettings) as caught:
        load(environment={}, config=file)
    assert caught.value.message == f"{file}:{message}"


def test_one_section_in_the_place_of_blocks_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deltamirror.toml"
    file.write_text("[tables]\nmatch = 'a'\n")
    _, [problem] = examine(environment={}, config=file)
    assert problem.message == f"{file}:1: `tables` is a list of blocks"
    assert "[[tables]]" in problem.hint


def test_a_switch_knows_the_blocks_that_switch_in_their_order(file: Path) -> None:
    assert Switch.of(load(environment={}, config=file).settings) == Switch(True, (("sales.*", False),))


def test_the_properties_of_settings_have_the_names_that_the_reference_gives() -> None:
    assert {key.table_property for key in keys(Settings) if key.per_table} == {
        "deltamirror.mirrorEnabled",
        "deltamirror.mirrorVerify",
        "deltamirror.mirrorChecksums",
        "delta.checkpointInterval",
        "deltamirror.checkpointBytes",
        "deltamirror.checkpointCompression",
        "deltamirror.checkpointRowGroupBytes",
        "deltamirror.checkpointSidecarActions",
        "deltamirror.cleanupEnabled",
        "deltamirror.historyKeep",
        "deltamirror.maintenanceCompact",
        "deltamirror.maintenanceOptimize",
        "deltamirror.maintenanceSmallFiles",
        "deltamirror.maintenanceVacuum",
        "deltamirror.maintenanceVacuumInterval",
    }
