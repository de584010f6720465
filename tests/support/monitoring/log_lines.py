"""The lines that a collector gets: JSON, as ``log.format = "json"`` writes them."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deltamirror.cli.logs import JsonLines

Line = dict[str, Any]


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.lines: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@contextmanager
def json_lines(level: int = logging.INFO) -> Iterator[list[Line]]:
    """What is logged in the block, from this level on."""
    logger, collector = logging.getLogger("deltamirror"), _Collector()
    before = logger.level
    logger.addHandler(collector)
    logger.setLevel(level)
    try:
        yield collector.lines
    finally:
        logger.setLevel(before)
        logger.removeHandler(collector)
