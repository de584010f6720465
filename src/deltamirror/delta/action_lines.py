"""Lines of actions from outside, which know where each action stood, so that errors can name its line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from deltamirror.errors import InvalidAction, InvalidLine


class ActionLines:
    """Lines, one action each, blank ones between them; ``name`` says where they come from."""

    def __init__(self, lines: Iterable[bytes], name: str) -> None:
        self.name = name
        self._lines = lines
        self._blank: list[int] = []

    def __iter__(self) -> Iterator[bytes]:
        for number, line in enumerate(self._lines, 1):
            if line.isspace():
                self._blank.append(number)
            yield line

    @contextmanager
    def named_in_errors(self, *, of_table: str | None = None) -> Iterator[None]:
        """Name the line of what is wrong with them, or with those of one table, unless the error does so already."""
        try:
            yield
        except (InvalidAction, InvalidLine) as error:
            index, table = (error.index, error.table) if isinstance(error, InvalidAction) else (None, "")
            if of_table is not None and table not in ("", of_table):
                raise
            if error.message.startswith("line "):
                raise replace(error, message=f"{self.name}, {error.message}") from error
            if index is None or error.message.startswith(f"{self.name}, line "):
                raise
            raise replace(error, message=f"{self.name}, line {self._line(index)}: {error.message}") from error

    def _line(self, index: int) -> int:
        line = index + 1
        for blank in self._blank:
            line += blank <= line
        return line
