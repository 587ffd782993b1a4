//go:build !from35

package main

import (
	_ "unsafe" // go:linkname

	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"
)

//go:linkname getReservedCPUs k8s.io/kubernetes/cmd/kubelet/app.getReservedCPUs
func getReservedCPUs(machine *machineInfo, cpus string) (cpuset.CPUSet, error)

//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(socket string, nodes []numaNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error)
