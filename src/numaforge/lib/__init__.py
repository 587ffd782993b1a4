"""What knows nothing of numaforge: values and how they are written, errors, files, shell, what answers look like."""
