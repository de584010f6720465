"""The status page in a real browser: looked at, operated, by keyboard alone, and by the rules of accessibility."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from deltamirror import Catalog
from deltamirror.txnlog.alerts import silence
from tests.support.interfaces.status_pages import FIRING, Served, served
from tests.support.lakes.lake import add, execute, opened
from tests.support.mirrors.local import mirror_of

expect.set_options(timeout=60_000)

pytestmark = [pytest.mark.requirement("R60"), pytest.mark.slow]


@pytest.fixture(scope="module")
def page_of(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Thirty tables: most are in step, one fails, one is quarantined; and a store whose circuit is open."""
    folder = tmp_path_factory.mktemp("lake")
    shutil.copy(made_catalogs / "lake.db", folder)
    with opened(f"sqlite:///{folder / 'lake.db'}") as lake:
        _fill(lake, folder)
        with served(lake, refresh=3600.0) as found:
            yield found


def _fill(lake: Catalog, folder: Path) -> None:
    for name in ("sales.orders", "sales.failing", "sales.stopped", *(f"web.t{number:02}" for number in range(27))):
        lake.create_table(name, location=str(folder / name), schema="id long")
    for name in ("sales.orders", "sales.failing"):
        lake.table(name).append([add("a")])
    with mirror_of(lake, checkpoint_interval=1) as engine:
        engine.run(once=True)
    (folder / "sales.failing").rename(folder / "aside")
    (folder / "sales.failing").write_text("in the way")
    lake.table("sales.failing").append([add("b")])
    with mirror_of(lake) as engine:
        engine.run(once=True)
    quarantine = (
        "UPDATE dl_tables SET quarantined_at = created_at, quarantine_reason = 'other bytes' WHERE name = :name"
    )
    execute(lake, quarantine, name="sales.stopped")
    execute(
        lake,
        "INSERT INTO dl_breakers (store, state, failures, successes, changed_at, retry_at, error_code, error_message)"
        " VALUES ('s3://lake', 'open', 7, 0, 1700000000000, 1700000060000, 'unavailable', 'refused')",
    )
    for scope, subject in (("table", "sales.failing"), ("store", "s3://lake")):
        execute(lake, FIRING, rule="lag-critical", scope=scope, subject=subject, cause="305 s behind")
    silence(lake.database, seconds=86_400, reason="known", author="eve", subject="s3://lake")


@pytest.fixture
def page(chromium: Browser, page_of: Served) -> Iterator[Page]:
    """A window with the overview, which stays as it is."""
    with window(chromium, page_of) as found:
        yield found


@pytest.fixture
def live_page(chromium: Browser, page_of: Served) -> Iterator[Page]:
    """A window with the overview, which asks for what is new five times a second."""
    with served(page_of.catalog, refresh=0.2) as live, window(chromium, live) as found:
        yield found


@contextmanager
def window(chromium: Browser, shown: Served) -> Iterator[Page]:
    """A window with the overview; what a page complains about fails the test."""
    context = chromium.new_context(base_url=shown.url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
    page.goto("/")
    yield page
    context.close()
    assert complaints == []


def sign_in(page: Page, served_page: Served, name: str = "ada") -> None:
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Token").fill(served_page.token(name))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text(name, exact=True)).to_be_visible()


def test_the_overview_leads_to_tables_and_failures(page: Page) -> None:
    attention = page.get_by_role("region", name="Needs attention")
    expect(attention.get_by_role("listitem")).to_have_count(2)
    expect(attention).to_contain_text("move away what is in the place of the table's folder")
    expect(page.get_by_role("region", name="Circuits")).to_contain_text("Open")
    expect(page.get_by_text("30 tables, page 1 of 2")).to_be_visible()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("30 tables, page 2 of 2")).to_be_visible()
    page.get_by_label("Name contains").fill("ORD")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#tables tbody tr")).to_have_count(1)
    page.get_by_role("link", name="sales.orders").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sales.orders")
    expect(page.get_by_role("img", name=re.compile("From commit to visible"))).to_be_visible()
    expect(page.get_by_role("region", name="Checkpoints")).to_contain_text("interval of 1 versions")
    page.goto("/tables/sales.failing")
    page.locator("#versions").get_by_role("link", name="invalid-location").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sales.failing, version 2")
    expect(page.get_by_role("listitem")).to_contain_text("is a file")


