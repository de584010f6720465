"""``python -m benchmarks.model``: what a larger world needs, by the costs that ``lag`` and ``claims`` measured here.

A part computes so much for each version, and a little whether there are any: the line through the smallest and the
largest load; the load between them shows how far that is from the truth. A service plans and records in one Python
process, so that one core is its limit. Services claim tables one after the other, and a claim looks at all tables of
the catalog: that limits how many versions a catalog hands out. PostgreSQL is as large as its machine.
"""

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.report import Table
from benchmarks.results import Results
from benchmarks.service import SERVICE
from deltamirror.config import MirrorSettings

_FULL: Final = 0.7
"""Up to which share of its capacity a part is loaded: beyond it, what waits grows faster than the load."""
_POSTGRESQL: Final = "PostgreSQL"


@dataclass(frozen=True, slots=True)
class Line:
    """A cost that grows by the same amount with each unit."""

    fixed: float
    each: float

    @classmethod
    def through(cls, first: tuple[float, float], last: tuple[float, float]) -> "Line":
        """The line through two points; a cost that did not grow between them is taken to grow from nothing to the last.

        A JVM compiles its code as it goes, which the first load pays.
        """
        (x1, y1), (x2, y2) = first, last
        if y2 <= y1:
            return cls(0.0, y2 / x2)
        each = (y2 - y1) / (x2 - x1)
        return cls(max(0.0, y1 - each * x1), each)

    def at(self, amount: float) -> float:
        """The cost of so many."""
        return self.fixed + self.each * amount


@dataclass(frozen=True, slots=True)
class Costs:
    """Cores by versions a second, for each part, and seconds of a claim by tables."""

    parts: Mapping[str, Line]
    claim: Line

    @classmethod
    def measured(cls, lag: Mapping[str, Any], claims: Mapping[str, Any]) -> "Costs":
        """From the figures of two suites."""
        by_tables = {int(size): float(cost) / 1e3 for size, cost in claims["deltamirror postgresql"].items()}
        least, most = min(by_tables), max(by_tables)
        return cls(_parts(lag), Line.through((least, by_tables[least]), (most, by_tables[most])))


@dataclass(frozen=True, slots=True)
class World:
    """Many tables, each with its share of the commits, one at a time."""

    tables: int
    commits_a_second: float
    postgresql_cores: int

    def catalogs(self, costs: Costs) -> int:
        """Into how many catalogs its tables have to be divided, so that neither claims nor databases are the limit."""
        number = 1
        while self.commits_a_second / number > min(self._claimable(costs, number), self._ratifiable(costs)):
            number += 1
        return number

    def _claimable(self, costs: Costs, catalogs: int) -> float:
        """How many versions a second one of so many catalogs hands out, if services claim all the time."""
        return _FULL * MirrorSettings().batch_tables / costs.claim.at(self.tables / catalogs)

    def _ratifiable(self, costs: Costs) -> float:
        return _FULL * self.postgresql_cores / costs.parts[_POSTGRESQL].each

    def services(self, costs: Costs) -> int:
        """How many processes plan and record, each on less than a core."""
        return math.ceil(self.commits_a_second * costs.parts[SERVICE].each / _FULL)

    def cores(self, costs: Costs) -> dict[str, float]:
        """By part, at the share to which each may be loaded."""
        services, catalogs = self.services(costs), self.catalogs(costs)
        of = {part: catalogs if part == _POSTGRESQL else services for part in costs.parts}
        return {
            part: (line.fixed * of[part] + line.each * self.commits_a_second) / _FULL
            for part, line in costs.parts.items()
        }

    def limits(self, costs: Costs) -> dict[str, float]:
        """How many versions a second one catalog and one service can do, whichever part of them is asked."""
        return {
            "one service": _FULL / costs.parts[SERVICE].each,
            "claims of one catalog": self._claimable(costs, 1),
            f"PostgreSQL on {self.postgresql_cores} cores": self._ratifiable(costs),
        }


def _parts(lag: Mapping[str, Any]) -> dict[str, Line]:
    first, *_, last = _by_rate(lag)
    return {
        part: Line.through((first["rate"], first["cores"][part]), (last["rate"], last["cores"][part]))
        for part in first["cores"]
    }


def _by_rate(lag: Mapping[str, Any]) -> list[dict[str, Any]]:
    return sorted(lag.values(), key=lambda load: float(load["rate"]))


def check(lag: Mapping[str, Any]) -> Table:
    """What the line of the smallest and the largest load says of those between them, beside what was measured."""
    parts = _parts(lag)
    rows = [
        (
            f"{load['rate']:.0f} versions/s",
            f"{sum(line.at(load['rate']) for line in parts.values()):.2f}",
            f"{sum(load['cores'].values()):.2f}",
        )
        for load in _by_rate(lag)[1:-1]
    ]
    return Table("The model beside a load that it was not made from", ("", "cores, model", "cores, measured"), rows)


def sizing(world: World, costs: Costs) -> Table:
    """What it needs, and what would be the limit first."""
    needs = [(f"cores: {part}", f"{cores:,.0f}") for part, cores in world.cores(costs).items()]
    limits = [(f"versions/s: {part}", f"{limit:,.0f}") for part, limit in world.limits(costs).items()]
    counted = [("services", f"{world.services(costs):,}"), ("catalogs", f"{world.catalogs(costs):,}")]
    title = f"{world.tables:,} tables, {world.commits_a_second:,.0f} commits/s, by the model"
    return Table(title, ("", "at 70 % load"), [*limits, *counted, *needs])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model", description="Size a deployment.")
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--commits", type=float, default=10_000.0, help="a second, over all tables")
    parser.add_argument("--postgresql-cores", type=int, default=16, help="of the machine of one catalog")
    arguments = parser.parse_args()
    suites = Results.load().suites
    lag, claims = suites["lag"].figures, suites["claims"].figures
    world = World(arguments.tables, arguments.commits, arguments.postgresql_cores)
    print(f"{check(lag).text()}\n\n{sizing(world, Costs.measured(lag, claims)).text()}")


if __name__ == "__main__":
    main()
