"""The page of HTML in a real browser: what it shows, hides and sorts, and that hostile names stay names."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import CallStack, Frame, Job, RankState
from mqs_dll.report import html, page_tree, tables
from mqs_dll.report.picture import picture
from mqs_dll.verdict.results import Cause, Outcome, Verdict
from tests.support.made_up_job import gone, job, rank
from tests.support.made_up_verdict import NOTED, OUTSIDE, PROVED, SUSPECTED, barrier, does, finding, verdict, wait

ASSETS = Path(html.__file__).parent
HOSTILE = "</script><img src=x onerror=alert(1)>"
TRICKY = "$data ${title} &lt; \\u003cb\\u003e \u202e \udc80 <!-- ]]>"
"""Would be taken for a placeholder, for escaped markup, or for the end of something; half a letter is in it, too."""


def needed() -> str:
    """Return what is missing on this machine, empty if nothing is."""
    if importlib.util.find_spec("selenium") is None:
        return "selenium is not installed (pip install selenium)"
    missing = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    return f"{' and '.join(missing)} not installed (apt-get install chromium chromium-driver)" if missing else ""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a headless Chromium; nothing is downloaded."""
    if needed():
        pytest.skip(needed())
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1200,900"):
        options.add_argument(f"--{argument}")
    options.add_argument("--disable-background-networking")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


class Browser:
    """A browser that shows reports."""

    def __init__(self, driver: Any, folder: Path) -> None:
        """Show nothing yet."""
        self.driver = driver
        self._file = folder / "job.html"

    def show(self, a_job: Job, a_verdict: Verdict) -> int:
        """Write the page of a job and open it; return its size in bytes."""
        size = self._file.write_bytes(html.render(a_job, a_verdict).encode())
        self.driver.get(self._file.as_uri())
        return size

    def run(self, script: str, *arguments: object) -> Any:
        """Return what a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def emulate(self, command: str, **settings: object) -> None:
        """Have the browser behave as on another machine."""
        self.driver.execute_cdp_cmd(f"Emulation.{command}", settings)

    def shown(self, kind: str) -> list[str]:
        """Return the titles of the nodes or arrows of the graph that are displayed."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .filter(group => getComputedStyle(group).display !== 'none')
            .map(group => group.querySelector('title').textContent)"""
        return list(self.run(script, f"#graph [data-{kind}]"))

    def table(self, name: str) -> list[list[str]]:
        """Return the cells of a table's rows."""
        script = "return [...document.querySelectorAll(arguments[0])].map(r => [...r.cells].map(c => c.textContent))"
        return list(self.run(script, f"#{name} tbody tr"))

    def fill(self, field: str, value: str) -> None:
        """Put a value into a field as a user does."""
        element = self.driver.find_element("id", field)
        if field == "communicator":
            (option,) = (each for each in element.find_elements("tag name", "option") if each.text == value)
            option.click()
        else:
            element.clear()
            element.send_keys(value)

    def find(self, selector: str) -> Any:
        """Return an element."""
        return self.driver.find_element("css selector", selector)


@pytest.fixture
def browser(chromium: Any, tmp_path: Path) -> Iterator[Browser]:
    """Return a browser in which nothing may go wrong unnoticed: no error, no warning, no refused request."""
    chromium.get_log("browser")
    yield Browser(chromium, tmp_path)
    assert chromium.get_log("browser") == []


def halo_job() -> tuple[Job, Verdict]:
    """Return ranks 0-2 in a circle on 'halo', rank 3 behind them in a barrier, and rank 4 that may go on."""
    waits = (
        wait(0, 1, on=1, name="halo", tag=7),
        wait(1, 2, on=1, name="halo", tag=None, any_tag=True),
        wait(2, 0, on=1, name="halo", tag=8),
        barrier(3, (0,)),
        wait(4, 3, tag=9, certainty=NOTED),
    )
    circle = finding("Each of ranks [0-2] waits for the next.", 0, 1, 2, advice="Receive in another order.")
    behind = finding("Rank 3 waits behind them.", 3, cause=Cause.BEHIND, certainty=SUSPECTED)
    activities = [does(), does(), does(), does("MPI_Barrier", SUSPECTED), does(certainty=NOTED, where="io.c:7")]
    found = verdict(
        activities,
        *waits,
        findings=[circle, behind],
        communicators=[("halo", (0, 1, 2))],
        headline="Stuck for good: a circle of three.",
    )
    return job(*(rank(number) for number in range(5)), title="mpiexec -n 5 ./halo"), found


