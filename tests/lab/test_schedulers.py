"""What is written for schedulers, at a real API server that has the systems' own schemas and is strict."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lab.kwok import Fleet
from numaforge.cluster.schedulers import gpu_operator
from numaforge.cluster.schedulers.kubectl_get import Kubectl
from numaforge.cluster.schedulers.systems import SYSTEMS, generate
from tests.fixtures.crd_schemas import SCHEMAS, WITHOUT_SCHEMA, definitions
from tests.lab.cluster_command import ask
from tests.lab.definitions import REQUIRED_OF_CLUSTER_POLICY, serve, withdraw
from tests.lab.rollouts import in_repository
from tests.unit.cluster.schedulers.served import HANDED, fleet_for, served

pytestmark = pytest.mark.lab
KINDS_WITHOUT_SCHEMA = {kind for _, kind in WITHOUT_SCHEMA}
NAMESPACES = "/api/v1/namespaces"
GATES, SERVED = ("GenericWorkload",), ("scheduling.k8s.io/v1beta1",)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if not SCHEMAS.is_dir():
        pytest.skip("the systems' schemas are not here")
    with Fleet(tmp_path_factory.mktemp("fleet"), gates=GATES, served=SERVED) as fleet:
        written = written_kinds()
        published = {each["metadata"]["name"]: each for each in definitions() if kind_of(each) in written}
        serve(fleet, *published.values())
        yield fleet


@pytest.fixture(scope="module")
def gang_version(fleet: Fleet) -> str:
    return Kubectl(str(fleet.kubeconfig), kubectl=str(fleet.control_plane.kubectl())).gang_version()


def written_kinds() -> set[tuple[str, str]]:
    """Return the API group and the kind of each object that a system is given."""
    return {
        (document["apiVersion"].partition("/")[0], document["kind"])
        for system in SYSTEMS
        for folder in generate(fleet_for(system), [system])
        for file in folder.files
        for document in file.documents
    }


def kind_of(definition: dict[str, Any]) -> tuple[str, str]:
    return definition["spec"]["group"], definition["spec"]["names"]["kind"]


def add_namespace(fleet: Fleet, name: str) -> None:
    """Create a namespace, which may be there."""
    if name not in {each["metadata"]["name"] for each in fleet.get(NAMESPACES)["items"]}:
        fleet.send("POST", NAMESPACES, {"metadata": {"name": name}})


@pytest.mark.variants(6)
@pytest.mark.parametrize("system", SYSTEMS)
def test_strict_api_server_accepts_the_generated_folder(system, fleet, gang_version, tmp_path):
    [folder] = generate(fleet_for(system), [system], gang_version)
    if {each["kind"] for file in folder.files for each in file.documents} <= KINDS_WITHOUT_SCHEMA:
        pytest.skip(f"the schemas of {system} are not here")
    for namespace in {each["metadata"].get("namespace") for file in folder.files for each in file.documents}:
        if namespace is not None:
            add_namespace(fleet, namespace)
    for name, text in folder.texts():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        known = [
            each
            for each in text.split("---\n")
            if not any(f"kind: {kind}\n" in each for kind in KINDS_WITHOUT_SCHEMA)
        ]
        file.write_text("---\n".join(known))
    strictly = ("apply", "--server-side", "--validate=strict", "--force-conflicts", "-k", str(tmp_path))
    applied = fleet.kubectl(*strictly)
    assert applied.returncode == 0, applied.stderr
    again = fleet.kubectl(*strictly)
    assert again.returncode == 0, again.stderr


VOLCANO = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/dgx-01"


MACHINES = ("dgx-h100", "epyc-nps4", "--profile", "training")


def verified(fleet: Fleet, *machines: str) -> tuple[int, str]:
    """Hold the cluster to the plans, as an admin does; return the exit code and what is said."""
    done = ask(fleet.control_plane, "cluster", "verify", *(machines or MACHINES))
    return done.returncode, done.stdout + done.stderr


def test_live_objects_must_match_plans_and_deviating_writer_is_named(fleet, tmp_path):
    in_repository("numaforge", "generate", "cluster", *MACHINES, "--to", str(tmp_path))
    folders = generate([served(name) for name in MACHINES[:2]])
    for system in [folder.name for folder in folders if folder.compared()]:
        kustomization = tmp_path / system / "kustomization.yaml"
        if system == "kueue" or not kustomization.is_file():
            continue
        text = kustomization.read_text()
        [command] = re.findall(r"^# kubectl (apply .*) -k \.$", text, re.MULTILINE)
        applied = fleet.kubectl(*command.split(), "--force-conflicts", "-k", str(tmp_path / system))
        assert applied.returncode == 0, applied.stderr
    # Of kueue only the levels: its flavors have no schema here.
    levels = tmp_path / "levels.yaml"
    levels.write_text((tmp_path / "kueue/topology.yaml").read_text().split("---\n")[0])
    ours = ("--server-side", "--force-conflicts", "--field-manager=numaforge-kueue")
    assert fleet.kubectl("apply", *ours, "-f", str(levels)).returncode == 0
    code, said = verified(fleet)
    assert code == 0, said
    assert said.startswith("15 objects compared with 2 plans: as planned\n"), said
    assert "gpu-operator: the cluster does not serve nvidia.com/v1 ClusterPolicy" in said
    assert "kueue: the cluster does not serve kueue.x-k8s.io/v1beta2 ResourceFlavor" in said
    fleet.patch(VOLCANO, {"spec": {"policies": {"CPUManagerPolicy": "none"}}})
    fleet.send("DELETE", "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/epyc-01")
    code, said = verified(fleet)
    assert code == 1
    assert "volcano: Numatopology dgx-01: spec.policies.CPUManagerPolicy is none, and planned static" in said
    assert "(written by " in said
    assert "noderesourcetopology: NodeResourceTopology epyc-01 is missing" in said


def test_strict_api_server_refuses_an_unknown_field(fleet, tmp_path):
    [folder] = generate([served("dgx-h100")], ["volcano"])
    text = dict(folder.texts())["numatopologies.yaml"].replace("numares:", "numaRes:")
    (tmp_path / "wrong.yaml").write_text(text)
    refused = fleet.kubectl("apply", "--server-side", "--validate=strict", "-f", str(tmp_path / "wrong.yaml"))
    assert refused.returncode != 0
    assert "numaRes" in refused.stderr


POLICY = "/apis/nvidia.com/v1/clusterpolicies"


@pytest.fixture
def policies(fleet: Fleet) -> Iterator[str]:
    """The path of the GPU operator's policies, which are served meanwhile."""
    [policies] = [each for each in definitions() if kind_of(each) == ("nvidia.com", "ClusterPolicy")]
    serve(fleet, policies)
    yield POLICY
    withdraw(fleet, policies)


def test_cluster_policy_from_values_must_match_the_plans(fleet, policies, tmp_path):
    profile = tmp_path / "handed.yaml"
    profile.write_text(yaml.safe_dump(HANDED))
    machines = ("dgx-h100", "--profile", str(profile), "--for", "gpu-operator")
    folder = tmp_path / "cluster"
    in_repository("numaforge", "generate", "cluster", *machines, "--to", str(folder))
    add_namespace(fleet, gpu_operator.NAMESPACE)
    applied = fleet.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(folder / "gpu-operator"))
    assert applied.returncode == 0, applied.stderr
    values = yaml.safe_load((folder / "gpu-operator/gpu-operator.values.yml").read_text())
    spec = {name: {} for name in REQUIRED_OF_CLUSTER_POLICY} | values
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
    fleet.send("POST", policies, {**policy, "spec": spec})
    code, said = verified(fleet, *machines)
    assert code == 0, said
    fleet.patch(
        f"{policies}/cluster-policy", {"spec": {"migManager": {"config": {"default": "all-disabled"}}}}
    )
    code, said = verified(fleet, *machines)
    assert code == 1
    assert "spec.migManager.config.default is all-disabled, and planned  (written by " in said
