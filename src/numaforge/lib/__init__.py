"""What knows nothing of numaforge: values and how they are written, errors, files, shell, answers."""
