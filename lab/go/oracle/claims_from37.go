//go:build from37

package main

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Claims are to be allocated on a node, beside those that are.
type Claims struct {
	Node    v1.Node                      `json:"node"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Classes classes                      `json:"classes"`
	Held    []resourceapi.ResourceClaim  `json:"held"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return c, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "deviceclasses"}, name)
}

// The features that are on in 1.37 with its gates as they are.
var features = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

func init() {
	readers["claims"] = allocated
}

// allocated returns the devices of each claim as JSON, null where there are none for all of them.
func allocated(text string) (string, error) {
	var asked Claims
	if err := json.Unmarshal([]byte(text), &asked); err != nil {
		return "", err
	}
	cache := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true})
	allocator, err := structured.NewAllocator(context.Background(), features, state(asked.Held), asked.Classes, asked.Slices, cache)
	if err != nil {
		return "", err
	}
	results, err := allocator.Allocate(context.Background(), &asked.Node, asked.Claims)
	if err != nil {
		return "", err
	}
	var names [][]string
	for _, result := range results {
		own := []string{}
		for _, device := range result.Devices.Results {
			own = append(own, device.Driver+"/"+device.Pool+"/"+device.Device)
		}
		names = append(names, own)
	}
	printed, err := json.Marshal(names)
	return string(printed), err
}

func state(held []resourceapi.ResourceClaim) structured.AllocatedState {
	found := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range held {
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case result.AdminAccess != nil && *result.AdminAccess:
			case result.ShareID != nil:
				found.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, result.ShareID))
				found.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity))
			default:
				found.AllocatedDevices.Insert(device)
			}
		}
	}
	return found
}
