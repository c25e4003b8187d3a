"""The graph of who waits for whom: what is drawn as one, what never is, and that DOT and SVG say the same."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import combinations
from xml.etree import ElementTree

import pytest

from mqs_dll.job.records import Job, RankState
from mqs_dll.report import dot, svg
from mqs_dll.report.drawing import draw, size_of
from mqs_dll.report.layout import layout
from mqs_dll.report.layout.boxes import Edge, Point, Size
from mqs_dll.report.picture import MAX_ARROWS, Picture, Shape, folded, picture
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Cause, Mode, Verdict
from tests.support import synthetic_job
from tests.support.made_up_job import gone, job, rank
from tests.support.made_up_verdict import NOTED, OUTSIDE, PROVED, SUSPECTED, barrier, does, finding, verdict, wait

HOSTILE = '"] x [label="</script>\\N\\"\n&lt;\udc80'
"""Ends a string, a statement and a line of DOT, has an escape and an entity, is markup, and can't be encoded."""


def job_of(count: int) -> Job:
    """Return a job of ranks of which only a verdict is known."""
    return job(*(rank(number) for number in range(count)))


def three_cycle() -> tuple[Job, Verdict]:
    """Return three ranks in a circle, and the verdict."""
    waits = (wait(0, 1), wait(1, 2), wait(2, 0, tag=8))
    return job_of(3), verdict([does()] * 3, *waits, findings=[finding("A circle.", 0, 1, 2)])


def big_barrier(missing: int = 77) -> tuple[Job, Verdict]:
    """Return 10,000 ranks, all but one in a barrier, and the verdict."""
    peers = (missing,)
    waits = (barrier(place, peers, SUSPECTED) for place in range(10_000) if place != missing)
    activities = [OUTSIDE if place == missing else does("MPI_Barrier", SUSPECTED) for place in range(10_000)]
    named = finding("One is missing.", missing, cause=Cause.OUTSIDE, certainty=SUSPECTED)
    return job_of(10_000), verdict(activities, *waits, findings=[named])


def ends(drawn: Picture) -> list[tuple[str, str]]:
    """Return the arrows by the titles of their nodes."""
    return [(drawn.nodes[arrow.source].title, drawn.nodes[arrow.target].title) for arrow in drawn.arrows]


# ---------------------------------------------------------------- nodes and arrows


def test_each_rank_of_a_cycle_is_a_node_and_each_wait_an_arrow() -> None:
    """The arrows go from who waits to whom it waits for, and say call, tag and communicator."""
    drawn = picture(*three_cycle())
    assert ends(drawn) == [("rank 0", "rank 1"), ("rank 1", "rank 2"), ("rank 2", "rank 0")]
    assert drawn.arrows[2].lines() == ["MPI_Recv, tag 8", "on MPI_COMM_WORLD"]
    assert drawn.nodes[0].lines == ("MPI_Recv", "solver.c:42")


def test_equal_waits_share_an_arrow_and_other_tags_are_listed() -> None:
    """Five requests between two ranks are one arrow."""
    waits = [wait(0, 1, what="MPI_Irecv", tag=tag) for tag in (9, 10, 9, 11, 12)]
    (arrow,) = picture(job_of(2), verdict([does("MPI_Waitall"), OUTSIDE], *waits)).arrows
    assert arrow.lines() == ["MPI_Irecv, tags 9, 10, 11 and 1 more", "on MPI_COMM_WORLD"]
    assert sorted(number for label in arrow.labels for number in label.waits) == [0, 1, 2, 3, 4]


def test_waits_of_different_certainty_never_share_an_arrow() -> None:
    """What is proved isn't drawn as what is suspected; the gravest comes first."""
    waits = [wait(0, 1, certainty=certainty) for certainty in (NOTED, PROVED, SUSPECTED)]
    drawn = picture(job_of(2), verdict([does(), OUTSIDE], *waits))
    assert [arrow.certainty for arrow in drawn.arrows] == [PROVED, SUSPECTED, NOTED]


