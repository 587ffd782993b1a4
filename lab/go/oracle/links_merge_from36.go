//go:build from36

package main

import (
	_ "unsafe" // go:linkname

	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

//go:linkname linkedMergeKubeletConfigurations k8s.io/kubernetes/cmd/kubelet/app.mergeKubeletConfigurations
func linkedMergeKubeletConfigurations(config *kubeletconfig.KubeletConfiguration, folder string) ([]string, error)

func mergeKubeletConfigurations(config *kubeletconfig.KubeletConfiguration, folder string) error {
	_, err := linkedMergeKubeletConfigurations(config, folder)
	return err
}
