"""The suite that compares live nodes with the plans saved on them: pytest and testinfra, run by `suite`."""
