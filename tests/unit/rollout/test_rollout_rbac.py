"""docs/rollout-rbac.yaml grants exactly the permissions that a roll-out needs."""

from __future__ import annotations

from pathlib import Path

import yaml

from numaforge.rollout.cluster import Permission
from numaforge.rollout.kubectl import permissions

MANIFEST = Path(__file__).parents[3] / "docs" / "rollout-rbac.yaml"


def documents(*kinds):
    return [document for document in yaml.safe_load_all(MANIFEST.read_text()) if document["kind"] in kinds]


def granted(role):
    return {
        Permission(verb, resource, group, role["metadata"].get("namespace"))
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_roles_grant_what_a_roll_out_needs_and_nothing_more():
    roles = documents("ClusterRole", "Role")
    assert set().union(*map(granted, roles)) == set(permissions())


def test_a_login_may_ask_whether_the_api_server_is_ready():
    [cluster_role] = documents("ClusterRole")
    [rule] = [rule for rule in cluster_role["rules"] if "nonResourceURLs" in rule]
    assert rule == {"nonResourceURLs": ["/readyz"], "verbs": ["get"]}


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
