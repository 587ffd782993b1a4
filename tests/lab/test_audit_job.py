"""The documented CronJob: its arguments and inventory are those of an audit.

An API server takes it in test_rollout_job.py, as it takes the Job of a roll-out.
"""

from pathlib import Path
from typing import Any

import yaml

from lab.paths import REPOSITORY
from numaforge.commands.audit import audit
from tests.lab.job_manifests import inventory_as_pyinfra_reads_it

JOB = REPOSITORY / "docs" / "audit-job.yaml"
IMAGE = REPOSITORY / "docs" / "Containerfile"


def manifest(kind: str) -> dict[str, Any]:
    (found,) = [each for each in yaml.safe_load_all(JOB.read_text()) if each["kind"] == kind]
    return dict(found)


def pod() -> dict[str, Any]:
    return dict(manifest("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"])


def test_job_arguments_are_valid_for_numaforge_audit() -> None:
    (container,) = pod()["containers"]
    name, *arguments = container["args"]
    assert name == "audit"
    given = audit.make_context("audit", arguments).params
    assert given["sources"] == ("/etc/numaforge/inventory/inventory.py",)
    kept = {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "audits"}
    assert {str(Path(file).parent) for file in given["files"]} == kept
    assert {Path(file).suffix for file in given["files"]} == {".json", ".html", ".prom"}


def test_job_is_not_retried_after_an_answer() -> None:
    policy = manifest("CronJob")["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]
    (rule,) = policy["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [1, 2, 6])


def test_audit_pod_has_no_api_token_and_runs_as_the_image_user() -> None:
    assert pod()["automountServiceAccountToken"] is False
    user = pod()["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}\n" in IMAGE.read_text()


def test_pyinfra_reads_the_inventory_of_the_audit_job(tmp_path: Path) -> None:
    shown = inventory_as_pyinfra_reads_it(manifest("ConfigMap")["data"], tmp_path)
    assert "gpu-004" in shown
    mounted = {each["mountPath"]: each["name"] for each in pod()["containers"][0]["volumeMounts"]}
    assert mounted["/etc/numaforge/ssh"] == "ssh"
    assert "/etc/numaforge/ssh/known_hosts" in shown
