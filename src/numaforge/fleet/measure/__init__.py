"""A machine's performance, measured by installed programs, compared with its links and with its siblings."""
