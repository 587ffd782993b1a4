"""Kernel settings, interrupts, daemons and hugepages only: pyinfra INVENTORY deploys/tune.py

Pools that would change beside a running kubelet are refused: it has to restart with them.
"""

from numaforge.roles.hugepages import hugepages
from numaforge.roles.interrupts import interrupts
from numaforge.roles.maintenance import maintenance
from numaforge.roles.system import system
from numaforge.roles.topology import topology
from numaforge.roles.tuning import tuning

topology()
with maintenance():
    tuning()
    interrupts()
    system()
    hugepages()
