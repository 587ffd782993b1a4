"""The kubelet's own rules: how it reads its configuration, whether it would start, which pods it would admit.

Packages, each importing only from those before it: `values`, `minors`, `config`, `admission`, `startup`.
"""
