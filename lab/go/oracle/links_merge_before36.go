//go:build !from36

package main

import (
	_ "unsafe" // go:linkname

	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

//go:linkname mergeKubeletConfigurations k8s.io/kubernetes/cmd/kubelet/app.mergeKubeletConfigurations
func mergeKubeletConfigurations(config *kubeletconfig.KubeletConfiguration, folder string) error
