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


def test_the_roles_grant_what_a_roll_out_needs_and_nothing_more():
    roles = documents("ClusterRole", "Role")
    assert set().union(*map(granted, roles)) == set(permissions())


def test_a_login_may_ask_whether_the_api_server_is_ready():
    [cluster_role] = documents("ClusterRole")
    [rule] = [rule for rule in cluster_role["rules"] if "nonResourceURLs" in rule]
    assert rule == {"nonResourceURLs": ["/readyz"], "verbs": ["get"]}


def test_the_nodes_may_read_what_kubelets_run_with_and_nothing_more():
    [role] = documents("ClusterRole", name=CONFIGZ)
    [binding] = documents("ClusterRoleBinding", name=CONFIGZ)
    assert granted(role) == {Permission("get", "nodes/configz")}
    assert binding["roleRef"]["name"] == CONFIGZ
    assert [(subject["kind"], subject["name"]) for subject in binding["subjects"]] == [
        ("Group", "system:nodes")
    ]


def test_of_the_services_endpoints_those_of_the_api_servers_alone_may_be_read():
    [role] = [role for role in documents("Role") if role["metadata"]["namespace"] == "default"]
    [rule] = [rule for rule in role["rules"] if "endpointslices" in rule["resources"]]
    assert (rule["resourceNames"], rule["verbs"]) == (["kubernetes"], ["get"])


def test_nothing_else_is_granted():
    names = {document["metadata"]["name"] for document in yaml.safe_load_all(MANIFEST.read_text())}
    assert names == {"numaforge", "numaforge-rollout", CONFIGZ, *POLICIES}


def test_the_roll_out_has_a_namespace_of_its_own():
    [namespace] = documents("Namespace", name=LEASE_NAMESPACE)
    [account] = documents("ServiceAccount")
    assert account["metadata"]["namespace"] == namespace["metadata"]["name"]
    assert "kube-system" not in MANIFEST.read_text()


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_is_bound_and_denies_to_the_service_account_alone(name):
    [policy] = documents("ValidatingAdmissionPolicy", name=name)
    [binding] = documents("ValidatingAdmissionPolicyBinding", name=name)
    [condition] = policy["spec"]["matchConditions"]
    user = f"system:serviceaccount:{LEASE_NAMESPACE}:numaforge-rollout"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert (policy["spec"]["failurePolicy"], binding["spec"]["validationActions"]) == ("Fail", ["Deny"])
    assert binding["spec"]["policyName"] == name


def test_the_policy_permits_every_label_and_annotation_that_a_roll_out_writes():
    [policy] = documents("ValidatingAdmissionPolicy", name="numaforge-rollout-nodes")
    listed = {
        variable["name"]: set(re.findall("'([^']+)'", variable["expression"]))
        for variable in policy["spec"]["variables"]
    }
    assert (listed["labels"], listed["annotations"]) == (WRITTEN, {MARK})


def test_nodes_proxy_is_granted_to_who_takes_the_comment_away():
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
