// Gpudriver stands in for NVIDIA's DRA driver on a lab node: it publishes every
// PCI display device of vendor 0x10de under NVIDIA's names, prepares claims
// through the kubelet's gRPC API, and names a claim's GPUs to its containers
// through CDI.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driverName = "gpu.nvidia.com"
	pciDevices = "/sys/bus/pci/devices"
	cdiKind    = "lab.example/gpu"
	cdiFolder  = "/var/run/cdi"
	visible    = "NVIDIA_VISIBLE_DEVICES"
)

type driver struct {
	pool      string
	addresses map[string]string // PCI address by the name of the device
	fatal     context.CancelCauseFunc
}

func read(address, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(pciDevices, address, name))
	return strings.TrimSpace(string(text)), err
}

// gpus lists the PCI addresses of GPUs in their order, in which NVIDIA's kernel
// module numbers them, too.
func gpus() ([]string, error) {
	entries, err := os.ReadDir(pciDevices)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		vendor, vendorErr := read(entry.Name(), "vendor")
		class, classErr := read(entry.Name(), "class")
		if err := errors.Join(vendorErr, classErr); err != nil {
			return nil, err
		}
		if vendor == "0x10de" && strings.HasPrefix(class, "0x03") {
			found = append(found, entry.Name())
		}
	}
	return found, nil
}

// offered describes a GPU as NVIDIA's driver does, as far as /sys can tell.
func offered(name, address, product string) (resource.Device, error) {
	kind := "gpu"
	attributes := map[resource.QualifiedName]resource.DeviceAttribute{
		"type":        {StringValue: &kind},
		"productName": {StringValue: &product},
	}
	busID, busErr := deviceattribute.GetPCIBusIDAttribute(address)
	root, rootErr := deviceattribute.GetPCIeRootAttributeByPCIBusID(address)
	place, placeErr := deviceattribute.GetNUMANodeAttributeByPCIBusID(address, deviceattribute.ScalarAttribute)
	if err := errors.Join(busErr, rootErr, placeErr); err != nil {
		return resource.Device{}, err
	}
	for _, each := range []deviceattribute.DeviceAttribute{busID, root, place} {
		attributes[each.Name] = each.Value
	}
	return resource.Device{Name: name, Attributes: attributes}, nil
}

// PrepareResourceClaims writes a CDI file for each claim, whose device has the
// addresses of the claim's GPUs in its environment.
func (d *driver) PrepareResourceClaims(
	_ context.Context, claims []*resource.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	prepared := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		prepared[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
		log.Printf("prepared %s/%s: %v, %v", claim.Namespace, claim.Name, devices, err)
	}
	return prepared, nil
}

func (d *driver) prepare(claim *resource.ResourceClaim) ([]kubeletplugin.Device, error) {
	var addresses []string
	var devices []kubeletplugin.Device
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		address, known := d.addresses[result.Device]
		if result.Pool != d.pool || !known {
			return nil, fmt.Errorf("%s/%s is no GPU of this node", result.Pool, result.Device)
		}
		addresses = append(addresses, address)
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			CDIDeviceIDs: []string{fmt.Sprintf("%s=%s", cdiKind, claim.UID)},
		})
	}
	return devices, writeCDI(claim.UID, addresses)
}

func cdiFile(claim types.UID) string {
	return filepath.Join(cdiFolder, fmt.Sprintf("lab-gpu-%s.json", claim))
}

func writeCDI(claim types.UID, addresses []string) error {
	environment := fmt.Sprintf("%s=%s", visible, strings.Join(addresses, ","))
	text, err := json.Marshal(map[string]any{
		"cdiVersion": "0.6.0",
		"kind":       cdiKind,
		"devices": []any{map[string]any{
			"name":           claim,
			"containerEdits": map[string]any{"env": []string{environment}},
		}},
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cdiFolder, 0o755); err != nil {
		return err
	}
	making := cdiFile(claim) + ".making"
	if err := os.WriteFile(making, text, 0o644); err != nil {
		return err
	}
	return os.Rename(making, cdiFile(claim))
}

// UnprepareResourceClaims removes the CDI files.
func (d *driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	done := map[types.UID]error{}
	for _, claim := range claims {
		done[claim.UID] = nil
		if err := os.Remove(cdiFile(claim.UID)); err != nil && !errors.Is(err, os.ErrNotExist) {
			done[claim.UID] = err
		}
		log.Printf("put back %s: %v", claim.NamespacedName, done[claim.UID])
	}
	return done, nil
}

// HandleError ends the driver where what it publishes is refused.
func (d *driver) HandleError(_ context.Context, err error, message string) {
	log.Printf("%s: %v", message, err)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.fatal(err)
	}
}

// WatchHealthStatus says that the health of GPUs is not known.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	node := flag.String("node-name", "", "the Node's name")
	product := flag.String("product", "NVIDIA H100 80GB HBM3", "the GPUs' productName")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	addresses, err := gpus()
	if err != nil {
		return err
	}
	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, fatal := context.WithCancelCause(stopped)
	own := &driver{pool: *node, addresses: map[string]string{}, fatal: fatal}
	var devices []resource.Device
	for minor, address := range addresses {
		name := fmt.Sprintf("gpu-%d", minor)
		device, err := offered(name, address, *product)
		if err != nil {
			return err
		}
		own.addresses[name] = address
		devices = append(devices, device)
	}
	if err := os.MkdirAll(filepath.Join(kubeletplugin.KubeletPluginsDir, driverName), 0o750); err != nil {
		return err
	}
	plugin, err := kubeletplugin.Start(ctx, own,
		kubeletplugin.DriverName(driverName), kubeletplugin.NodeName(*node), kubeletplugin.KubeClient(client))
	if err != nil {
		return err
	}
	defer plugin.Stop()
	slice := resourceslice.Slice{Devices: slices.Clip(devices)}
	pools := map[string]resourceslice.Pool{*node: {Slices: []resourceslice.Slice{slice}}}
	if err := plugin.PublishResources(ctx, resourceslice.DriverResources{Pools: pools}); err != nil {
		return err
	}
	log.Printf("published %d GPUs", len(devices))
	<-ctx.Done()
	if stopped.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
