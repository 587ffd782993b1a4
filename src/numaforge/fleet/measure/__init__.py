"""A machine's performance, measured by installed programs, compared with its links and with its siblings."""

from numaforge.fleet.measure.record import Figure, Measurement, MeasurementError

__all__ = ["Figure", "Measurement", "MeasurementError"]