# ---------------------------------------------------------------- what is on the page


def test_the_verdict_is_on_top_with_the_findings_and_what_to_do(browser: Browser) -> None:
    """Outcome, headline, findings with their advice; the job's own facts are there too."""
    browser.show(*halo_job())
    header = browser.find("header")
    assert header.text.splitlines() == ["STUCK FOR GOOD:", "a circle of three."]
    assert header.get_attribute("class") == "verdict proved"
    assert [item.text.splitlines() for item in browser.driver.find_elements("css selector", ".finding")] == [
        ["Proved: cycle", "Each of ranks [0-2] waits for the next.", "Receive in another order."],
        ["Suspected: waits behind a stuck rank", "Rank 3 waits behind them."],
    ]
    assert browser.driver.title == "Stuck for good: a circle of three."
    assert "mpiexec -n 5 ./halo" in browser.find("dl").text


def test_the_graph_has_the_nodes_and_arrows_of_the_picture(browser: Browser) -> None:
    """Each is displayed, and each arrow says what it is."""
    a_job, found = halo_job()
    drawn = picture(a_job, found)
    browser.show(a_job, found)
    assert browser.shown("node") == [", ".join((node.title, *node.lines)) for node in drawn.nodes]
    assert browser.shown("arrow") == [", ".join(arrow.lines()) for arrow in drawn.arrows]


def test_certainty_shows_in_colours_and_in_line_styles(browser: Browser) -> None:
    """Proved, suspected and fine differ in black and white too; the legend has the same lines."""
    waits = [wait(0, 1, certainty=certainty) for certainty in (PROVED, SUSPECTED, NOTED)]
    browser.show(job(rank(0), rank(1)), verdict([does(), OUTSIDE], *waits))
    script = """return [...document.querySelectorAll(arguments[0])].map(getComputedStyle)
        .map(style => [style.stroke, style.strokeDasharray, style.strokeWidth])"""
    lines = browser.run(script, "#graph .line")
    assert len({colour for colour, _, _ in lines}) == len({dashes for _, dashes, _ in lines}) == 3
    assert browser.run(script, ".legend .line") == lines


def test_every_text_lies_within_its_box(browser: Browser) -> None:
    """The layout, which guesses how wide a text is, leaves enough room for it."""
    activities = [does(where="the_longest_name_of_a_file_of_all.f90:1234"), does("MPI_Neighbor_alltoallw_init")]
    browser.show(job(rank(0), rank(1)), verdict(activities, wait(0, 1)))
    script = """return [...document.querySelectorAll('#graph [data-node]')].filter(node => {
        const box = node.querySelector('.box').getBoundingClientRect();
        return [...node.querySelectorAll('text')].map(text => text.getBoundingClientRect())
            .some(text => text.left < box.left || text.right > box.right || text.bottom > box.bottom);
    }).length"""
    assert browser.run(script) == 0


def test_the_tables_say_who_waits_and_what_each_rank_does(browser: Browser) -> None:
    """Ranks that do the same share a row."""
    browser.show(*halo_job())
    assert browser.table("waits")[1] == ["1", "MPI_Recv", "2", "any", "'halo'", "8", "proved: can't end"]
    assert browser.table("activities")[0][:4] == ["[0-2]", "in MPI_Recv", "stuck: proved", "solver.c:42"]
    assert [row[:4] for row in browser.table("communicators")] == [
        ["MPI_COMM_WORLD", "0x1", "5", "[0-4]"],
        ["halo", "0x2", "3", "[0-2]"],
    ]


def test_what_findings_are_about_comes_first_in_the_tables(browser: Browser) -> None:
    """The ranks of the gravest finding, then those of others, then the rest, whatever their numbers."""
    found = [finding("", 3), finding("", 1, cause=Cause.BEHIND)]
    waits = [wait(place, 0, tag=place) for place in range(1, 4)]
    activities = [does(where=f"solver.c:{place}") for place in range(4)]
    browser.show(job(*(rank(number) for number in range(4))), verdict(activities, *waits, findings=found))
    assert [row[0] for row in browser.table("waits")] == ["3", "1", "2"]
    assert [row[0] for row in browser.table("activities")] == ["3", "1", "0", "2"]


