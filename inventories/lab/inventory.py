"""The running nodes of the lab, as pyinfra's hosts."""

from pyinfra.api.exceptions import PyinfraError

from lab.cluster import Lab

gpu_workers = list(Lab().inventory().items())

if not gpu_workers:
    raise PyinfraError("the lab is not running: make lab-up")