def test_any_source_is_one_node_that_all_its_receives_share() -> None:
    """A knot of four ranks has four arrows, not sixteen."""
    everybody = (0, 1, 2, 3)
    waits = [wait(place, *everybody, any_source=True, on=1, name="x") for place in everybody]
    drawn = picture(
        job_of(4), verdict([does()] * 4, *waits, communicators=[("x", everybody)], findings=[finding("", *everybody)])
    )
    assert {target for _, target in ends(drawn)} == {"any of [0-3]"}
    assert [(node.shape, node.lines) for node in drawn.nodes[4:]] == [(Shape.ANY, ("on 'x'",))]
    assert len(drawn.arrows) == 4


def test_who_waits_for_many_different_ranks_has_one_arrow_to_all_of_them() -> None:
    """Nodes stay readable when one rank waits for four that do different things."""
    activities = [does("MPI_Barrier"), *(does(None, None, where=f"solver.c:{place}") for place in range(4))]
    drawn = picture(job_of(5), verdict(activities, barrier(0, (1, 2, 3, 4))))
    assert ends(drawn) == [("rank 0", "all of [1-4]")]
    assert drawn.nodes[-1].shape is Shape.ALL


def test_an_unknown_peer_is_drawn_as_unknown() -> None:
    """No arrow leads to a made-up rank; a communicator that isn't known is said to be so."""
    drawn = picture(job_of(2), verdict([does(), OUTSIDE], wait(0, on=None, name=None)))
    assert ends(drawn) == [("rank 0", "a rank that isn't known")]
    assert drawn.arrows[0].lines()[-1] == "on an unknown communicator"
    assert drawn.nodes[2].shape is Shape.UNKNOWN


def test_exited_and_unread_ranks_have_shapes_of_their_own() -> None:
    """They stand out from ranks that were read."""
    a_job = job(rank(0), gone(1, program=""), rank(2, state=RankState.FINALIZED), rank(3, state=RankState.UNREADABLE))
    drawn = picture(a_job, verdict([does(), *[does(None, None, where="")] * 3], wait(0, 1)))
    assert [node.shape for node in drawn.nodes] == [Shape.RANK, Shape.GONE, Shape.GONE, Shape.UNREAD]
    assert [node.lines[0] for node in drawn.nodes] == ["MPI_Recv", "exited", "after MPI_Finalize", "not read"]


def test_several_programs_and_worlds_are_distinguished() -> None:
    """A spawned rank 0 isn't the rank 0 that spawned it."""
    a_job = job(rank(0), rank(0, world=1, program="/home/user/worker"), gone(1, program=""))
    drawn = picture(a_job, verdict([does(), does(), does(None, None, where="")], wait(0, 1), wait(1, 0)))
    assert [(node.title, node.lines[0]) for node in drawn.nodes] == [
        ("rank 0 of world 0", "solver"),
        ("rank 0 of world 1", "worker"),
        ("rank 1 of world 0", "exited"),
    ]


def test_a_node_says_whether_all_of_its_waits_are_needed() -> None:
    """AND and OR are the same as arrows; with one wait there is no difference."""
    activities = [does("MPI_Waitany", mode=Mode.ANY), does("MPI_Waitall"), does("MPI_Wait")]
    waits = (wait(0, 1), wait(0, 2), wait(1, 0), wait(1, 2), wait(2, 1))
    drawn = picture(job_of(3), verdict(activities, *waits))
    assert [node.lines[0] for node in drawn.nodes] == ["MPI_Waitany, needs any", "MPI_Waitall, needs all", "MPI_Wait"]