def test_what_two_findings_are_about_comes_with_the_graver_one() -> None:
    """Though the other one comes behind all else."""
    read = job(*(rank(number) for number in range(6)))
    named = [finding("wrong", place, cause=Cause.TAG) for place in (5, 3, 5)]
    activities = [does(where=f"solver.c:{number}") for number in range(6)]
    rows = tables.activities(read, verdict(activities, findings=named), tables.ProcessSets()).rows
    assert [row[0] for row in rows] == ["5", "3", "0", "1", "2", "4"]


def test_ranks_with_the_same_wait_share_a_row(browser: Browser) -> None:
    """A barrier is one line, whom it waits for included."""
    peers = (3, 4)
    browser.show(
        job(*(rank(number) for number in range(5))),
        verdict([*[does("MPI_Barrier")] * 3, OUTSIDE, OUTSIDE], *(barrier(place, peers) for place in range(3))),
    )
    assert browser.table("waits") == [
        ["[0-2]", "MPI_Barrier", "[3-4]", "", "MPI_COMM_WORLD", "", "proved: can't end"],
    ]


def test_communicators_of_one_process_are_listed_only_where_somebody_waits_on_them(browser: Browser) -> None:
    """Every rank has an MPI_COMM_SELF; a sentence says how many are left out."""
    alone = [("MPI_COMM_SELF", (place,)) for place in range(3)]
    browser.show(
        job(rank(0), rank(1), rank(2)),
        verdict([does()] * 3, wait(1, 1, on=2, name="MPI_COMM_SELF"), communicators=alone),
    )
    assert [row[::3] for row in browser.table("communicators")] == [["MPI_COMM_WORLD", "[0-2]"], ["MPI_COMM_SELF", "1"]]
    assert "2 communicators of one process each, on which nobody waits" in browser.find("main").text
    browser.fill("communicator", "'MPI_COMM_SELF'")
    assert [row[3] for row in browser.table("communicators")] == ["1"]


def test_ranks_that_were_not_read_are_a_warning_above_all_else(browser: Browser) -> None:
    """It says how many, which, why and the remedy: such a rank may be what all others wait for."""
    unread = rank(1, state=RankState.UNREADABLE, why="it is another user's", remedy="run mqs as root")
    browser.show(job(rank(0), unread, gone(2)), verdict([does(), *[does(None, None)] * 2], wait(0, 1)))
    assert browser.find("main > *").text.splitlines() == [
        "1 of 3 ranks could not be read: they may wait or compute",
        "rank 1: it is another user's",
        "run mqs as root",
    ]


def test_each_outcome_has_a_word_a_colour_and_a_symbol(browser: Browser) -> None:
    """No two outcomes are alike, with colours or without; the words start the headline."""
    looks = []
    for outcome in Outcome:
        browser.show(job(rank(0)), verdict([OUTSIDE], outcome=outcome, headline=f"{outcome.name}: so."))
        colour = browser.run("return getComputedStyle(document.querySelector('.word')).color")
        symbol = browser.run("return document.querySelector('.symbol').innerHTML")
        looks.append((browser.find(".word").text, colour, symbol))
    assert [len({*parts}) for parts in zip(*looks, strict=True)] == [4, 4, 4]


# ---------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("field", "value", "arrows", "nodes", "doing"),
    [
        ("communicator", "'halo'", 3, ["rank 0", "rank 1", "rank 2"], ["[0-2]"]),
        ("communicator", "MPI_COMM_WORLD", 2, ["rank 0", "rank 3", "rank 4"], ["3", "4"]),
        ("tag", "7", 2, ["rank 0", "rank 1", "rank 2"], ["[0-2]"]),
        ("tag", "8-9", 3, ["rank 0", "rank 1", "rank 2", "rank 3", "rank 4"], ["[0-2]", "4"]),
        ("rank", "4", 1, ["rank 3", "rank 4"], ["4"]),
        ("rank", "[1-2]", 3, ["rank 0", "rank 1", "rank 2"], ["[0-2]"]),
        ("rank", "0-4:2", 5, ["rank 0", "rank 1", "rank 2", "rank 3", "rank 4"], ["[0-2]", "4"]),
    ],
)
def test_a_filter_acts_on_graph_and_tables_alike(
    browser: Browser, field: str, value: str, arrows: int, nodes: list[str], doing: list[str]
) -> None:
    """What has nothing to do with it goes away; a receive of any tag stays when a tag is asked for."""
    browser.show(*halo_job())
    browser.fill(field, value)
    assert len(browser.shown("arrow")) == arrows
    assert [title.partition(",")[0] for title in browser.shown("node")] == nodes
    assert len(browser.table("waits")) == arrows
    assert [row[0] for row in browser.table("activities")] == doing
    assert browser.find("#shown").text == f"{arrows} of 5 rows of waits"


