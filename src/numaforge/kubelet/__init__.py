"""The kubelet's own rules: how it reads its configuration, whether it would start, which pods it would admit.

Each imports only from those before it: `checkpoints`, `findings` and `last_words`, `config`, `admission`,
`startup`. What differs between kubelets is in `kubelet_minors`.
"""