def test_commits_show_up_by_themselves_and_keep_the_focus(live_page: Page, page_of: Served) -> None:
    page = live_page
    page.get_by_label("Name contains").fill("half typed")
    link = page.locator("#tables").get_by_role("link", name="web.t00")
    link.focus()
    page_of.catalog.table("web.t00").append([add("new")])
    row = page.locator("#tables tbody tr", has_text="web.t00")
    expect(row).to_contain_text("Behind")
    expect(link).to_be_focused()
    expect(page.get_by_role("status")).to_contain_text("2 versions to publish")
    expect(page.get_by_label("Name contains")).to_have_value("half typed")
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "false")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(600)  # three periods in which nothing may be asked
    assert asked == []


def test_a_page_says_when_it_is_not_up_to_date(live_page: Page) -> None:
    page = live_page
    page.route("**/*", lambda route: route.abort())
    expect(page.get_by_role("status")).to_contain_text("Not up to date")
    page.unroute_all()
    expect(page.get_by_role("status")).to_contain_text("Up to date again")


def test_an_operator_pauses_and_resumes(page: Page, page_of: Served) -> None:
    page.goto("/tables/sales.orders")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    sign_in(page, page_of)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("sales.orders is paused")).to_be_visible()
    expect(page.locator("#state .badge")).to_have_text("Paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#state .badge")).to_have_text("In step")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()


def test_the_error_budget_is_shown_of_all_tables_and_of_one(page: Page) -> None:
    for path in ("/", "/tables/sales.orders"):
        page.goto(path)
        level = page.get_by_role("region", name="Service level")
        expect(level.get_by_role("row")).to_have_count(4)
        expect(level).to_contain_text("% left")


def test_an_operator_silences_an_alert_and_ends_that(page: Page, page_of: Served) -> None:
    alerts = page.get_by_role("region", name="Alerts")
    expect(alerts).to_contain_text("known")
    expect(alerts.get_by_role("link")).to_have_count(0)
    sign_in(page, page_of)
    expect(alerts.get_by_role("link", name="lag-critical", exact=True)).to_be_visible()
    alerts.get_by_role("link", name="Silence lag-critical of sales.failing").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Silence rule lag-critical of sales.failing")
    page.get_by_label("For", exact=True).select_option("4h")
    page.get_by_label("Reason, for the others").fill("moving the folder")
    page.get_by_role("button", name="Silence").click()
    expect(page.get_by_text("no notification is sent")).to_be_visible()
    mine = alerts.get_by_role("listitem").filter(has_text="moving the folder")
    expect(mine).to_contain_text("by ada")
    mine.get_by_role("button", name="End").click()
    expect(page.get_by_text("No longer silenced: rule lag-critical of sales.failing.")).to_be_visible()
    expect(mine).to_have_count(0)


def test_everything_can_be_done_by_keyboard(page: Page, page_of: Served) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, "Name contains")
    page.keyboard.type("web.t01")
    page.keyboard.press("Enter")
    expect(page.locator("#tables tbody tr")).to_have_count(1)
    tab_to(page, "web.t01")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("web.t01")
    tab_to(page, "Sign in")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    tab_to(page, "Token")
    page.keyboard.type(page_of.token())
    page.keyboard.press("Enter")
    expect(page.get_by_text("ada", exact=True)).to_be_visible()
    tab_to(page, "Pause")
    page.keyboard.press("Enter")
    expect(page.get_by_text("web.t01 is paused")).to_be_visible()


def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has this name has the focus, and is seen to have it."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate(_FOCUSED) == name:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"{name} is not reached")


_FOCUSED = """() => {
    const at = document.activeElement;
    return (at.labels?.[0]?.textContent ?? at.textContent ?? "").trim();
}"""


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.elsewhere), "dark"])
def test_the_rules_of_accessibility_are_kept(
    chromium: Browser, page_of: Served, scheme: Literal["light", "dark"]
) -> None:
    paths = (
        *("", "tables/sales.orders", "tables/sales.failing", "tables/sales.failing/failures/2", "sign-in", "none"),
        "tables/sales.failing/silence?rule=lag-critical",
    )
    context = chromium.new_context(base_url=page_of.url, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto("/")
    sign_in(page, page_of)
    # What a scheme changes, its colours, does not depend on the width.
    for width in (1280, 390) if scheme == "light" else (1280,):
        page.set_viewport_size({"width": width, "height": 844})
        for path in paths:
            page.goto(f"/{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            found = Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"
    context.close()
