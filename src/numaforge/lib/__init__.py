"""Knows nothing of numaforge: values and their notation, errors, files, shell, answers."""
