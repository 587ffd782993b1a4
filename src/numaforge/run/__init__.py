"""pyinfra's side: what deploys call, and how a run asks and changes its hosts.

Imports inside functions are those that a dry run, or a host without a cluster, does not need.
"""
