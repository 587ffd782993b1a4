"""What a kubelet runs with: who may read it, and where its own node asks."""

import json
from dataclasses import replace

import pytest

from numaforge.machine.topology.model import KubeletInstall
from numaforge.rollout.cluster import ClusterError
from numaforge.rollout.configz import (
    KubeletEndpoint,
    SilentKubeletError,
    UnreadableConfigError,
    kubelet_endpoint,
    read_answer,
    refuse_unreadable,
)
from numaforge.rollout.record import Ending
from tests.fixtures.answers import answered
from tests.fixtures.tables import cases

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
PKI = "/var/lib/kubelet/pki"
DOOR = KubeletEndpoint(
    address="127.0.0.1",
    port=10250,
    kubeconfig="/etc/kubernetes/kubelet.conf",
    rotated=f"{PKI}/kubelet-client-current.pem",
    serving=(f"{PKI}/kubelet-server-current.pem", f"{PKI}/kubelet.crt"),
)
KUBEADM = KubeletInstall(
    version="1.36.3",
    unit="kubelet.service",
    config_file="/var/lib/kubelet/config.yaml",
    config_dir="/etc/kubernetes/kubelet.conf.d",
    flags=(
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config=/var/lib/kubelet/config.yaml",
        "--config-dir=/etc/kubernetes/kubelet.conf.d",
    ),
    config_text=HEADER,
)


def with_flags(*flags: str) -> KubeletInstall:
    return replace(KUBEADM, flags=(*KUBEADM.flags, *flags))


@cases(
    "install, endpoint",
    {
        "as-kubeadm-sets-it-up": (KUBEADM, DOOR),
        "port-and-address-of-the-main-file": (
            replace(KUBEADM, config_text=f"{HEADER}port: 10350\naddress: 10.0.0.7\n"),
            replace(DOOR, address="10.0.0.7", port=10350),
        ),
        "every-address-is-loopback": (
            replace(KUBEADM, config_text=f'{HEADER}address: "::"\n'),
            replace(DOOR, address="::1"),
        ),
        "port-of-a-drop-in": (
            replace(KUBEADM, drop_ins={"/etc/kubernetes/kubelet.conf.d/10.conf": f"{HEADER}port: 10350\n"}),
            replace(DOOR, port=10350),
        ),
        "port-of-a-flag": (with_flags("--port=10350"), replace(DOOR, port=10350)),
        "a-certificate-of-the-admin-s": (
            replace(KUBEADM, config_text=f"{HEADER}tlsCertFile: /etc/tls/own.crt\n"),
            replace(DOOR, serving=("/etc/tls/own.crt", *DOOR.serving)),
        ),
        "another-folder-of-certificates": (
            with_flags("--cert-dir=/srv/pki"),
            replace(
                DOOR,
                rotated="/srv/pki/kubelet-client-current.pem",
                serving=("/srv/pki/kubelet-server-current.pem", "/srv/pki/kubelet.crt"),
            ),
        ),
        "what-cannot-be-loaded-says-nothing": (replace(KUBEADM, config_text="maxPods: many\n"), DOOR),
    },
)
def test_kubelet_endpoint_follows_flags_and_config(install, endpoint):
    assert kubelet_endpoint(install) == endpoint


@cases(
    "answer, error, said",
    {
        "no-means": ({"unreadable": "no python3"}, UnreadableConfigError, "no python3"),
        "forbidden": (
            {"status": 403, "body": "Forbidden (user=system:node:gpu-1, verb=get, resource=nodes)\n"},
            UnreadableConfigError,
            r"refuses it to its own node \(403: Forbidden \(user=system:node:gpu-1",
        ),
        "the-certificate-is-not-asked-for": (
            {"status": 401, "body": "Unauthorized"},
            UnreadableConfigError,
            "401",
        ),
        "no-debugging-handlers": (
            {"status": 404, "body": "404 page not found"},
            UnreadableConfigError,
            "404",
        ),
        "nothing-listens": ({"silent": "connection refused"}, SilentKubeletError, "connection refused"),
        "the-kubelet-cannot-ask-who-may": (
            {"status": 500, "body": "Authorization error"},
            SilentKubeletError,
            "500: Authorization error",
        ),
    },
)
def test_kubelet_that_refuses_its_node_gives_the_reason(answer, error, said):
    with pytest.raises(error, match=said):
        read_answer(answered("motd", json.dumps(answer)))


def test_running_config_is_unwrapped_from_its_envelope():
    body = json.dumps({"kubeletconfig": {"cpuManagerPolicy": "static"}})
    assert read_answer(answered(json.dumps({"status": 200, "body": body}))) == {"cpuManagerPolicy": "static"}


# Who may read it is settled before anything is touched.


@pytest.mark.parametrize(
    ("unreadable", "denied"),
    [
        pytest.param("", {"get nodes/proxy"}, id="the-node-reads-it"),
        pytest.param("the kubelet refuses it to its own node (403)", set(), id="the-login-reads-it"),
    ],
)
def test_either_node_or_login_reading_configz_is_enough(world, unreadable, denied):
    world.trouble(unreadable=unreadable)
    world.cluster.denied |= denied
    assert world.run().ending is Ending.DONE


def test_hosts_that_cannot_read_configz_are_refused_together(world):
    refuse_unreadable(world.cluster, {"gpu-2": "no python3", "gpu-1": "403"})
    world.cluster.denied.add("get nodes/proxy")
    refuse_unreadable(world.cluster, {})
    with pytest.raises(ClusterError, match="gpu-1: 403\n  gpu-2: no python3\n  let the nodes read it"):
        refuse_unreadable(world.cluster, {"gpu-2": "no python3", "gpu-1": "403"})
