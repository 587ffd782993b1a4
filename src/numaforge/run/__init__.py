"""pyinfra's side: what deploys call, and how a run asks and changes its hosts."""
