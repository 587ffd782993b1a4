"""Data of every host; a group's data wins over it."""

ssh_user = "root"

# Hosts are reached as `ssh HOST` reaches them: for a bastion, or keys of their own, write ProxyJump and
# IdentityFile for these hosts into ~/.ssh/config.

# How long a kubelet may take to become healthy after a change, and how long it then has to stay so; a kubelet
# that does not gets its old files back. In seconds.
kubelet_start_seconds = 120
kubelet_stable_seconds = 30
