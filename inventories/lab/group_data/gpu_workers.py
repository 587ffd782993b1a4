"""Host data of the lab's GPU workers."""

numaforge_profile = "training"
