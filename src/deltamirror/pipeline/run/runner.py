"""The boundary to whatever does the work of a pass."""

from collections.abc import Generator, Sequence
from typing import Protocol, runtime_checkable

from deltamirror.work import Outcome, Unit


@runtime_checkable
class Runner(Protocol):
    """Runs units. Safe to use from several threads at once: every call is a job of its own.

    How its workers get the chunks of commits that units do not carry is its own matter.
    """

    def start(self) -> bool:
        """Start what the first run would otherwise wait for; whether there was any such thing."""

    def is_ready(self) -> bool:
        """Whether a run begins at once; False while what it needs is not started. Raises what it is in trouble with."""

    def run(self, units: Sequence[Unit]) -> Generator[Sequence[Outcome]]:
        """One outcome for each unit, as they finish, in any order, those together that are there at once.

        Who closes it stops the work before its next put.
        Trouble of one unit is its outcome's failure. An exception says that the job as a whole failed: any unit may
        or may not have done its work.
        """

    def close(self) -> None:
        """Let go of everything."""
