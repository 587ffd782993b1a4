"""What a roll-out needs from the cluster: a login, an API server that answers, permissions."""

import json
import shutil
import subprocess

from numaforge.findings import Severity
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.ordering import first_of
from numaforge.preflight import Check
from numaforge.rollout.cluster import Permission
from numaforge.rollout.kubectl import KubectlCluster, permissions
from numaforge.rollout.options import RolloutOptions

_SHOWN = 5
READYZ = Permission("get", "/readyz")
RBAC = "docs/rollout-rbac.yaml has exactly those that a roll-out needs"


def cluster_checks(options: RolloutOptions, *, needed: bool) -> tuple[Check, ...]:
    """Check login and permissions, changing nothing; what is missing is an error where `needed`."""
    severity = Severity.ERROR if needed else Severity.WARNING
    program = _kubectl(options.kubectl, severity)
    if program.severity:
        return (program,)
    try:
        with options.cluster() as cluster:
            permitted = permission_check(cluster, options, severity)
            checks = (program, Check("API server", cluster.version()), permitted)
            return checks if permitted.severity else (*checks, *_dra_driver(cluster))
    except NumaforgeError as error:
        where = f"{error.where}: " if error.where else ""
        return (program, Check("login", f"{where}{error.message}", severity, error.remedy or ""))


def permission_check(
    cluster: KubectlCluster, options: RolloutOptions, severity: Severity = Severity.ERROR
) -> Check:
    """Check every permission that docs/rollout-rbac.yaml grants."""
    needed = (*permissions(options.namespace), READYZ)
    missing = [str(permission) for permission in needed if not cluster.may(permission)]
    if missing:
        return Check("permissions", f"this login lacks {', '.join(missing)}", severity, RBAC)
    return Check("permissions", f"all {len(needed)} that a roll-out needs")


def _dra_driver(cluster: KubectlCluster) -> tuple[Check, ...]:
    """Return a note on nodes that cannot have a fixed MIG geometry; nothing without such nodes."""
    nodes = cluster.dynamic_mig()
    if not nodes:
        return ()
    evidence = f"NVIDIA's driver cuts the GPUs of {first_of(nodes, _SHOWN)} as claims come (DynamicMIG)"
    return (Check("DRA", evidence, Severity.NOTE, "a profile for them says mig.managed_by: dra-driver"),)


def _kubectl(program: str, severity: Severity) -> Check:
    kubectl = shutil.which(program)
    if kubectl is None:
        remedy = "install kubectl: nodes of a cluster are drained through it"
        return Check("kubectl", f"there is no {program} on the PATH", severity, remedy)
    done = subprocess.run(
        [kubectl, "version", "--client", "--output=json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return Check("kubectl", str(json.loads(done.stdout)["clientVersion"]["gitVersion"]))
    except (ValueError, KeyError, TypeError):
        output = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = output[-1] if output else f"it ended with {done.returncode}"
        return Check("kubectl", f"{kubectl} does not print its version: {why}", severity, "reinstall kubectl")
