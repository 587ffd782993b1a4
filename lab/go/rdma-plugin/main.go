// Answers, with the shared RDMA device plugin's own code, whether it starts with a configuration and which devices
// each of its resources gets.
//
// Reads one question per line on standard input, writes one answer per line on standard output, both JSON.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/Mellanox/k8s-rdma-shared-dev-plugin/pkg/resources"
	"github.com/Mellanox/k8s-rdma-shared-dev-plugin/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A Question is the text of config.json, and the PCI functions that the plugin finds fit for use.
type Question struct {
	Config    string     `json:"config"`
	Functions []Function `json:"functions"`
}

// A Function is what the plugin knows of a PCI function: what its selectors look at.
type Function struct {
	Address   string `json:"address"`
	Vendor    string `json:"vendor"`
	Device    string `json:"device"`
	Driver    string `json:"driver"`
	Interface string `json:"interface"`
	LinkType  string `json:"link_type"`
}

func (f Function) GetPciAddr() string                   { return f.Address }
func (f Function) GetVendor() string                    { return f.Vendor }
func (f Function) GetDeviceID() string                  { return f.Device }
func (f Function) GetDriver() string                    { return f.Driver }
func (f Function) GetIfName() string                    { return f.Interface }
func (f Function) GetLinkType() string                  { return f.LinkType }
func (f Function) GetRdmaSpec() []*pluginapi.DeviceSpec { return nil }

// An Answer says what the plugin ends with, empty where it starts; Read, whether it could read the text.
// Selected are the addresses that each resource gets, in the order of the configuration.
type Answer struct {
	Error    string     `json:"error"`
	Read     bool       `json:"read"`
	Selected [][]string `json:"selected,omitempty"`
}

func main() {
	log.SetOutput(io.Discard)
	answers := json.NewEncoder(os.Stdout)
	os.Stdout = nil // the plugin prints there
	folder, err := os.MkdirTemp("", "rdma-oracle-")
	if err != nil {
		log.Panic(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "config.json")
	questions := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := questions.ReadBytes('\n')
		if err != nil {
			return
		}
		var question Question
		if err := json.Unmarshal(line, &question); err != nil {
			log.Panic(err)
		}
		if err := os.WriteFile(file, []byte(question.Config), 0o600); err != nil {
			log.Panic(err)
		}
		if err := answers.Encode(answer(file, &question)); err != nil {
			log.Panic(err)
		}
	}
}

func answer(file string, question *Question) Answer {
	manager := resources.NewResourceManager(file, false)
	if err := manager.ReadConfig(); err != nil {
		return Answer{Error: err.Error()}
	}
	if err := manager.ValidateConfigs(); err != nil {
		return Answer{Error: err.Error(), Read: true}
	}
	devices := make([]types.PciNetDevice, len(question.Functions))
	for index, function := range question.Functions {
		devices[index] = function
	}
	// The manager keeps its list to itself; what it does with `devices` is the end of ValidateConfigs.
	config := types.UserConfigList{}
	if err := json.Unmarshal([]byte(question.Config), &config); err != nil {
		log.Panic(err)
	}
	result := Answer{Read: true}
	for _, resource := range config.ConfigList {
		selectors := resource.Selectors
		if len(resource.Devices) > 0 {
			selectors.IfNames = resource.Devices
		}
		selected := []string{}
		for _, device := range manager.GetFilteredDevices(devices, &selectors) {
			selected = append(selected, device.GetPciAddr())
		}
		result.Selected = append(result.Selected, selected)
	}
	return result
}
