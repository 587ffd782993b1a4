"""What a machine delivers, measured by installed programs, compared with what its links can carry.

`tasks` decides what is measured on a machine, `measure.sh` runs it there, `outputs` reads what programs
print, `limits` has what a link can carry, `record` is what is kept on the node, `siblings` compares machines.
"""

from numaforge.measure.record import Figure, Measurement, MeasurementError

__all__ = ["Figure", "Measurement", "MeasurementError"]
