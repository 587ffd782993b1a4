// Print the ResourceSlices that the CPU driver (dra.cpu) publishes of machines whose /sys is in folders.
//
// The driver's own code reads the machine and publishes: the part of its Start that needs a kubelet and a
// container runtime is left out. Its fields are its own, and are set by reflection.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"unsafe"

	"github.com/go-logr/logr"
	"github.com/kubernetes-sigs/dra-driver-cpu/pkg/cpuinfo"
	"github.com/kubernetes-sigs/dra-driver-cpu/pkg/device"
	"github.com/kubernetes-sigs/dra-driver-cpu/pkg/driver"
	"github.com/kubernetes-sigs/dra-driver-cpu/pkg/store"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/cpuset"
)

// asked is one node: the root of its files, and what the driver is told.
type asked struct {
	Root         string `json:"root"`
	Node         string `json:"node"`
	Mode         string `json:"mode"`
	GroupBy      string `json:"groupBy"`
	ReservedCPUs string `json:"reservedCPUs"`
}

// kept stands for the kubelet's side, to which the driver hands what it publishes.
type kept struct{ resources resourceslice.DriverResources }

func (k *kept) PublishResources(_ context.Context, resources resourceslice.DriverResources) error {
	k.resources = resources
	return nil
}

func (k *kept) Stop() {}

func set(plugin *driver.CPUDriver, name string, value any) {
	field := reflect.ValueOf(plugin).Elem().FieldByName(name)
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

func published(node asked) (map[string]resourceslice.Pool, error) {
	if err := os.Setenv("HOST_ROOT", node.Root); err != nil {
		return nil, err
	}
	reserved, err := cpuset.Parse(node.ReservedCPUs)
	if err != nil {
		return nil, err
	}
	sysfs := os.DirFS(filepath.Join(node.Root, "sys")).(device.SysFS)
	online, err := cpuinfo.OnlineCPUs(logr.Discard(), sysfs)
	if err != nil {
		return nil, err
	}
	topology, err := cpuinfo.NewSystemCPUInfo().GetCPUTopology(logr.Discard())
	if err != nil {
		return nil, err
	}
	config, receiver, plugin := driver.Config{}, &kept{}, &driver.CPUDriver{}
	for name, value := range map[string]any{
		"nodeName":                node.Node,
		"draPlugin":               receiver,
		"cpuTopology":             topology,
		"reservedCPUs":            reserved,
		"onlineCPUs":              online,
		"cpuDeviceMode":           node.Mode,
		"cpuDeviceGroupBy":        node.GroupBy,
		"pcieRootMapper":          store.NewPCIeRootMapper(),
		"devicesPerResourceSlice": config.DevicesPerResourceSlice(),
	} {
		set(plugin, name, value)
	}
	plugin.PublishResources(context.Background())
	return receiver.resources.Pools, nil
}

func main() {
	input, output := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for input.More() {
		var node asked
		err := input.Decode(&node)
		var pools map[string]resourceslice.Pool
		if err == nil {
			pools, err = published(node)
		}
		if err == nil {
			err = output.Encode(pools)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
