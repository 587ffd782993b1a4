// Labels of GPU feature discovery for recorded machines: record_discovered_labels.py puts it into internal/lm.

package lm

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	spec "github.com/NVIDIA/k8s-device-plugin/api/config/v1"
	"github.com/NVIDIA/k8s-device-plugin/internal/resource"
	mock "github.com/NVIDIA/k8s-device-plugin/internal/resource/testing"
)

type recordedGpu struct {
	Name       string
	Memory     uint64 // MiB
	Capability [2]int
	MigCapable bool
	Mig        []string // profiles; null without MIG
}

type recordedMachine struct {
	Gpus    []recordedGpu
	Driver  string
	Cuda    [2]int
	Product string
	Config  json.RawMessage
}

func device(g recordedGpu) resource.Device {
	d := mock.NewDeviceMock(g.Mig != nil)
	d.GetNameFunc = func() (string, error) { return g.Name, nil }
	d.GetTotalMemoryMiBFunc = func() (uint64, error) { return g.Memory, nil }
	d.GetCudaComputeCapabilityFunc = func() (int, int, error) { return g.Capability[0], g.Capability[1], nil }
	d.IsMigCapableFunc = func() (bool, error) { return g.MigCapable, nil }
	d.GetPCIClassFunc = func() (uint32, error) { return 0x030200, nil }
	var instances []*resource.DeviceMock
	for _, profile := range g.Mig {
		instance := mock.NewMigDevice(1, 1, 1)
		instance.GetNameFunc = func() (string, error) { return profile, nil }
		instances = append(instances, instance)
	}
	return d.WithMigDevices(instances...)
}

func TestRecorded(t *testing.T) {
	var machines []recordedMachine
	read(t, os.Getenv("QUESTIONS"), &machines)
	answers := []Labels{}
	for _, m := range machines {
		var config spec.Config
		if err := json.Unmarshal(m.Config, &config); err != nil {
			t.Fatal(err)
		}
		file := t.TempDir() + "/product"
		if err := os.WriteFile(file, []byte(m.Product), 0o600); err != nil {
			t.Fatal(err)
		}
		config.Flags.GFD = &spec.GFDCommandLineFlags{MachineTypeFile: &file}
		var devices []resource.Device
		for _, gpu := range m.Gpus {
			devices = append(devices, device(gpu))
		}
		manager := mock.NewManagerMockWithDevices(devices...)
		manager.GetDriverVersionFunc = func() (string, error) { return m.Driver, nil }
		manager.GetCudaDriverVersionFunc = func() (int, int, error) { return m.Cuda[0], m.Cuda[1], nil }
		labeler, err := NewDeviceLabeler(manager, &config)
		if err != nil {
			answers = append(answers, Labels{"error": strings.TrimSpace(err.Error())})
			continue
		}
		labels, err := labeler.Labels()
		if err != nil {
			labels = Labels{"error": strings.TrimSpace(err.Error())}
		}
		answers = append(answers, labels)
	}
	text, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("ANSWERS"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string, into any) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
