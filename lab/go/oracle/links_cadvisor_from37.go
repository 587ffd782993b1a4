//go:build from37

package main

import cadvisorapi "github.com/google/cadvisor/lib/model"

type (
	machineInfo   = cadvisorapi.MachineInfo
	numaNode      = cadvisorapi.Node
	numaCore      = cadvisorapi.Core
	cpuCache      = cadvisorapi.Cache
	hugePagesInfo = cadvisorapi.HugePagesInfo
)
