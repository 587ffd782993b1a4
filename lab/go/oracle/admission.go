package main

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

// An Operation admits a pod, removes one, or restarts the kubelet, which then admits its pods again.
type Operation struct {
	Name    string     `json:"name"`
	Spec    v1.PodSpec `json:"spec"`
	Remove  string     `json:"remove"`
	Restart bool       `json:"restart"`
}

// An Admission is the kubelet's answer for one pod; Containers is what those of an admitted pod got.
type Admission struct {
	Name       string           `json:"name"`
	Admit      bool             `json:"admit"`
	Reason     string           `json:"reason,omitempty"`
	Message    string           `json:"message,omitempty"`
	Containers map[string]Share `json:"containers,omitempty"`
}

// A Share is what one container got: exclusive CPUs, blocks of memory, device ids by resource.
type Share struct {
	CPUs    string              `json:"cpus,omitempty"`
	Memory  []string            `json:"memory,omitempty"`
	Devices map[string][]string `json:"devices,omitempty"`
}

// A Restart has the state files from which the kubelet starts again; Error is what it died with, empty where it did not.
type Restart struct {
	State map[string]string `json:"state"`
	Error string            `json:"error,omitempty"`
}

func (n *Node) remove(name string) {
	n.pods = slices.DeleteFunc(slices.Clone(n.pods), func(pod *v1.Pod) bool { return pod.Name == name })
	n.show(n.pods)
}

func (n *Node) operate(operation Operation) *Admission {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: operation.Name, UID: types.UID(operation.Name)}, Spec: operation.Spec}
	defaults.SetObjectDefaults_Pod(pod)
	return n.put(pod)
}

func (n *Node) put(pod *v1.Pod) *Admission {
	// As in the kubelet, a pod is active while it is admitted, and no longer once it is refused.
	n.show(append(slices.Clone(n.pods), pod))
	result := n.admit(pod)
	if !result.Admit {
		n.show(n.pods)
		return &Admission{Name: pod.Name, Reason: result.Reason, Message: result.Message}
	}
	n.pods = n.activePods()
	admission := &Admission{Name: pod.Name, Admit: true, Containers: map[string]Share{}}
	for _, container := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		admission.Containers[container.Name] = n.share(pod.Name, container.Name)
	}
	return admission
}

func (n *Node) share(pod, container string) Share {
	share := Share{}
	if cpus, exclusive := n.cpus.State().GetCPUAssignments()[pod][container]; exclusive {
		share.CPUs = cpus.String()
	}
	if n.memory != nil {
		for _, block := range n.memory.State().GetMemoryBlocks(pod, container) {
			share.Memory = append(share.Memory, fmt.Sprintf("%s@%v=%d", block.Type, block.NUMAAffinity, block.Size))
		}
		slices.Sort(share.Memory)
	}
	for name, devices := range n.devices.GetDevices(pod, container) {
		if share.Devices == nil {
			share.Devices = map[string][]string{}
		}
		for id := range devices {
			share.Devices[name] = append(share.Devices[name], id)
		}
		slices.Sort(share.Devices[name])
	}
	return share
}
