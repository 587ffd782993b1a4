"""What a reload of units takes away from a container that runs: with this runc and systemd, nothing."""

import pytest

from lab.cluster import Lab

DEVICE = "/dev/cpu_dma_latency"
"""A device that no container has by default."""


@pytest.mark.long
@pytest.mark.parametrize("link", [pytest.param("present", marks=pytest.mark.long), "absent"])
def test_container_keeps_its_device_across_a_daemon_reload(pristine: Lab, link: str) -> None:
    node = pristine.nodes[0]
    number = node.run(f"printf '%d:%d' 0x$(stat -c %t {DEVICE}) 0x$(stat -c %T {DEVICE})").strip()
    if link == "absent":
        node.run(f"rm /dev/char/{number}")
    node.run(
        "ctr -n k8s.io run -d --runc-systemd-cgroup --cgroup system.slice:lab:reload "
        f"--device {DEVICE} lab.example/busybox:1 reload sleep 10000"
    )
    read = f"ctr -n k8s.io tasks exec --exec-id $$ reload head -c 4 {DEVICE} | wc -c"
    assert node.run(read).strip() == "4"
    node.run("systemctl daemon-reload")
    assert node.run(read).strip() == "4"
    # Without what systemd knows of it, the device would be denied: this is what a reload enforces.
    assert f"/dev/char/{number}" in node.run("systemctl show -p DeviceAllow lab-reload.scope")
