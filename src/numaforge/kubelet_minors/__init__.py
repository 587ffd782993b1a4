"""What differs from one Kubernetes minor to the next: versions, feature gates, fields, flags, options."""
