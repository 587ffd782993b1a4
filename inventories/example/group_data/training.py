"""Training nodes: the ready profile as it is. `numaforge plan --profile training` shows what it decides."""

numaforge_profile = "training"