def test_communicators_with_the_same_name_can_be_distinguished(browser: Browser) -> None:
    """The parts of a split are offered with their ranks; what isn't known can be chosen, too."""
    rows = [("rows", (0, 1)), ("rows", (2, 3))]
    waits = [wait(0, 1, on=1, name="rows"), wait(2, 3, on=2, name="rows"), wait(1, 0, on=None, name=None)]
    browser.show(job(*(rank(number) for number in range(4))), verdict([does()] * 4, *waits, communicators=rows))
    found = {}
    for option in ("'rows' of [0-1]", "'rows' of [2-3]", "not known"):
        browser.fill("communicator", option)
        found[option] = [row[0] for row in browser.table("waits")]
    assert found == {"'rows' of [0-1]": ["0"], "'rows' of [2-3]": ["2"], "not known": ["1"]}


def test_filters_combine_and_can_be_undone(browser: Browser) -> None:
    """What is shown passes all of them; the button brings everything back."""
    browser.show(*halo_job())
    browser.fill("communicator", "'halo'")
    browser.fill("rank", "1")
    browser.fill("tag", "7")
    assert [row[0] for row in browser.table("waits")] == ["0", "1"]
    browser.find("button[type=reset]").click()
    assert (
        browser.run("return new Promise(done => setTimeout(() => done(document.querySelectorAll('.away').length)))")
        == 0
    )
    assert len(browser.table("waits")) == 5


def test_a_filter_that_cannot_be_understood_says_so_and_hides_nothing(browser: Browser) -> None:
    """A field that is wrong is marked for eyes and for screen readers."""
    browser.show(*halo_job())
    browser.fill("rank", "three")
    assert browser.find("#rank").get_attribute("aria-invalid") == "true"
    assert len(browser.shown("arrow")) == 5


def test_ranks_of_spawned_worlds_are_found_by_their_own_numbers(browser: Browser) -> None:
    """Processes are filtered by rank, not by their place in the job."""
    a_job = job(rank(0), rank(1), rank(1, world=1))
    browser.show(a_job, verdict([does()] * 3, wait(0, 1), wait(2, 0)))
    browser.fill("rank", "2")
    assert browser.shown("arrow") == []
    browser.fill("rank", "1")
    assert len(browser.shown("arrow")) == 2


def test_a_column_can_be_sorted_as_numbers_are(browser: Browser) -> None:
    """A click sorts, another one turns it around, and the heading says so."""
    waits = [wait(place, 0, tag=tag) for place, tag in enumerate((10, 9, 100))]
    browser.show(job(*(rank(number) for number in range(3))), verdict([does()] * 3, *waits))
    tag = browser.find("#waits th:nth-child(4)")
    for order, tags in (("ascending", ["9", "10", "100"]), ("descending", ["100", "10", "9"])):
        tag.find_element("tag name", "button").click()
        assert [row[3] for row in browser.table("waits")] == tags
        assert tag.get_attribute("aria-sort") == order


# ---------------------------------------------------------------- keyboard, mouse, media


def test_the_graph_can_be_moved_and_filtered_with_the_keyboard(browser: Browser) -> None:
    """Plus, minus and arrows move it, 0 brings it back, and Enter on a rank filters by it."""
    from selenium.webdriver.common.keys import Keys

    browser.show(*halo_job())
    graph = browser.find("#graph")
    views = [graph.get_dom_attribute("viewBox")]
    for key in ("+", Keys.ARROW_RIGHT, Keys.ARROW_DOWN, "-", "0"):
        graph.send_keys(key)
        views.append(graph.get_dom_attribute("viewBox"))
    assert all(one != other for one, other in pairwise(views))
    assert views[-1] == views[0]
    browser.find("[data-node='4']").send_keys(Keys.ENTER)
    assert browser.find("#rank").get_attribute("value") == "4"
    assert len(browser.shown("arrow")) == 1


