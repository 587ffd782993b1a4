"""How much memory a command takes at the most."""

from numaforge.lib import bounded

PEAK_MIB = 8 * bounded.MOST_MIB
"""Of a run: its own program, and the output within the limit as bytes, as lines and as their text."""
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
sys.exit(code)
"""
