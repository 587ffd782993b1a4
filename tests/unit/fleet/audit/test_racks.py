"""Racks as a whole: what trays of one clique have to agree in."""

from dataclasses import replace

from numaforge.fleet.audit.machine import AuditedMachine
from numaforge.fleet.audit.makes import Make
from numaforge.fleet.audit.racks import rack_findings, racks_of
from tests.fixtures.tables import cases

RACK, OTHER = "aaaa", "bbbb"


def tray(
    fabric: str = f"{RACK}.1",
    *more: str,
    driver: str = "580.1",
    nodes: int = 18,
    service: str = "enabled",
    listed: str = "abcd",
    memory: str = "driver",
) -> AuditedMachine:
    facts = {"NA130": {"version": driver}}
    imex = {"nodes": str(nodes), "service": service, "list": listed}
    return AuditedMachine(
        None, Make("", (), ""), facts, (), fabrics=(fabric, *more), imex=imex, gpu_memory=memory
    )


@cases(
    "trays, found",
    {
        "all-agree": ([tray()] * 4, []),
        "another-driver": ([*[tray()] * 3, tray(driver="570.1")], [("t3", "NA203")]),
        "a-list-of-another-length": ([*[tray()] * 3, tray(nodes=17)], [("t3", "NA204")]),
        "a-shorter-list-is-told-once": ([*[tray()] * 3, tray(nodes=17, listed="ef01")], [("t3", "NA204")]),
        "another-list-of-one-length": ([*[tray()] * 3, tray(listed="ef01")], [("t3", "NA206")]),
        "another-memory-mode": ([*[tray()] * 3, tray(memory="numa")], [("t3", "NA207")]),
        "another-clique-has-its-own-list": (
            [*[tray()] * 3, tray(f"{RACK}.2", listed="ef01")],
            [("t3", "NA202")],
        ),
        "IMEX-run-in-another-way": ([*[tray()] * 3, tray(service="masked")], [("t3", "NA205")]),
        "another-clique": ([*[tray()] * 3, tray(f"{RACK}.2")], [("t3", "NA202")]),
        "where-none-has-most-all-are-told": (
            [tray(), tray(driver="570.1")],
            [("t0", "NA203"), ("t1", "NA203")],
        ),
        "a-tray-in-two-cliques": ([*[tray()] * 3, tray(f"{RACK}.1", f"{RACK}.2")], [("t3", "NA201")]),
        "another-rack-has-its-own-driver": ([tray(), tray(), tray(f"{OTHER}.1", driver="570.1")], []),
        "a-fabric-without-its-cluster": ([*[tray()] * 3, tray("1", driver="570.1")], []),
        "what-is-not-known-is-not-compared": (
            [tray(), replace(tray(), facts={}, imex={}, gpu_memory=None)],
            [],
        ),
    },
)
def test_tray_that_disagrees_with_its_rack_is_found(
    trays: list[AuditedMachine], found: list[tuple[str, str]]
) -> None:
    machines = {f"t{number}": each for number, each in enumerate(trays)}
    assert [(name, finding.id) for name, finding in rack_findings(machines)] == found


def test_rack_is_the_set_of_trays_in_one_nvlink_domain() -> None:
    machines = {
        "a": tray(),
        "b": tray(f"{RACK}.2"),
        "c": tray(f"{OTHER}.1"),
        "d": replace(tray(), fabrics=()),
    }
    assert racks_of(machines) == {RACK: ["a", "b"]}
