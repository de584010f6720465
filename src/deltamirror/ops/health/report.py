"""What a health check answers: a state for each part, with its reason and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class HealthState(StrEnum):
    """How a part stands."""

    OK = "ok"
    DEGRADED = "degraded"
    """It works, and an operator should look at it."""
    FAILED = "failed"
    """It does not work."""


_SEVERITY = list(HealthState)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """What one check found."""

    state: HealthState = HealthState.OK
    reason: str = ""
    """What is wrong; of a part that is well, what is to be known of it, if anything."""
    advice: str = ""
    restart_cures: bool = False
    """Whether the process has to be started again: nothing else ends this."""


def combined(findings: Iterable[HealthFinding]) -> HealthFinding:
    """The findings of one part as one: the worst state, and every reason that it is not well."""
    found = list(findings)
    not_well = (each for each in found if each.state is not HealthState.OK)
    wrong = sorted(not_well, key=lambda each: _SEVERITY.index(each.state), reverse=True)
    if not wrong:
        return HealthFinding(reason="; ".join(filter(None, (each.reason for each in found))))
    return HealthFinding(
        state=wrong[0].state,
        reason="; ".join(each.reason for each in wrong),
        advice="; ".join(dict.fromkeys(each.advice for each in wrong if each.advice)),
        restart_cures=any(each.restart_cures for each in wrong),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """A part of a process, or of a catalog."""

    name: str
    state: HealthState
    reason: str
    advice: str
    since: int
    """Since when it is in this state, as far as the process that was asked has seen it; milliseconds since 1970."""
    restart_cures: bool = False


@dataclass(frozen=True, slots=True)
class HealthReport:
    """All parts at a moment."""

    parts: tuple[PartHealth, ...]

    @property
    def ok(self) -> bool:
        """Whether the process lives: nothing has failed that only a restart cures."""
        return not any(part.restart_cures and part.state is HealthState.FAILED for part in self.parts)

    @property
    def ready(self) -> bool:
        """Whether no part has failed."""
        return all(part.state is not HealthState.FAILED for part in self.parts)

    @property
    def state(self) -> HealthState:
        """The worst state of a part."""
        return max((part.state for part in self.parts), key=_SEVERITY.index, default=HealthState.OK)

    def document(self) -> dict[str, object]:
        """As ``/healthz``, ``/readyz`` and ``deltamirror health --json`` show it."""
        names = ("name", "state", "reason", "advice", "since")
        parts = [{name: getattr(part, name) for name in names} for part in self.parts]
        return {"ok": self.ok, "ready": self.ready, "parts": parts}
