"""`numaforge admit`: whether a node's kubelet would admit pods."""

from typing import Any

import click

from numaforge.commands.machine import machine_option
from numaforge.commands.options import output_option
from numaforge.commands.scenario import scenario_of, scenario_options
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import show_answer


@click.command()
@click.argument("pods", metavar="POD.yaml...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@machine_option("topology")
@scenario_options
@output_option("table", "json")
def admit(pods: tuple[str, ...], topology: str | None, output: str, **kubelet: Any) -> int:
    """Check whether a node's kubelet would admit pods.

    Takes the pods in order: POD.yaml holds pods, or objects with a pod template and replicas; a document
    `remove: NAME` removes a pod. It may also hold the ResourceClaims, templates, DeviceClasses and
    ResourceSlices that its pods refer to.

    Exit codes: 0 all are admitted, 1 one is refused.
    """
    from numaforge.commands.inputs import read_pods
    from numaforge.kubelet.admission.advice import advice
    from numaforge.kubelet.admission.alignment import explain_alignment, explain_claims, explain_gpus
    from numaforge.kubelet.admission.inventory import gpus_of_devices
    from numaforge.kubelet.admission.qos import explain
    from numaforge.kubelet.admission.scheduler import not_known, unschedulable
    from numaforge.kubelet.admission.settings import STATIC
    from numaforge.report.admit import JudgedAdmission, answer_document, answer_lines

    request = read_pods(pods, replicas=True)
    scenario = scenario_of(topology, request.claims, **kubelet)
    node = scenario.node()
    static = node.settings.cpu_policy == STATIC
    gpus = gpus_of_devices(scenario.topology, scenario.devices or {})
    answers: list[JudgedAdmission] = []
    pods_before = node.pods
    restarted = {operation.name for operation in request.operations if not isinstance(operation, str)}
    node.restart_with(restarted.intersection(pods_before))
    for operation in request.operations:
        if isinstance(operation, str):
            node.remove(operation)
            continue
        if operation.name in node.pods and operation.name not in pods_before:
            raise NumaforgeError(
                f"pod {operation.name!r} is admitted already",
                remedy=f"remove it first, with a document `remove: {operation.name}`, or rename one",
            )
        refused = request.unselected(operation, scenario) or unschedulable(node, operation)
        short_of = node.short_of(operation)
        unknown, claims = not_known(node, operation), node.judged_claims(operation)
        answer = refused or node.admit(operation)
        remarks = (
            *explain(operation, cpu_manager_is_static=static, gates=node.settings.gates),
            *explain_alignment(operation, scenario.devices or {}),
            *explain_gpus(operation, scenario.devices),
            *explain_claims(answer, claims, node.machine.cpus),
        )
        granted = {
            container: [gpus[key] for key in holding if key in gpus]
            for container, devices in answer.devices.items()
            for holding in ([(resource, one) for resource, ids in devices.items() for one in ids],)
        }
        answers.append(
            JudgedAdmission(
                admission=answer,
                remarks=remarks,
                short_of=() if refused else short_of,
                not_known=unknown,
                offered=tuple(node.device_manager.plugins),
                claims=claims,
                gpus=granted,
                topology=scenario.topology,
                advices=() if answer.admitted else tuple(advice(node, operation, answer)),
            )
        )
    show_answer(
        output,
        lambda: {"schema": 1, "admissions": [answer_document(answer) for answer in answers]},
        lambda: [line for answer in answers for line in answer_lines(answer)],
    )
    return ExitCode.YES if all(answer.admission.admitted for answer in answers) else ExitCode.NO
