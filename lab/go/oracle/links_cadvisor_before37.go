//go:build !from37

package main

import cadvisorapi "github.com/google/cadvisor/info/v1"

type (
	machineInfo   = cadvisorapi.MachineInfo
	numaNode      = cadvisorapi.Node
	numaCore      = cadvisorapi.Core
	cpuCache      = cadvisorapi.Cache
	hugePagesInfo = cadvisorapi.HugePagesInfo
)
