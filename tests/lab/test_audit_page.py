"""The page of an audit in a real browser: by keyboard, dark, narrow, with a thousand machines."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lab import requirements
from numaforge.cli import run
from numaforge.fleet.audit.fleet import Failed, fleet_audit
from numaforge.fleet.audit.machine import audited
from numaforge.machine.topology.saved import ready_machine
from numaforge.report.audit_page import audit_page
from tests.fixtures.tables import cases

MACHINES = ("dgx-h100", "dgx-h100-busy", "dgx-h100-acs", "dgx-h100-mig", "gb200", "epyc-nps4")
MANY = 1000
FILTER_CPU_S = 0.3
"""The most CPU time of the page's thread for one character of a search among a thousand machines."""
OPEN_CPU_S = 1.5
NARROW = {"width": 320, "height": 640}
Opened = Callable[..., Page]

expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = requirements.browser()
    if program is None:
        pytest.skip(f"there is no browser: one of {', '.join(requirements.BROWSERS)}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a few machines with findings and pictures."""
    file = tmp_path_factory.mktemp("audit") / "audit.html"
    run(["audit", *MACHINES, "--to", str(file), "-q"])
    return file


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a thousand machines: one in ten has another kernel, and one in fifty was not read."""
    machine = ready_machine("dgx-h100-busy")
    usual, other = audited(machine), audited(replace(machine, kernel="7.0.0"))
    found = {f"gpu-{number:04}": other if number % 10 == 0 else usual for number in range(MANY - 20)}
    failed = {f"lost-{number:02}": Failed("no answer", True) for number in range(20)}
    file = tmp_path_factory.mktemp("large") / "audit.html"
    file.write_text(audit_page(fleet_audit(found, failed), None, ()), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Open a file as a person does, without a network; what the page complains of fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_it(file: Path, anchor: str = "", **settings: object) -> Page:
        context = browser.new_context(offline=True, **settings)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda told: complaints.append(told.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{file.as_uri()}{anchor}")
        return page

    yield open_it
    for each in contexts:
        each.close()
    assert complaints == []


def shown(page: Page) -> int:
    return page.locator("details.machine:visible").count()


def told(page: Page, count: int, of: int) -> None:
    """Wait until the page says how many machines it shows.

    Not by Page.wait_for_function: it asks again from inside the page, whose policy forbids eval.
    """
    expect(page.locator("#told")).to_have_text(f"{count} of {of} shown")


def focused(page: Page) -> str:
    """Return what has the focus: its id, else the text that it is read as."""
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))


def cpu(page: Page) -> Callable[[], float]:
    """Return what says how many seconds of CPU time the page's own thread has had."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    return read


# ---- nothing from elsewhere ----


def test_page_opened_from_a_file_requests_nothing_else(audit, browser):
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(audit.as_uri())
    for each in page.locator("img").all():
        each.scroll_into_view_if_needed()
        expect(each).to_have_js_property("complete", True)
        assert each.evaluate("image => image.naturalWidth") > 0
    assert page.locator("img").count() > 1
    assert {url for url in asked if not url.startswith("data:")} == {audit.as_uri()}
    context.close()


def test_page_reaches_no_network_even_from_a_script(audit, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(audit.as_uri())
    tried = "fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.name)"
    listen = "addEventListener('securitypolicyviolation', (event) => told(event.effectiveDirective))"
    directive = page.evaluate(f"() => new Promise((told) => {{ {listen}; {tried}; }})")
    assert directive == "connect-src"
    context.close()


def test_page_without_scripts_shows_every_finding_and_no_filter(audit, opened):
    page = opened(audit, java_script_enabled=False)
    assert shown(page) == len(MACHINES)
    assert page.locator("form.filter:visible").count() == 0
    page.locator("details.machine summary").first.click()
    assert page.locator("details.machine").first.get_attribute("open") is not None


# ---- by keyboard ----


def test_tab_key_reaches_all_controls_in_order_with_visible_focus(audit, opened):
    page = opened(audit)
    can = "a[href], button, input, select, summary"
    wanted = page.evaluate(
        f"[...document.querySelectorAll('{can}')].filter((e) => e.checkVisibility()).length"
    )
    places, outlines = [], set()
    for _ in range(wanted):
        page.keyboard.press("Tab")
        places.append(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
        outlines.add(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))
    assert places == sorted(set(places))
    assert outlines == {"solid"}


def test_focused_element_is_not_hidden_under_the_filter(large, opened):
    page = opened(large, viewport={"width": 900, "height": 600})
    page.keyboard.press("/")
    for _ in range(4):
        page.keyboard.press("Tab")  # over the three choices and the button
    hidden = []
    for _ in range(60):
        page.keyboard.press("Tab")
    for _ in range(30):  # upwards the page scrolls below what sticks to its top
        page.keyboard.press("Shift+Tab")
        hidden.append(
            page.evaluate(
                "document.activeElement.getBoundingClientRect().top"
                " < document.querySelector('form.filter').getBoundingClientRect().bottom"
            )
        )
    assert not any(hidden)


def test_slash_focuses_the_search_and_escape_clears_all_filters(audit, opened):
    page = opened(audit)
    page.keyboard.press("/")
    assert focused(page) == "search"
    page.keyboard.type("access control redirects")
    told(page, 1, len(MACHINES))
    assert shown(page) == 1
    page.keyboard.press("Escape")
    told(page, len(MACHINES), len(MACHINES))
    assert shown(page) == len(MACHINES)
    assert page.locator("#search").input_value() == ""


def test_slash_inside_a_text_field_is_typed(audit, opened):
    page = opened(audit)
    page.keyboard.press("/")
    page.keyboard.type("a/b")
    assert page.locator("#search").input_value() == "a/b"


def test_enter_opens_a_machine_and_its_finding_links_to_the_rule(audit, opened):
    page = opened(audit)
    machine = page.locator("details.machine").first
    machine.locator("summary").focus()
    page.keyboard.press("Enter")
    assert machine.get_attribute("open") is not None
    page.keyboard.press("Tab")
    rule = focused(page)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"#rule-{rule}$"))
    assert page.locator(f"#rule-{rule}").get_attribute("open") is not None


