"""A machine's performance, measured by installed programs, compared with the limits of its links.

`tasks` decides what to measure, `measure.sh` runs it on the node, `outputs` reads programs' outputs, `limits`
has the limits of links, `record` the saved document, `siblings` compares machines.
"""

from numaforge.fleet.measure.record import Figure, Measurement, MeasurementError

__all__ = ["Figure", "Measurement", "MeasurementError"]
