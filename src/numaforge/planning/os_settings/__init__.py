"""A plan as the settings of an operating system without a shell: Talos, Bottlerocket."""
