"""The SVG as a file: valid, self-contained, accessible, the same every time."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.report.svg import draw
from tests.fixtures import machines

SVG = "{http://www.w3.org/2000/svg}"
XML_BREAKERS = "a<b>&\"c'\x00\x1b]]>\ufffe node"


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 (our own output)


def lab_plan():
    return plan_node(machines.lab_node(), load_profile({"name": "training"}))


def test_every_cpu_has_one_thread_of_the_right_class():
    plan = lab_plan()
    drawn = {}
    for group in parsed(draw(machines.lab_node(), plan)).iter(f"{SVG}g"):
        if "data-cpu" in group.attrib:
            classes = group.find(f"{SVG}rect").attrib["class"].split()
            drawn.setdefault(int(group.attrib["data-cpu"]), []).append(classes[1])
    assert drawn == {
        cpu: ["cpu-reserved" if cpu in plan.cpus.reserved else "cpu-allocatable"] for cpu in plan.cpus.online
    }


@pytest.mark.parametrize(
    "kind", ["cpu-reserved", "memory-reserved", "memory-hugepages-2Mi", "memory-hugepages-1Gi"]
)
def test_important_areas_are_marked_by_pattern_as_well_as_colour(kind):
    root = parsed(draw(machines.two_cpu_vm()))
    (pattern,) = re.findall(
        rf"^\.{kind} {{ fill: url\(#([a-z]+)\)", root.find(f"{SVG}style").text, re.MULTILINE
    )
    assert pattern in {element.attrib["id"] for element in root.iter(f"{SVG}pattern")}


def test_reserved_and_hugepage_patterns_differ():
    style = parsed(draw(machines.two_cpu_vm())).find(f"{SVG}style").text
    fills = dict(
        re.findall(r"^\.(cpu-reserved|memory-hugepages-\w+) { fill: url\(#([a-z]+)\)", style, re.MULTILINE)
    )
    assert len(set(fills.values())) == 3


def test_picture_has_title_and_description_for_screen_readers():
    root = parsed(draw(machines.lab_node(), lab_plan()))
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"].split() == [
        root.find(f"{SVG}title").attrib["id"],
        root.find(f"{SVG}desc").attrib["id"],
    ]
    assert "node1" in root.find(f"{SVG}title").text
    assert "NUMA node 3" in root.find(f"{SVG}desc").text


def test_picture_fetches_nothing_and_runs_nothing():
    svg = draw(machines.dgx_h100())
    elements = {element.tag.removeprefix(SVG) for element in parsed(svg).iter()}
    assert elements.isdisjoint({"script", "image", "use", "foreignObject"})
    assert not re.search(r"href|@import|@font-face|url\((?!#)", svg)


def test_same_machine_gives_the_same_svg():
    assert draw(machines.big_512()) == draw(machines.big_512())


def test_text_reported_by_a_host_stays_text():
    topology = machines.dgx_h100()
    gpu = replace(topology.gpus[0], name=XML_BREAKERS)
    root = parsed(draw(replace(topology, hostname=XML_BREAKERS, gpus=(gpu,))))
    assert root.find(f"{SVG}title").text.startswith("a<b>&\"c'\ufffd\ufffd]]>\ufffd node")


def test_picture_of_512_cpus_has_a_reasonable_size():
    assert len(draw(machines.big_512())) < 300_000


def test_every_fill_and_text_has_a_dark_mode_colour():
    light, _, dark = draw(machines.dgx_h100()).partition("@media (prefers-color-scheme: dark)")
    dark = dark.partition("</style>")[0]
    filled = set(re.findall(r"^\.([\w-]+) \{ fill: #", light, re.MULTILINE))
    assert "canvas" in filled
    assert {name for name in filled if f".{name}" not in dark} == set()
    assert "text { fill:" in dark
