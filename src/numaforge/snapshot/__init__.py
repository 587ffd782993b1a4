"""A machine as raw text: capture it from a live host, a directory or a saved file; interpret nothing."""
