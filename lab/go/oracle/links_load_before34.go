//go:build !from34

package main

import (
	"context"
	_ "unsafe" // go:linkname

	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

//go:linkname linkedLoadConfigFile k8s.io/kubernetes/cmd/kubelet/app.loadConfigFile
func linkedLoadConfigFile(name string) (*kubeletconfig.KubeletConfiguration, error)

func loadConfigFile(_ context.Context, name string) (*kubeletconfig.KubeletConfiguration, error) {
	return linkedLoadConfigFile(name)
}
