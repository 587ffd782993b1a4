"""One module per command of the CLI."""
