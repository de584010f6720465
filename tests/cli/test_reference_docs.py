import re

import click
import msgspec
import pytest

from deltamirror import errors
from deltamirror.cli import cli
from deltamirror.config import Settings, keys
from deltamirror.delta.shapes import ACTION_TYPES, ShapeRule
from deltamirror.delta.validation.rules import RULES
from scripts import reference_docs
from scripts.action_reference import ONLY_IN_CHECKPOINTS, cell


@pytest.mark.requirement("R96")
@pytest.mark.requirement("R97")
@pytest.mark.parametrize("name", reference_docs.PAGES)
def test_the_reference_pages_say_what_the_code_says(name: str) -> None:
    assert reference_docs.current(name) == reference_docs.PAGES[name](), "run scripts/reference_docs.py"


def test_every_command_and_option_is_on_the_page() -> None:
    page = reference_docs.current("cli.md")
    for path, command in reference_docs.commands(cli, "deltamirror"):
        assert f"## {path}\n" in page
        assert all(f"`{max(p.opts, key=len)}" in page for p in command.params if isinstance(p, click.Option))


@pytest.mark.requirement("R97")
def test_every_setting_is_on_the_page_with_its_variable() -> None:
    page = reference_docs.current("settings.md")
    for key in keys(Settings):
        assert f"| `{key.name}` |" in page
        assert f"`{key.variable}`" in page


def test_every_action_is_on_the_page_with_its_fields_and_their_types() -> None:
    page = reference_docs.current("actions.md")
    assert len(ACTION_TYPES) > 8
    for name, struct in ACTION_TYPES.items():
        for field in msgspec.structs.fields(struct) if name not in ONLY_IN_CHECKPOINTS else ():
            section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
            required = "yes" if field.required else "no"
            assert re.search(
                rf"^\| `{field.encode_name}` \| `{field.name}` \| .+ \| {required} \| .+ \|$", section, re.MULTILINE
            )


@pytest.mark.requirement("R85")
def test_every_rule_that_an_action_can_break_is_on_the_page_with_its_remedy() -> None:
    page = reference_docs.current("actions.md")
    for rule in RULES.values():
        assert f"| `{rule.id}` | {cell(rule.text)} | {cell(rule.remedy)} |" in page
    for shape in ShapeRule:
        assert f"| `{shape}` | {cell(shape.remedy)} |" in page


@pytest.mark.requirement("R85")
def test_every_error_code_and_exit_status_is_on_the_page() -> None:
    page = reference_docs.current("errors.md")
    for name in errors.__all__:
        cls = getattr(errors, name)
        assert name == "DeltaMirrorError" or f"#{cls.code}) | `{name}` | {cls.exit_status} |" in page


def test_exit_statuses_2_and_3_mean_drift_and_lag_and_the_shells_own_mean_nothing_else() -> None:
    meanings: dict[int, set[str]] = {}
    for name in errors.__all__:
        meanings.setdefault(getattr(errors, name).exit_status, set()).add(name)
    assert (meanings[2], meanings[3]) == ({"Diverged"}, {"Late"})
    assert not meanings.keys() & {0, 64, 130, 141}
