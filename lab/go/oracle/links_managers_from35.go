//go:build from35

package main

import (
	_ "unsafe" // go:linkname

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"
)

//go:linkname linkedGetReservedCPUs k8s.io/kubernetes/cmd/kubelet/app.getReservedCPUs
func linkedGetReservedCPUs(logger klog.Logger, machine *machineInfo, cpus string) (cpuset.CPUSet, error)

//go:linkname linkedNewManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func linkedNewManagerImpl(logger klog.Logger, socket string, nodes []numaNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

func getReservedCPUs(machine *machineInfo, cpus string) (cpuset.CPUSet, error) {
	return linkedGetReservedCPUs(klog.Background(), machine, cpus)
}

func newDeviceManager(socket string, nodes []numaNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return linkedNewManagerImpl(klog.Background(), socket, nodes, store)
}
