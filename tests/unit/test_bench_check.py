"""``make bench-check`` tells by its exit status whether a ratio is beyond its margin."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from benchmarks import check


@pytest.mark.parametrize(("value", "status", "word"), [(0.4, 0, "ok"), (0.39, 1, "FAILED")])
def test_a_ratio_below_its_margin_is_a_failure(
    value: float, status: int, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(_: object) -> Iterator[tuple[str, float]]:
        yield "open by the checkpoint", value

    monkeypatch.setattr(check, "open_lab", lambda **_: nullcontext())
    for name in ("_commits", "_publishing", "_checkpoints"):
        monkeypatch.setattr(check, name, measured)
    assert check.main() == status
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [word] * 3
