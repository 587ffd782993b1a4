"""docs/rollout-rbac.yaml grants exactly the permissions that a roll-out needs."""

import re
from pathlib import Path

import pytest
import yaml

from numaforge.rollout.cluster import Permission
from numaforge.rollout.configz import NODES_PROXY
from numaforge.rollout.kubectl import permissions
from numaforge.rollout.labels import WRITTEN
from numaforge.rollout.names import LEASE_NAMESPACE
from numaforge.rollout.record import MARK

MANIFEST = Path(__file__).parents[3] / "docs" / "rollout-rbac.yaml"


CONFIGZ = "numaforge-configz"


POLICIES = {"numaforge-rollout-nodes", "numaforge-rollout-pods"}


def documents(*kinds, name="numaforge-rollout"):
    return [
        document
        for document in yaml.safe_load_all(MANIFEST.read_text())
        if document["kind"] in kinds and document["metadata"]["name"] == name
    ]


def granted(role):
    return {
        Permission(verb, resource, group, role["metadata"].get("namespace"), name)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def test_roles_grant_exactly_what_a_rollout_needs():
    roles = documents("ClusterRole", "Role")
    assert set().union(*map(granted, roles)) == set(permissions())


def test_login_may_read_api_server_readiness():
    [cluster_role] = documents("ClusterRole")
    [rule] = [rule for rule in cluster_role["rules"] if "nonResourceURLs" in rule]
    assert rule == {"nonResourceURLs": ["/readyz"], "verbs": ["get"]}


def test_nodes_may_read_only_configz():
    [role] = documents("ClusterRole", name=CONFIGZ)
    [binding] = documents("ClusterRoleBinding", name=CONFIGZ)
    assert granted(role) == {Permission("get", "nodes/configz")}
    assert binding["roleRef"]["name"] == CONFIGZ
    assert [(subject["kind"], subject["name"]) for subject in binding["subjects"]] == [
        ("Group", "system:nodes")
    ]


def test_only_api_server_endpoints_may_be_read():
    [role] = [role for role in documents("Role") if role["metadata"]["namespace"] == "default"]
    [rule] = [rule for rule in role["rules"] if "endpointslices" in rule["resources"]]
    assert (rule["resourceNames"], rule["verbs"]) == (["kubernetes"], ["get"])


def test_manifest_contains_no_other_object():
    names = {document["metadata"]["name"] for document in yaml.safe_load_all(MANIFEST.read_text())}
    assert names == {"numaforge", "numaforge-rollout", CONFIGZ, *POLICIES}


def test_rollout_has_its_own_namespace():
    [namespace] = documents("Namespace", name=LEASE_NAMESPACE)
    [account] = documents("ServiceAccount")
    assert account["metadata"]["namespace"] == namespace["metadata"]["name"]
    assert "kube-system" not in MANIFEST.read_text()


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_policy_is_bound_and_applies_only_to_the_service_account(name):
    [policy] = documents("ValidatingAdmissionPolicy", name=name)
    [binding] = documents("ValidatingAdmissionPolicyBinding", name=name)
    [condition] = policy["spec"]["matchConditions"]
    user = f"system:serviceaccount:{LEASE_NAMESPACE}:numaforge-rollout"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert (policy["spec"]["failurePolicy"], binding["spec"]["validationActions"]) == ("Fail", ["Deny"])
    assert binding["spec"]["policyName"] == name


def test_policy_permits_every_label_and_annotation_of_a_rollout():
    [policy] = documents("ValidatingAdmissionPolicy", name="numaforge-rollout-nodes")
    listed = {
        variable["name"]: set(re.findall("'([^']+)'", variable["expression"]))
        for variable in policy["spec"]["variables"]
    }
    assert (listed["labels"], listed["annotations"]) == (WRITTEN, {MARK})


def test_nodes_proxy_is_granted_only_when_uncommented():
    """It is written as it has to stand among the rules of the login."""
    text = MANIFEST.read_text()
    begin = text.index("  # - apiGroups:")
    rule, rest = text[begin:].split("\n---", 1)
    uncommented = text[:begin] + rule.replace("  # ", "  ") + "\n---" + rest
    roles = [document for document in yaml.safe_load_all(uncommented) if document["kind"] == "ClusterRole"]
    assert set().union(*map(granted, roles)) >= {NODES_PROXY}
    assert NODES_PROXY not in set().union(*map(granted, documents("ClusterRole")))


def test_every_role_is_bound_to_the_service_account():
    [account] = documents("ServiceAccount")
    for role in documents("ClusterRole", "Role"):
        [binding] = [
            document
            for document in documents(f"{role['kind']}Binding")
            if document["metadata"].get("namespace") == role["metadata"].get("namespace")
        ]
        assert binding["roleRef"]["kind"] == role["kind"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        [subject] = binding["subjects"]
        assert (subject["kind"], subject["name"], subject["namespace"]) == (
            "ServiceAccount",
            account["metadata"]["name"],
            account["metadata"]["namespace"],
        )
