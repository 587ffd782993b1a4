//go:build !from37

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func (n *Node) admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	return n.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: n.pods})
}
