"""The model of a larger world follows from costs that were measured."""

import pytest

from benchmarks.model import Costs, Line, World, check, sizing

pytestmark = pytest.mark.requirement("R91")

LAG = {
    "20": {"rate": 20.0, "cores": {"service": 0.1, "PostgreSQL": 0.05}},
    "50": {"rate": 50.0, "cores": {"service": 0.2, "PostgreSQL": 0.12}},
    "100": {"rate": 100.0, "cores": {"service": 0.34, "PostgreSQL": 0.21}},
}
CLAIMS = {"deltamirror postgresql": {"1000": 1.0, "101000": 101.0}}


@pytest.mark.parametrize(
    ("points", "line"),
    [
        (((10, 2.0), (20, 3.0)), Line(1.0, 0.1)),
        (((10, 1.0), (20, 3.0)), Line(0.0, 0.2)),  # cheaper still at nothing than nothing
        (((10, 3.0), (20, 2.0)), Line(0.0, 0.1)),  # it grows with nothing that was measured: take the worst
    ],
)
def test_a_cost_is_a_line_and_never_below_nothing(
    points: tuple[tuple[float, float], tuple[float, float]], line: Line
) -> None:
    found = Line.through(*points)
    assert (found.fixed, found.each) == pytest.approx((line.fixed, line.each))


def test_a_catalog_is_divided_until_neither_claims_nor_the_database_are_the_limit() -> None:
    costs = Costs.measured(LAG, CLAIMS)
    few = World(tables=1_000, commits_a_second=100.0, postgresql_cores=16)
    many = World(tables=100_000, commits_a_second=10_000.0, postgresql_cores=16)
    assert few.catalogs(costs) == 1
    number = many.catalogs(costs)
    assert number > 1
    apart = World(many.tables // number, many.commits_a_second / number, many.postgresql_cores)
    assert apart.catalogs(costs) == 1
    assert apart.commits_a_second <= min(
        apart.limits(costs)[name] for name in apart.limits(costs) if name != "one service"
    )


def test_services_and_cores_follow_the_rate() -> None:
    costs = Costs.measured(LAG, CLAIMS)
    world = World(tables=1_000, commits_a_second=1_000.0, postgresql_cores=16)
    assert costs.parts["service"].each == pytest.approx(0.003)
    assert world.services(costs) == 5  # 3 cores, each of them at 70 %
    assert world.cores(costs)["service"] == pytest.approx((3.0 + 5 * 0.04) / 0.7)


def test_a_load_that_the_model_was_not_made_from_is_shown_beside_it() -> None:
    [row] = check(LAG).rows
    assert row == ("50 versions/s", "0.30", "0.32")


def test_what_is_the_limit_first_is_in_the_table() -> None:
    table = sizing(World(100_000, 10_000.0, 16), Costs.measured(LAG, CLAIMS))
    cells = {name: cell for name, cell in table.rows}  # noqa: C416 - rows are sequences
    assert cells["versions/s: claims of one catalog"] == "448"
    assert cells["versions/s: one service"] == "233"
