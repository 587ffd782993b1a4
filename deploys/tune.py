"""Kernel settings, interrupts, daemons and hugepages only: pyinfra INVENTORY deploys/tune.py

Pools that would change beside a running kubelet are refused: it has to restart with them.
"""

from numaforge.roles.system import system
from numaforge.roles.tuning import tuning

from numaforge.roles.hugepages import hugepages
from numaforge.roles.interrupts import interrupts
from numaforge.run.maintenance import maintenance
from numaforge.run.topology import topology

topology()
with maintenance():
    tuning()
    interrupts()
    system()
    hugepages()
