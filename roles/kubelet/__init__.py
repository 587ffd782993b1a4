"""The kubelet's configuration; the kubelet restarts only where its effective settings change."""
