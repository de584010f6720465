"""The Grafana dashboard of ``deploy/``, as tests ask it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).parents[3] / "deploy"


def panels() -> list[dict[str, Any]]:
    """Its panels, rows included."""
    found: list[dict[str, Any]] = json.loads((DEPLOY / "grafana" / "deltamirror.json").read_text())["panels"]
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Every query, with the title of its panel."""
    for panel in panels():
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
