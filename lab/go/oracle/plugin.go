package main

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A Device is what a device plugin advertises; Nodes is nil where it says nothing about topology.
type Device struct {
	ID      string  `json:"id"`
	Nodes   []int64 `json:"numa_nodes"`
	Healthy bool    `json:"healthy"`
}

// A devicePlugin is a device plugin without its socket. Its preferred devices are those that must be included and
// then the first ones as they were listed.
type devicePlugin struct {
	pluginapi.DevicePluginClient
	resource string
	devices  []Device
}

func (p *devicePlugin) API() pluginapi.DevicePluginClient { return p }
func (p *devicePlugin) Resource() string                  { return p.resource }
func (p *devicePlugin) SocketPath() string                { return "" }

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p *devicePlugin) GetPreferredAllocation(_ context.Context, request *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	response := &pluginapi.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		chosen := slices.Clone(container.MustIncludeDeviceIDs)
		for _, device := range p.devices {
			if len(chosen) < int(container.AllocationSize) && !slices.Contains(chosen, device.ID) &&
				slices.Contains(container.AvailableDeviceIDs, device.ID) {
				chosen = append(chosen, device.ID)
			}
		}
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return response, nil
}

func (p *devicePlugin) Allocate(_ context.Context, request *pluginapi.AllocateRequest, _ ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	for range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerAllocateResponse{})
	}
	return response, nil
}

func (p *devicePlugin) list() *pluginapi.ListAndWatchResponse {
	response := &pluginapi.ListAndWatchResponse{}
	for _, device := range p.devices {
		listed := &pluginapi.Device{ID: device.ID, Health: pluginapi.Unhealthy}
		if device.Healthy {
			listed.Health = pluginapi.Healthy
		}
		if device.Nodes != nil {
			listed.Topology = &pluginapi.TopologyInfo{}
			for _, node := range device.Nodes {
				listed.Topology.Nodes = append(listed.Topology.Nodes, &pluginapi.NUMANode{ID: node})
			}
		}
		response.Devices = append(response.Devices, listed)
	}
	return response
}
