//go:build from37

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func (n *Node) admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	attributes := lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: n.pods, Operation: lifecycle.AddOperation}
	return n.topology.Admit(context.Background(), &attributes)
}
