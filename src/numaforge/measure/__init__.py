"""What a machine gives, measured by programs that are there, beside what its links can carry.

`tasks` says what is measured on a machine, `measure.sh` runs it there, `outputs` reads what programs print,
`limits` has what a link can carry, `record` is what is kept on the node, `siblings` compares machines.
"""

from numaforge.measure.record import Figure, Measurement, MeasurementError

__all__ = ["Figure", "Measurement", "MeasurementError"]