def test_dark_mode_and_paper_have_styles_of_their_own(browser: Browser) -> None:
    """A dark page where that is preferred; on paper no filters, and the graph whole."""
    browser.show(*halo_job())
    background = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(background)
    browser.emulate("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = browser.run(background)
    browser.emulate("setEmulatedMedia", media="print")
    printed = browser.find("#filters").is_displayed(), browser.find("#graph").is_displayed()
    browser.emulate("setEmulatedMedia", media="")
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(22, 22, 26)")
    assert printed == (False, True)


def test_a_narrow_screen_needs_no_scrolling_sideways(browser: Browser) -> None:
    """Tables and graph scroll within themselves."""
    browser.emulate("setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=True)
    browser.show(*halo_job())
    width = browser.run("return document.documentElement.scrollWidth")
    browser.emulate("clearDeviceMetricsOverride")
    assert width <= 360


@pytest.mark.parametrize("scheme", [0, 1])
def test_all_text_has_enough_contrast(scheme: int) -> None:
    """At least 4.5 to 1, what WCAG 2 asks for, on every background, in the light and in the dark."""
    css = (ASSETS / "page.css").read_text(encoding="utf-8")
    block = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[scheme]
    colours = {name: luminance(colour) for name, colour in re.findall(r"--(\w+): #(\w{6});", block)}
    backgrounds = [colours.pop(name) for name in ("page", "card", "box")]
    del colours["rule"], colours["focus"]  # no text
    for name, colour in colours.items():
        for background in backgrounds:
            bright, dim = max(colour, background), min(colour, background)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, name


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour of sRGB, as WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_graph_is_drawn_in_several_colours(browser: Browser) -> None:
    """A screenshot of it isn't blank."""
    browser.show(*halo_job())
    assert len({*pixels(browser.find("#graph").screenshot_as_png)}) > 20


def pixels(png: bytes) -> Iterator[bytes]:
    """Yield what a PNG of 8 bits a channel has for each pixel: not its colour, but the same for blank ones."""
    place, data, channels = 8, b"", 4
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        kind, content = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, channels = struct.unpack_from(">I", content)[0], {2: 3, 6: 4}[content[9]]
        elif kind == b"IDAT":
            data += content
        place += length + 12
    lines = zlib.decompress(data)
    row = width * channels + 1
    for start in range(0, len(lines), row):
        for pixel in range(start + 1, start + row, channels):
            yield lines[pixel : pixel + channels]


# ---------------------------------------------------------------- nothing but the page, whatever names are in it


def hostile_job() -> tuple[Job, Verdict]:
    """Return a job in which every text wants to be more than text."""
    names = (HOSTILE, TRICKY)
    ranks = [rank(0, program=HOSTILE, host=TRICKY), rank(1, state=RankState.UNREADABLE, why=HOSTILE, remedy=TRICKY)]
    found = verdict(
        [does(HOSTILE, where=TRICKY), does(None, None, phrase=TRICKY, where=HOSTILE)],
        wait(0, 1, what=HOSTILE, on=1, name=HOSTILE),
        wait(0, 1, what=TRICKY, on=2, name=TRICKY),
        findings=[finding(name, 0, 1, advice=name) for name in names],
        communicators=[(name, (0, 1)) for name in names],
        headline=f"{HOSTILE}: {TRICKY}",
    )
    return job(*ranks, title=HOSTILE, mpi=TRICKY), found


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_names_are_shown_as_text(browser: Browser, scripts: bool) -> None:
    """They make no element and run no script, in the page as it is and in what its script writes."""
    browser.emulate("setScriptExecutionDisabled", value=not scripts)
    browser.show(*hostile_job())
    elements = len(browser.driver.find_elements("css selector", "img, [onerror], script:not([id]) ~ *"))
    headline = browser.find("h1").text
    names = [cell.text for cell in browser.driver.find_elements("css selector", "#communicators td:first-child")]
    advice = [each.text for each in browser.driver.find_elements("css selector", ".finding .advice")]
    browser.emulate("setScriptExecutionDisabled", value=False)
    assert elements == 0
    assert headline.splitlines() == [HOSTILE.upper() + ":", visible(TRICKY)]
    assert names == ["MPI_COMM_WORLD", HOSTILE, visible(TRICKY)]
    assert advice == [HOSTILE, visible(TRICKY)]


def test_the_data_for_the_script_cannot_end_its_element() -> None:
    """The JSON has no character that HTML knows."""
    page = html.render(*hostile_job())
    (data,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', page)
    assert not {*"<>&"} & {*data}
    assert data.isascii()


def test_a_node_whose_ranks_are_not_known_filters_by_none() -> None:
    """A process that only its PID names is found by no rank: to filter by those of the others would leave it out."""
    read = job(rank(0), rank(None, pid=4711))
    (data,) = re.findall(r'id="data">(.*)</script>', html.render(read, verdict([OUTSIDE, does()])))
    assert json.loads(data)["node_ranks"] == ["0", None]


def test_processes_of_several_nodes_are_not_named_by_numbers() -> None:
    """A PID is one node's: on another it is another process."""
    read = job(rank(0, pid=7), rank(1, pid=8), rank(2, pid=7, host="node1"))
    (row,) = tables.activities(read, verdict([does()] * 3), tables.ProcessSets()).rows
    (alone,) = tables.activities(job(rank(0, pid=7), rank(1, pid=8)), verdict([does()] * 2), tables.ProcessSets()).rows
    assert (row[-1], alone[-1]) == ("", "[7-8]")


def test_the_page_asks_for_nothing_else(browser: Browser) -> None:
    """No request leaves the page, and its policy forbids all of them."""
    browser.show(*hostile_job())
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    policy = browser.run("return document.querySelector('meta[http-equiv]').content")
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; base-uri 'none'; form-action 'none'",
        policy,
    )


def test_without_scripts_the_verdict_the_graph_and_the_tables_are_there(browser: Browser) -> None:
    """What scripts do isn't offered: no filters."""
    browser.emulate("setScriptExecutionDisabled", value=True)
    browser.show(*halo_job())
    displayed = {
        name: browser.find(name).is_displayed() for name in ("h1", "#graph", "#waits td", "#filters", "#tools")
    }
    rows = len(browser.driver.find_elements("css selector", "#waits tbody tr"))
    browser.emulate("setScriptExecutionDisabled", value=False)
    assert displayed == {"h1": True, "#graph": True, "#waits td": True, "#filters": False, "#tools": False}
    assert rows == 5


def test_a_job_without_a_single_process_has_a_page(browser: Browser) -> None:
    """Where nothing was found there is the verdict, and no error of a script."""
    browser.show(job(), verdict([], outcome=Outcome.NOT_READ, headline="Nothing can be said: there is no rank."))
    assert browser.find("header").get_attribute("class") == "verdict unread"
    assert browser.shown("node") == []


# ---------------------------------------------------------------- the call tree


def called(*functions: str) -> list[CallStack]:
    """Return the stack of a thread in functions from main inwards, the last of which is an MPI function."""
    frames = [Frame(each, "solver", "/src/halo.c", 7) for each in reversed(functions)]
    return [CallStack(1, functions[-1], frames[-1], None, tuple(frames), "", in_call=1, complete=True)]


def parted_job() -> tuple[Job, Verdict]:
    """Return three ranks that exchange and one that writes."""
    ranks = [rank(number, stacks=called("main", "exchange", "MPI_Recv")) for number in range(3)]
    other = rank(3, stacks=called("main", "write", "MPI_Barrier"))
    return job(*ranks, other), verdict([does()] * 4, wait(0, 1), wait(3, 0))


def places(browser: Browser) -> list[str]:
    """Return the functions of the tree that are to be seen."""
    found = browser.driver.find_elements("css selector", "#tree .function")
    return [each.text for each in found if each.is_displayed()]


def test_the_call_tree_opens_and_closes(browser: Browser) -> None:
    """A branch by a click, all of them by buttons; it needs no script to open one."""
    whole = ["main", "exchange", "MPI_Recv", "write", "MPI_Barrier"]
    browser.show(*parted_job())
    assert places(browser) == whole
    browser.find("#close").click()
    assert places(browser) == ["main"]
    browser.find("#tree summary .function").click()
    assert places(browser) == ["main", "exchange", "write"]
    browser.find("#open").click()
    assert places(browser) == whole
    browser.emulate("setScriptExecutionDisabled", value=True)
    browser.show(*parted_job())
    shown, tools = places(browser), browser.find("#tree-tools").is_displayed()
    browser.emulate("setScriptExecutionDisabled", value=False)
    assert (shown, tools) == (whole, False)


def test_a_search_leaves_the_branches_that_have_it(browser: Browser) -> None:
    """With what leads to them, marked, also where they were closed; a line is found as well as a function."""
    browser.show(*parted_job())
    browser.find("#close").click()
    browser.fill("search", "barr")
    assert places(browser) == ["main", "write", "MPI_Barrier"]
    assert [each.text for each in browser.driver.find_elements("css selector", "#tree .hit")] == [
        "MPI_Barrier halo.c:7"
    ]
    assert browser.find("#found").text == "found in 1 of 3 branches"
    browser.fill("search", "no such")
    assert places(browser) == []
    browser.fill("search", "")
    browser.fill("search", "HALO.C:7")
    assert browser.find("#found").text == "found in 2 of 3 branches"


def test_the_filter_by_rank_acts_on_the_call_tree_and_is_set_by_it(browser: Browser) -> None:
    """A click on ranks filters graph and tables by them."""
    browser.show(*parted_job())
    browser.fill("rank", "3")
    assert places(browser) == ["main", "write", "MPI_Barrier"]
    browser.fill("rank", "1")
    assert places(browser) == ["main", "exchange", "MPI_Recv"]
    browser.find("button[type=reset]").click()
    (button,) = (each for each in browser.driver.find_elements("css selector", ".who") if each.text == "ranks [0-2]")
    button.click()
    assert browser.find("#rank").get_property("value") == "0-2"
    assert places(browser) == ["main", "exchange", "MPI_Recv"]
    assert [title.partition(",")[0] for title in browser.shown("node")] == ["rank 0", "ranks [1-2]", "rank 3"]


def test_hostile_functions_are_text_in_the_call_tree(browser: Browser) -> None:
    """Whatever a symbol is called, it makes no element."""
    browser.show(job(rank(0, stacks=called("main", HOSTILE, TRICKY))), verdict([does()]))
    assert places(browser) == ["main", HOSTILE, visible(TRICKY)]
    assert browser.driver.find_elements("css selector", "#tree img") == []


def test_branches_that_are_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that no browser can show helps nobody."""
    monkeypatch.setattr(page_tree, "MAX_BRANCHES", 2)
    assert "1 more branches are left out; --tree prints them." in html.render(*parted_job())


# ---------------------------------------------------------------- large jobs


def large_job(count: int) -> tuple[Job, Verdict]:
    """Return a job in which each rank waits for two neighbours, on which nothing can be merged in tables."""
    waits = (wait(place, (place + step) % count, tag=step + 1) for place in range(count) for step in (-1, 1))
    return job(*(rank(number) for number in range(count))), verdict([does("MPI_Waitall")] * count, *waits)


def test_ten_thousand_ranks_make_a_page_that_works(browser: Browser) -> None:
    """It has some megabytes, shows the first rows, and finds the others."""
    assert browser.show(*large_job(10_000)) < 4_000_000
    assert len(browser.table("waits")) == 50
    browser.fill("rank", "5000")
    assert [row[0] for row in browser.table("waits")] == ["4999", "5000", "5000", "5001"]
    assert len(browser.shown("node")) == 1


def test_rows_beyond_the_first_are_shown_when_asked_for(browser: Browser) -> None:
    """The button says how many there are, and goes away."""
    browser.show(*large_job(60))
    more = browser.find("#waits-more")
    assert (len(browser.table("waits")), more.text) == (50, "Show all 120 rows")
    more.click()
    assert (len(browser.table("waits")), more.is_displayed()) == (120, False)


def test_rows_that_are_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes missing without a sentence."""
    monkeypatch.setattr(tables, "MAX_ROWS", 20)
    page = html.render(*large_job(60))
    assert "100 more rows are left out of this page; --csv and --json have them all." in page
