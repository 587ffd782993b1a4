//go:build from34

package main

import (
	"context"
	_ "unsafe" // go:linkname

	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

//go:linkname loadConfigFile k8s.io/kubernetes/cmd/kubelet/app.loadConfigFile
func loadConfigFile(ctx context.Context, name string) (*kubeletconfig.KubeletConfiguration, error)
