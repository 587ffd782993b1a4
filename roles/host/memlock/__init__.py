"""Units that may pin as much memory as they want."""
