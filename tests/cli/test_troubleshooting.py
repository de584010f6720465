"""The guide to troubles: complete, and each section drilled: the trouble is there, its commands end it, it is gone."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from deltamirror import errors
from deltamirror.config.ready_rules import READY_MADE_NAMES
from tests.support.interfaces.prompt import Prompt
from tests.support.interfaces.runbooks import TROUBLESHOOTING, follow, procedures, symptoms
from tests.support.interfaces.troubles import TROUBLES, Scene

pytestmark = pytest.mark.requirement("R98")

SECTIONS = procedures(TROUBLESHOOTING)
SYMPTOMS = symptoms(TROUBLESHOOTING)
CODES = {getattr(errors, name).code for name in errors.__all__}


@pytest.fixture
def scene(published: Prompt, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Scene]:
    monkeypatch.setenv("DELTAMIRROR_MIRROR__RUNNER", "local")
    with ExitStack() as stack:
        found = Scene(published, monkeypatch, request.getfixturevalue, stack)
        found.write_actions()
        yield found


def test_every_error_and_every_alert_has_one_section_with_all_parts_and_a_drill() -> None:
    titles = re.findall(r"^## (.+)$", TROUBLESHOOTING.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(titles) == sorted({*CODES, *READY_MADE_NAMES})
    assert set(SYMPTOMS) == set(TROUBLES) == set(titles)
    for title, parts in SECTIONS.items():
        assert list(parts) == ["Check", "Act", "Verify"], title
        assert all(parts.values()), title


def test_every_section_is_linked_at_the_beginning_of_the_page() -> None:
    text = TROUBLESHOOTING.read_text(encoding="utf-8")
    assert sorted(re.findall(r"\[([a-z-]+)\]\(#\1\)", text.partition("\n## ")[0])) == sorted(SECTIONS)


@pytest.mark.parametrize("title", SECTIONS)
def test_the_commands_of_a_section_find_the_trouble_and_end_it(scene: Scene, title: str) -> None:
    parts = SECTIONS[title]
    with contextmanager(TROUBLES[title])(scene):
        said = follow(parts["Check"])
    assert re.search(pattern_of(SYMPTOMS[title]), said), said
    assert is_told(title, said)
    follow(parts["Act"])
    if title in READY_MADE_NAMES:
        scene.evaluate()
    assert not is_told(title, follow(parts["Verify"]))


def pattern_of(symptom: str) -> str:
    """A message in which … stands for anything, and blanks for any number of them."""
    return r"\s+".join(".*".join(map(re.escape, word.split("…"))) for word in symptom.split())


def is_told(title: str, said: str) -> bool:
    """Whether commands named the code of an error, or an alert that fires."""
    named = rf"#{title}$|: {title} at |^{title} .* firing "
    return re.search(named, said, re.MULTILINE) is not None
