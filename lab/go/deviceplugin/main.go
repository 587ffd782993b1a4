// Deviceplugin stands in for NVIDIA's device plugin on a lab node. Where NVML
// is there it offers the GPUs and the MIG devices that NVML shows (migStrategy
// mixed); else every PCI display device of vendor 0x10de as nvidia.com/gpu,
// with the NUMA node that sysfs names.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	fullGPU    = "nvidia.com/gpu"
	pciDevices = "/sys/bus/pci/devices"
	nvml       = "/usr/local/lib/libnvidia-ml.so.1"
	lister     = "/usr/lib/lab/nvml_devices.py"
)

// offers lists the devices of each resource that has some.
func offers() (map[string][]*api.Device, error) {
	if _, err := os.Stat(nvml); err != nil {
		return map[string][]*api.Device{fullGPU: gpus()}, nil
	}
	output, err := exec.Command(lister).Output()
	if err != nil {
		return nil, fmt.Errorf("ask NVML: %w", err)
	}
	found := map[string][]*api.Device{}
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		var resource, id, address string
		if _, err := fmt.Sscan(lines.Text(), &resource, &id, &address); err != nil {
			return nil, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		found[resource] = append(found[resource], at(id, address))
	}
	return found, nil
}

func attribute(device, name string) string {
	text, err := os.ReadFile(filepath.Join(pciDevices, device, name))
	if err != nil {
		log.Fatalf("read PCI device %s: %v", device, err)
	}
	return strings.TrimSpace(string(text))
}

// at returns a device on the NUMA node of a PCI function.
func at(id, address string) *api.Device {
	device := &api.Device{ID: id, Health: api.Healthy}
	numaNode, err := strconv.ParseInt(attribute(address, "numa_node"), 10, 64)
	if err != nil {
		log.Fatalf("NUMA node of PCI device %s: %v", address, err)
	}
	if numaNode >= 0 {
		device.Topology = &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: numaNode}}}
	}
	return device
}

// gpus lists the GPUs in the order of their PCI addresses, which are also
// their device ids: once, for none of them comes or goes.
var gpus = sync.OnceValue(func() []*api.Device {
	entries, err := os.ReadDir(pciDevices)
	if err != nil {
		log.Fatalf("list PCI devices: %v", err)
	}
	var found []*api.Device
	for _, entry := range entries {
		address := entry.Name()
		if attribute(address, "vendor") == "0x10de" && strings.HasPrefix(attribute(address, "class"), "0x03") {
			found = append(found, at(address, address))
		}
	}
	return found
})

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// ListAndWatch reports the devices once; their health never changes.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// GetPreferredAllocation answers with the devices that must be included and
// the lowest available ids besides.
func (p *plugin) GetPreferredAllocation(
	_ context.Context, request *api.PreferredAllocationRequest,
) (*api.PreferredAllocationResponse, error) {
	response := &api.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		chosen := slices.Clone(container.MustIncludeDeviceIDs)
		for _, id := range slices.Sorted(slices.Values(container.AvailableDeviceIDs)) {
			if len(chosen) >= int(container.AllocationSize) {
				break
			}
			if !slices.Contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
		response.ContainerResponses = append(response.ContainerResponses,
			&api.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return response, nil
}

// Allocate names the devices to the container the way NVIDIA's plugin does.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}

// serve registers every resource with the kubelet and returns when the socket
// of one is gone: a starting kubelet deletes every socket in its device plugin
// folder and expects the plugins to come back.
func serve(offers map[string][]*api.Device, changes <-chan struct{}) error {
	failed := make(chan error, len(offers))
	var sockets []string
	for _, resource := range slices.Sorted(maps.Keys(offers)) {
		name := "lab-" + strings.ReplaceAll(resource, "/", "-") + ".sock"
		socket := filepath.Join(api.DevicePluginPath, name)
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		api.RegisterDevicePluginServer(server, &plugin{devices: offers[resource]})
		go func() { failed <- server.Serve(listener) }()
		defer server.Stop()
		if err := register(resource, name); err != nil {
			return err
		}
		log.Printf("registered %d %s", len(offers[resource]), resource)
		sockets = append(sockets, socket)
	}
	for {
		select {
		case err := <-failed:
			return err
		case _, open := <-changes:
			if !open {
				return errors.New("the folder of device plugins is gone")
			}
			for _, socket := range sockets {
				if _, err := os.Stat(socket); err != nil {
					return fmt.Errorf("socket withdrawn: %w", err)
				}
			}
		}
	}
}

func register(resource, socketName string) error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	// The kubelet dials this plugin before it answers; one that gave up meanwhile is "already connected" to it.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     socketName,
		ResourceName: resource,
		Options:      &api.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	})
	return err
}

// watch tells of files that appear in the folder of device plugins or go, as
// NVIDIA's plugin has it told. The channel is closed when the folder is gone.
func watch() (<-chan struct{}, error) {
	descriptor, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	events := uint32(syscall.IN_CREATE | syscall.IN_DELETE | syscall.IN_ONLYDIR)
	if _, err := syscall.InotifyAddWatch(descriptor, api.DevicePluginPath, events); err != nil {
		syscall.Close(descriptor)
		return nil, err
	}
	changes := make(chan struct{}, 1)
	go func() {
		defer close(changes)
		defer syscall.Close(descriptor)
		buffer := make([]byte, 64<<10)
		for {
			count, err := syscall.Read(descriptor, buffer)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || ended(buffer[:count]) {
				return
			}
			select {
			case changes <- struct{}{}:
			default: // told already, and not looked at yet
			}
		}
	}()
	return changes, nil
}

// ended says whether one of inotify's events is that nothing is watched any more.
func ended(events []byte) bool {
	for len(events) >= syscall.SizeofInotifyEvent {
		mask, length := binary.NativeEndian.Uint32(events[4:]), binary.NativeEndian.Uint32(events[12:])
		if mask&syscall.IN_IGNORED != 0 {
			return true
		}
		events = events[syscall.SizeofInotifyEvent+int(length):]
	}
	return false
}

// run offers what is there until the kubelet starts again.
func run(changes <-chan struct{}) error {
	if _, err := os.Stat(api.KubeletSocket); err != nil {
		return fmt.Errorf("wait for the kubelet: %w", err)
	}
	devices, err := offers()
	if err != nil {
		return err
	}
	return serve(devices, changes)
}

// offer offers what is there for as long as the folder of device plugins is the same one.
func offer(report func(error)) {
	changes, err := watch()
	if err != nil {
		report(err)
		return
	}
	for open := true; open; {
		report(run(changes))
		select {
		case _, open = <-changes:
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func main() {
	log.SetFlags(0)
	reported := ""
	report := func(reason error) {
		if reason.Error() != reported {
			log.Printf("registering again: %s", reason)
			reported = reason.Error()
		}
	}
	for {
		offer(report)
		time.Sleep(200 * time.Millisecond)
	}
}
