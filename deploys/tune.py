"""Kernel settings, interrupts, daemons and hugepages only: pyinfra INVENTORY deploys/tune.py

Pools that would change beside a running kubelet are refused: it has to restart with them.
"""

from numaforge.run.maintenance import maintenance
from numaforge.run.roles import hugepages, interrupts, system, tuning
from numaforge.run.topology import topology

topology()
with maintenance():
    tuning()
    interrupts()
    system()
    hugepages()
