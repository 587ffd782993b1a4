"""The SVG as a file: valid, self-contained, accessible, the same every time."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

from numaforge.report.svg import draw
from tests.fixtures import machines
from tests.fixtures.plans import planned

SVG = "{http://www.w3.org/2000/svg}"
XML_BREAKERS = "a<b>&\"c'\x00\x1b]]>\ufffe node"


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 (our own output)


def lab_plan():
    return planned(machines.lab_node(), name="training")


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


def test_important_areas_are_marked_by_patterns_that_differ():
    root = parsed(draw(machines.two_cpu_vm()))
    style = root.find(f"{SVG}style").text
    rule = r"^\.((?:cpu|memory)-reserved|memory-hugepages-\w+) { fill: url\(#([a-z]+)\)"
    fills = dict(re.findall(rule, style, re.MULTILINE))
    pages = {"memory-hugepages-2Mi", "memory-hugepages-1Gi"}
    assert fills.keys() >= {"cpu-reserved", "memory-reserved", *pages}
    assert {*fills.values()} <= {element.attrib["id"] for element in root.iter(f"{SVG}pattern")}
    assert len({fills[kind] for kind in ("cpu-reserved", *pages)}) == 3


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
