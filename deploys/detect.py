"""Change nothing; save each host's snapshot and plan: pyinfra INVENTORY deploys/detect.py --data out=DIR"""

from numaforge.run.topology import record

record()
