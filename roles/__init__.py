"""One package per concern on a host; each reads the plan and decides nothing."""