def test_long_text_is_folded_and_nothing_of_it_lost() -> None:
    """Lines end behind commas and blanks; a word that is longer than a line is cut."""
    assert folded("ranks [0,10,20,30]", 10) == ["ranks [0,", "10,20,30]"]
    assert folded("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]


# ---------------------------------------------------------------- large jobs


def test_ten_thousand_ranks_that_do_the_same_are_one_node() -> None:
    """The one that is missing is another, and a sentence says that nodes are shared."""
    drawn = picture(*big_barrier())
    assert ends(drawn) == [("ranks [0-76,78-9999]", "rank 77")]
    assert drawn.remarks == ("Ranks that do the same share a node.",)


def test_what_a_finding_names_is_not_merged_with_others() -> None:
    """Ranks 4 and 5 of a large job do what all others do, but a finding is about the two of them."""
    waits = [barrier(place, (0,)) for place in range(1, 100)]
    found = verdict([OUTSIDE, *[does("MPI_Barrier")] * 99], *waits, findings=[finding("", 4, 5, cause=Cause.TAG)])
    titles = [node.title for node in picture(job_of(100), found).nodes]
    assert titles == ["rank 0", "ranks [1-3,6-99]", "rank 4", "rank 5"]


@pytest.mark.parametrize(("length", "nodes"), [(24, 24), (1000, 1)])
def test_a_cycle_is_drawn_rank_by_rank_as_long_as_one_can_follow_it(length: int, nodes: int) -> None:
    """A ring of thousands is a node with an arrow to itself."""
    waits = [wait(place, (place + 1) % length) for place in range(length)]
    found = verdict([does()] * length, *waits, findings=[finding("", *range(length))])
    drawn = picture(job_of(length), found)
    assert len(drawn.nodes) == len(drawn.arrows) == nodes


def test_what_many_findings_name_is_merged_after_some() -> None:
    """The gravest ones keep their ranks apart; those of the others share a node for each."""
    named = [finding("wrong", *range(first, first + 8), cause=Cause.TAG) for first in range(0, 40, 8)]
    drawn = picture(job(*(rank(number) for number in range(64))), verdict([does()] * 64, findings=named))
    assert [len(node.processes) for node in drawn.nodes] == [1] * 24 + [8, 8, 24]


def test_what_a_finding_says_of_many_is_not_merged_with_others() -> None:
    """Ranks 1-20 are behind something, the others do the same without being named."""
    waits = [barrier(place, (0,)) for place in range(1, 100)]
    crowd = finding("", *range(1, 21), cause=Cause.BEHIND)
    found = verdict([OUTSIDE, *[does("MPI_Barrier")] * 99], *waits, findings=[crowd])
    assert [node.title for node in picture(job_of(100), found).nodes] == ["rank 0", "ranks [1-20]", "ranks [21-99]"]


def test_those_who_wait_for_different_ranks_are_different_nodes() -> None:
    """Nine ranks wait for each of the first ten: no node seems to wait for two of them."""
    waits = [wait(place, place // 10) for place in range(10, 100)]
    culprits = [finding("", place, cause=Cause.OUTSIDE) for place in range(10)]
    found = verdict([*[OUTSIDE] * 10, *[does()] * 90], *waits, findings=culprits)
    assert ends(picture(job_of(100), found)) == [
        (f"ranks [{place}0-{place}9]", f"rank {place}") for place in range(1, 10)
    ]


def test_a_wild_job_still_fits_a_picture_with_every_rank_in_it() -> None:
    """Where thousands of ranks do thousands of things, nodes are coarse and say how many things they stand for."""
    count = 3000
    activities = [does(f"MPI_Call_{place}") for place in range(count)]
    waits = [wait(place, (place * 7 + 1) % count, tag=place) for place in range(count)]
    drawn = picture(job_of(count), verdict(activities, *waits))
    assert len(drawn.nodes) <= 20
    assert sorted(place for node in drawn.nodes for place in node.processes) == [*range(count)]
    assert drawn.nodes[0].lines[0] == "3000 different calls"


def test_arrows_that_are_too_many_are_counted() -> None:
    """The gravest are drawn."""
    length = 24
    waits = [wait(place, other, certainty=NOTED) for place, other in combinations(range(length), 2)]
    circle = [wait(place, (place + 1) % length) for place in range(length)]
    found = verdict([does("MPI_Waitall")] * length, *waits, *circle, findings=[finding("", *range(length))])
    drawn = picture(job_of(length), found)
    assert len(drawn.arrows) == MAX_ARROWS
    assert [arrow.certainty for arrow in drawn.arrows[:length]] == [PROVED] * length
    assert drawn.remarks == ("150 of 300 arrows are left out, the least grave ones.",)


def test_the_tag_of_an_arrow_is_a_number_any_or_a_question_mark() -> None:
    """Whichever it is; a tag that one asks for and one that isn't known are never shown as another."""
    waits = [wait(0, 1), wait(0, 2, tag=None), wait(0, 3, tag=None, any_tag=True)]
    drawn = picture(job_of(4), verdict([does(), *[OUTSIDE] * 3], *waits))
    assert {label.tag for arrow in drawn.arrows for label in arrow.labels} == {"7", "?", "any"}


# ---------------------------------------------------------------- DOT


def test_dot_has_a_statement_for_each_node_and_arrow_with_its_colour_and_style() -> None:
    """What is proved is red and bold, what is suspected orange and dashed, what is fine grey and dotted."""
    waits = [wait(0, 1, certainty=certainty) for certainty in (PROVED, SUSPECTED, NOTED)]
    text = dot.render(job_of(2), verdict([does(), OUTSIDE], *waits))
    assert len(re.findall(r"^ *n\d+ \[label=", text, re.MULTILINE)) == 2
    styles = re.findall(r'^ *n0 -> n1 .*, color="(.*?)".*style="(.*?)"', text, re.MULTILINE)
    assert styles == [("#b3261e", "bold"), ("#a15300", "dashed"), ("#6b6b73", "dotted")]
    assert "bold red line: can't end any more: proved" in text


@pytest.mark.parametrize(("length", "direction"), [(3, "LR"), (20, "TB")])
def test_dot_leads_long_cycles_down_the_page(length: int, direction: str) -> None:
    """To the right there is more room for labels, but no end of it."""
    waits = [wait(place, (place + 1) % length) for place in range(length)]
    found = verdict([does()] * length, *waits, findings=[finding("", *range(length))])
    assert f"rankdir={direction}," in dot.render(job_of(length), found)


def hostile_verdict() -> tuple[Job, Verdict]:
    """Return a job in which every name wants to be more than a name."""
    a_job = job(rank(0, program=f"/bin/{HOSTILE}"), rank(1, program="/bin/b"), title=HOSTILE)
    activities = [does(HOSTILE, where=HOSTILE), does(None, None, phrase=HOSTILE)]
    found = verdict(
        activities,
        wait(0, 1, what=HOSTILE, on=1, name=HOSTILE),
        communicators=[(HOSTILE, (0, 1))],
        findings=[finding(HOSTILE, 0, 1, advice=HOSTILE)],
        headline=HOSTILE,
    )
    return a_job, found


@pytest.mark.skipif(
    shutil.which("dot") is None, reason="Graphviz's program dot is not installed (apt-get install graphviz)"
)
def test_hostile_names_stay_labels_in_dot() -> None:
    """Graphviz finds the nodes and arrows that the picture has."""
    text = dot.render(*hostile_verdict())
    plain = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, encoding="utf-8", check=True)
    assert [line.split()[0] for line in plain.stdout.splitlines()].count("node") == 2
    assert "&amp;lt;" in text
    assert "&lt;" not in text


# ---------------------------------------------------------------- SVG

GROUP, TEXT = "{http://www.w3.org/2000/svg}g", "{http://www.w3.org/2000/svg}text"


def test_hostile_names_stay_text_in_svg() -> None:
    """A reader of XML finds the names as they are, with what can't be printed as escapes."""
    drawn = ElementTree.fromstring(svg.render(*hostile_verdict()))
    assert "".join(drawn.itertext()).count('</script>\\N\\"\\x0a&lt;\\udc80') >= 5
    assert {element.tag.rpartition("}")[2] for element in drawn.iter()}.isdisjoint({"script", "a", "image"})


def test_svg_has_the_headline_the_nodes_the_arrows_and_a_legend() -> None:
    """A group for each node and each arrow of the picture, all of it on the page."""
    job, verdict = three_cycle()
    drawn = ElementTree.fromstring(svg.render(job, verdict))
    (graph,) = [group for group in drawn.iter(GROUP) if group.get("id") == "graph"]
    classes = [(group.get("class") or "").split(" ")[0] for group in graph.iter(GROUP)]
    assert (classes.count("node"), classes.count("arrow")) == (3, 3)
    words = [element.text or "" for element in drawn.iter(TEXT)]
    assert words[0] == verdict.headline
    assert words[-1] == "can't end any more: proved"
    width, height = (float(drawn.get(name) or "") for name in ("width", "height"))
    assert all(0 < float(element.get("x") or "") < width for element in drawn.iter(TEXT))
    assert all(0 < float(element.get("y") or "") < height for element in drawn.iter(TEXT))


def test_svg_needs_nothing_but_its_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program is run, no other file is referred to, and colours stand as numbers: not all viewers know variables."""
    monkeypatch.setattr(subprocess, "Popen", None)
    text = svg.render(*three_cycle())
    assert re.findall(r"var\(|url\((?!#)|href|@import|<\?xml-stylesheet", text) == []
    assert ".head.proved { fill: #b3261e; }" in text


def test_a_set_that_a_thousand_receives_wait_for_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time would grow with the square of the ranks."""
    named: list[str] = []

    def name_many(job: object, places: object) -> str:
        named.append("[0-999]")
        return named[-1]

    monkeypatch.setattr("mqs_dll.report.picture.name_many", name_many)
    job = synthetic_job.any_source(1000)
    drawn = picture(job, conclude(job))
    assert "any of [0-999]" in {node.title for node in drawn.nodes}
    assert len(named) == 1


# ---------------------------------------------------------------- our own layout


def graph_of(count: int, *pairs: tuple[int, int]) -> tuple[list[Size], list[Edge]]:
    """Return boxes and arrows to be laid out."""
    return [(100.0, 50.0)] * count, [Edge(source, target, (120.0, 32.0)) for source, target in pairs]


GRAPHS = {
    "nothing": graph_of(0),
    "alone": graph_of(1),
    "itself": graph_of(1, (0, 0), (0, 0)),
    "two": graph_of(2, (0, 1), (1, 0)),
    "cycle of 3 and one behind": graph_of(4, (0, 1), (1, 2), (2, 0), (3, 0), (3, 1), (3, 2)),
    "cycle of 12": graph_of(12, *((place, (place + 1) % 12) for place in range(12))),
    "star": graph_of(12, *((place, 0) for place in range(1, 12))),
    "two islands": graph_of(5, (0, 1), (1, 0), (2, 3)),
    "all for all": graph_of(7, *combinations(range(7), 2)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_boxes_and_labels_never_overlap_and_lie_within_the_page(name: str) -> None:
    """However many wait for each other."""
    boxes, edges = GRAPHS[name]
    places = layout(boxes, edges)
    areas = [
        (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        for (x, y), (width, height) in zip(places.boxes, boxes, strict=True)
    ]
    for edge, route in zip(edges, places.routes, strict=True):
        (x, y), (width, height) = route.label, edge.label
        areas.append((x, y, x + width, y + height))
    for one, other in combinations(areas, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    assert all(area[0] >= 0 and area[1] >= 0 for area in areas)
    assert all(area[2] <= places.size[0] and area[3] <= places.size[1] for area in areas)


@pytest.mark.parametrize("name", GRAPHS)
def test_arrows_start_and_end_at_the_borders_of_their_boxes(name: str) -> None:
    """No arrow points at another box than its own, ends in the open, or runs through its box."""
    boxes, edges = GRAPHS[name]
    places = layout(boxes, edges)
    for edge, route in zip(edges, places.routes, strict=True):
        for box, points in ((edge.source, route.points), (edge.target, route.points[::-1])):
            (x, y), (next_x, next_y) = points[:2]
            assert distance(places.boxes[box], (x, y)) == pytest.approx(0)
            assert distance(places.boxes[box], ((x + next_x) / 2, (y + next_y) / 2)) > 1


def distance(centre: Point, point: Point) -> float:
    """Return how far a point is from a box of the graphs above; within the box it is negative."""
    return max(abs(point[0] - centre[0]) - 50, abs(point[1] - centre[1]) - 25)


def test_all_arrows_of_a_chain_point_the_same_way() -> None:
    """Who is waited for by all others stands at the end."""
    places = layout(*graph_of(4, (3, 2), (2, 1), (1, 0)))
    along = [y if places.down else x for x, y in places.boxes]
    assert along == sorted(along, reverse=True)


def test_characters_of_two_columns_have_room_for_two() -> None:
    """A name in Chinese is as wide as twice as many letters."""
    assert size_of(["\u6e2c\u8a66", "ab"]) == size_of(["abcd", "ab"])


def test_the_drawing_has_a_group_for_each_node_and_arrow() -> None:
    """Their numbers are places in the picture, and their text is whole in their titles."""
    drawn = picture(*three_cycle())
    groups = ElementTree.fromstring(draw(drawn)).findall("g")
    titles = {key: group.findtext("title") for group in groups for key in group.attrib.items() if key[0] != "class"}
    assert titles["data-node", "2"] == "rank 2, MPI_Recv, solver.c:42"
    assert titles["data-arrow", "2"] == "MPI_Recv, tag 8, on MPI_COMM_WORLD"
    assert len(titles) == 6