def test_choice_filters_machines_and_the_count_is_announced(audit, opened):
    page = opened(audit)
    page.locator("#state").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")  # the first state, not read, has no machine here
    expect(page.locator("#told")).not_to_have_text(re.compile(f"^{len(MACHINES)} of"))
    chosen = page.locator("#state").input_value()
    visible = page.locator("details.machine:visible").all()
    assert {each.get_attribute("data-state") for each in visible} == {chosen} == {"error"}
    assert page.locator("#told").evaluate("element => element.tagName") == "OUTPUT"  # a live region


def test_every_field_and_picture_is_labelled(audit, opened):
    page = opened(audit)
    for each in page.locator("form.filter input, form.filter select").all():
        assert each.evaluate("element => element.labels.length") == 1
    assert all(each.get_attribute("alt") for each in page.locator("img").all())
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((e) => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_url_with_a_machine_opens_that_machine(audit, opened):
    page = opened(audit, "#machine-dgx-h100-busy")
    assert page.locator("#machine-dgx-h100-busy").get_attribute("open") is not None


# ---- light and dark ----

CONTRAST = """
() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const seen = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    let opacity = 1;
    for (let each = element; each; each = each.parentElement) opacity *= getComputedStyle(each).opacity;
    const back = behind(element);
    const fore = parse(getComputedStyle(element).color).slice(0, 3)
      .map((c, i) => c * opacity + back[i] * (1 - opacity));
    const [low, high] = [light(fore), light(back)].sort((a, b) => a - b);
    seen[`${element.tagName}.${element.className}`] = (high + 0.05) / (low + 0.05);
  }
  return seen;
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(scheme, audit, opened):
    """At least 4.5 to 1, as WCAG 2 asks of text (success criterion 1.4.3)."""
    page = opened(audit, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    found = page.evaluate(CONTRAST)
    assert {what: ratio for what, ratio in found.items() if ratio < 4.5} == {}
    assert len(found) > 5


def test_page_follows_the_dark_colour_preference(audit, opened):
    backs = {
        scheme: opened(audit, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert backs == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}


# ---- narrow ----


@cases("scale", {"a-telephone": 1, "letters-twice-as-large": 2})
def test_narrow_page_does_not_scroll_sideways(scale, audit, opened):
    page = opened(audit, viewport=NARROW)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate(f"document.body.style.fontSize = '{16 * scale}px'")
    width = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] <= width[1]
    over = page.evaluate(
        "[...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && !e.closest('figure')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + '.' + e.className)"
    )
    assert over == []


def test_long_names_wrap(tmp_path, opened):
    machine = audited(ready_machine("dgx-h100-busy"))
    text = audit_page(fleet_audit({"gpu-" + "a" * 200: machine}, {}), None, ())
    (tmp_path / "audit.html").write_text(text, encoding="utf-8")
    page = opened(tmp_path / "audit.html", viewport=NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


# ---- a thousand machines ----


def test_page_of_a_thousand_machines_opens_within_its_cpu_time(large, opened, browser):
    context = browser.new_context()
    page = context.new_page()
    read = cpu(page)
    page.goto(large.as_uri())
    assert shown(page) == MANY
    assert read() < OPEN_CPU_S
    context.close()


def test_search_in_a_thousand_machines_responds_to_each_character(large, opened):
    page = opened(large)
    read = cpu(page)
    page.keyboard.press("/")
    costs = []
    for typed, count in (("g", 980), ("gpu-0", 980), ("gpu-00", 100), ("gpu-007", 10), ("gpu-0070", 1)):
        before = read()
        page.locator("#search").fill(typed)
        told(page, count, MANY)
        costs.append(read() - before)
    assert max(costs) < FILTER_CPU_S, costs
    assert shown(page) == 1


def test_choices_and_search_combine_to_filter_a_thousand_machines(large, opened):
    page = opened(large)
    page.locator("#state").select_option("not read")
    told(page, 20, MANY)
    page.locator("#search").fill("lost-07")
    told(page, 1, MANY)
    page.get_by_role("button", name="Show all").click()
    told(page, MANY, MANY)


def test_link_to_a_filtered_out_machine_shows_the_machine(large, opened):
    page = opened(large)
    page.locator("#search").fill("lost-07")
    told(page, 1, MANY)
    page.evaluate("location.hash = '#machine-gpu-0500'")
    expect(page.locator("#machine-gpu-0500")).to_have_js_property("open", True)
    assert page.locator("#machine-gpu-0500").is_visible()
