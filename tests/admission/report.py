"""What is told of a case that a reader does not read: the least of its steps that show it, and how to repeat it."""

from collections.abc import Mapping, Sequence
from itertools import count

from tests.admission.cases import MOST_STEPS, Lake, Tried, run_seed
from tests.admission.directed import Group, run_group
from tests.admission.reading import read_all
from tests.support.readers.reader import Reader

_names = count()


def told(lake: Lake, readers: Mapping[str, Reader], seed: int, wrong: Sequence[str], *, shrink: bool = True) -> str:
    """The findings of the smallest part of the case that has one of the same kind."""
    steps = list(range(MOST_STEPS))
    least, found = None, list(wrong)
    reader = wrong[0].partition(":")[0]
    own = {name: each for name, each in readers.items() if name == reader}
    for step in range(MOST_STEPS if shrink else 0):
        fewer = [each for each in steps if each != step]
        tried = run_seed(lake, seed, name=f"seed{seed}-{next(_names)}", only=fewer)
        if _kind(problems := read_all(own, [tried]).get(tried.name, [])) == _kind(wrong):
            steps, least, found = fewer, tried, problems
    again = f"python -m tests.admission --seed {seed}"
    shown = "" if least is None else f" --steps {','.join(map(str, steps))}"
    events = [] if least is None else _shown(least)
    return "\n".join([f"seed {seed}:", *(f"  {each}" for each in found), f"  again: {again}{shown}", *events])


def directed_problems(lake: Lake, readers: Mapping[str, Reader], groups: Sequence[Group]) -> list[str]:
    """What is wrong with these groups, part by part where they have more than one."""
    tried = [run_group(lake, group) for group in groups]
    wrong = read_all(readers, [each for each in tried if _shows_something(each)])
    found = []
    for group, each in zip(groups, tried, strict=True):
        if each.name in wrong:
            events = " | ".join(map(str, each.events[1:]))
            found += [f"{group.name}: {'; '.join(wrong[each.name])} | {events:.300}"]
            found += _part_by_part(lake, _concerned(readers, wrong[each.name]), group)
    return found


def _concerned(readers: Mapping[str, Reader], problems: Sequence[str]) -> dict[str, Reader]:
    named = {problem.partition(":")[0] for problem in problems}
    return {name: reader for name, reader in readers.items() if name in named}


def _part_by_part(lake: Lake, readers: Mapping[str, Reader], group: Group) -> list[str]:
    """What is wrong with each part of a group alone, for the readers that had trouble with all of them."""
    if len(group.parts) == 1:
        return []
    alone = {part: run_group(lake, group, only=part, name=f"part{next(_names)}") for part in group.parts}
    wrong = read_all(readers, [each for each in alone.values() if _shows_something(each)])
    return [f"    {part}: {'; '.join(wrong[each.name])}" for part, each in alone.items() if each.name in wrong]


def _shows_something(tried: Tried) -> bool:
    """Whether something was admitted that is not an everyday append, or nothing else was tried, or it went wrong."""
    odd = [event for event in tried.events if event.kind not in ("create", "append")]
    return bool(tried.findings) or not odd or any(not event.refusal for event in odd)


def _shown(tried: Tried) -> list[str]:
    columns = ", ".join(f"{each.name} {each.kind}" for each in tried.definition.columns)
    parts, properties = tried.definition.partition_by, dict(tried.definition.properties)
    table = f"    table ({columns}) partitioned by {parts} with {properties} checkpoint={tried.definition.checkpoint}"
    return [table, *(f"    {event}" for event in tried.events[1:])]


def _kind(problems: Sequence[str]) -> str:
    """Which reader, and roughly what: enough to tell two defects apart."""
    return "" if not problems else " ".join(problems[0].split()[:2])
