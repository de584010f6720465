"""The least that is left of a plan whose schedule breaks a guarantee."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tests.simulation.plans import Plan


def shrunk(plan: Plan, breaks: Callable[[Plan], bool], *, tries: int = 300) -> Plan:
    """A smaller plan that breaks it, too: fewer events, writers, operations, services, tables."""
    left, is_smaller = tries, True
    while is_smaller and left > 0:
        is_smaller = False
        for candidate in _smaller(plan):
            left -= 1
            if breaks(candidate):
                plan, is_smaller = candidate, True
                break
            if left <= 0:
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Large steps first."""
    events, writers = plan.events, plan.writers
    size = len(events)
    while size:
        for start in range(0, len(events), size):
            yield replace(plan, events=events[:start] + events[start + size :])
        size //= 2
    for number, operations in enumerate(writers):
        yield replace(plan, writers=writers[:number] + writers[number + 1 :])
        for place in range(len(operations)):
            fewer = operations[:place] + operations[place + 1 :]
            yield replace(plan, writers=(*writers[:number], fewer, *writers[number + 1 :]))
    if plan.services > 1:
        yield replace(plan, services=plan.services - 1)
    if plan.tables > 1:
        yield replace(plan, tables=plan.tables - 1)
    for plainer in ({"expires": False}, {"adopts": False}, {"stage_above": 1_000}, {"verify": "basic"}, {"batch": 100}):
        if (simple := replace(plan, **plainer)) != plan:
            yield simple
