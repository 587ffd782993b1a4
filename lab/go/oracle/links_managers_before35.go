//go:build !from35

package main

import (
	_ "unsafe" // go:linkname

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"
)

//go:linkname getReservedCPUs k8s.io/kubernetes/cmd/kubelet/app.getReservedCPUs
func getReservedCPUs(machine *cadvisorapi.MachineInfo, cpus string) (cpuset.CPUSet, error)

//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(socket string, nodes []cadvisorapi.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)
