"""What a roll-out needs from the cluster: a login, an API server that answers, permissions."""

from __future__ import annotations

import json
import shutil
import subprocess

from numaforge.errors import NumaforgeError
from numaforge.findings import Severity
from numaforge.ordering import first_of
from numaforge.preflight.checks import Check
from numaforge.rollout.cluster import Permission
from numaforge.rollout.kubectl import KubectlCluster, permissions
from numaforge.rollout.options import RolloutOptions

_SHOWN = 5
READYZ = Permission("get", "/readyz")
RBAC = "docs/rollout-rbac.yaml has exactly those that a roll-out needs"


def cluster_checks(options: RolloutOptions, *, needed: bool) -> tuple[Check, ...]:
    """Check the login to the cluster and its permissions, without changing anything in the cluster.

    What is missing is an error where `needed`, that is, where a host is a node of a cluster.
    """
    severity = Severity.ERROR if needed else Severity.WARNING
    program = _kubectl(options.kubectl, severity)
    if program.severity:
        return (program,)
    try:
        with options.cluster() as cluster:
            permitted = permission_check(cluster, options, severity)
            found = (program, Check("API server", cluster.version()), permitted)
            return found if permitted.severity else (*found, *_dra_driver(cluster))
    except NumaforgeError as error:
        where = f"{error.where}: " if error.where else ""
        return (program, Check("login", f"{where}{error.message}", severity, error.remedy or ""))


def permission_check(
    cluster: KubectlCluster, options: RolloutOptions, severity: Severity = Severity.ERROR
) -> Check:
    """Check every permission that docs/rollout-rbac.yaml grants."""
    wanted = (*permissions(options.namespace), READYZ)
    missing = [str(each) for each in wanted if not cluster.may(each)]
    if missing:
        return Check("permissions", f"this login lacks {', '.join(missing)}", severity, RBAC)
    return Check("permissions", f"all {len(wanted)} that a roll-out needs")


def _dra_driver(cluster: KubectlCluster) -> tuple[Check, ...]:
    """Return a note on nodes that cannot have a fixed MIG geometry; nothing where there are none."""
    nodes = cluster.dynamic_mig()
    if not nodes:
        return ()
    found = f"NVIDIA's driver cuts the GPUs of {first_of(nodes, _SHOWN)} as claims come (DynamicMIG)"
    return (Check("DRA", found, Severity.NOTE, "a profile for them says mig.managed_by: dra-driver"),)


def _kubectl(program: str, severity: Severity) -> Check:
    found = shutil.which(program)
    if found is None:
        remedy = "install kubectl: nodes of a cluster are drained through it"
        return Check("kubectl", f"there is no {program} on the PATH", severity, remedy)
    done = subprocess.run(
        [found, "version", "--client", "--output=json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return Check("kubectl", str(json.loads(done.stdout)["clientVersion"]["gitVersion"]))
    except (ValueError, KeyError, TypeError):
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = said[-1] if said else f"it ended with {done.returncode}"
        return Check("kubectl", f"{found} does not say its version: {why}", severity, "install kubectl anew")
