package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
)

// reconciled is how often the CPU manager would look at the runtime's containers, of which there are none.
const reconciled = 1000 * time.Hour

// A Machine is what cAdvisor found.
type Machine struct {
	Memory uint64        `json:"memory"`
	Nodes  []MachineNode `json:"numa"`
}

// A MachineNode is one NUMA node; memory in bytes.
type MachineNode struct {
	ID        int      `json:"id"`
	Memory    uint64   `json:"memory"`
	Distances []uint64 `json:"distances"`
	HugePages []struct {
		SizeKiB uint64 `json:"pageSizeKiB"`
		Count   uint64 `json:"numPages"`
	} `json:"hugepages"`
	Cores []struct {
		Socket  int   `json:"socket"`
		Threads []int `json:"threads"`
		Uncore  *int  `json:"uncore"`
	} `json:"cores"`
}

func (m *Machine) info() *machineInfo {
	info := &machineInfo{MemoryCapacity: m.Memory}
	sockets := sets.New[int]()
	pools := map[uint64]uint64{}
	for _, node := range m.Nodes {
		found := numaNode{Id: node.ID, Memory: node.Memory, Distances: node.Distances}
		for _, pool := range node.HugePages {
			found.HugePages = append(found.HugePages, hugePagesInfo{PageSize: pool.SizeKiB, NumPages: pool.Count})
			pools[pool.SizeKiB] += pool.Count
		}
		for number, core := range node.Cores {
			sockets.Insert(core.Socket)
			info.NumCores += len(core.Threads)
			info.NumPhysicalCores++
			placed := numaCore{Id: number, Threads: core.Threads, SocketID: core.Socket}
			if core.Uncore != nil {
				placed.UncoreCaches = []cpuCache{{Id: *core.Uncore, Type: "Unified", Level: 3}}
			}
			found.Cores = append(found.Cores, placed)
		}
		info.Topology = append(info.Topology, found)
	}
	for size, count := range pools {
		info.HugePages = append(info.HugePages, hugePagesInfo{PageSize: size, NumPages: count})
	}
	info.NumSockets = sockets.Len()
	return info
}

// A Node holds the managers of a kubelet that has started.
type Node struct {
	reserved v1.ResourceList
	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
	cpus     cpumanager.Manager
	memory   memorymanager.Manager
	pods     []*v1.Pod
	active   atomic.Pointer[[]*v1.Pod]
	ready    atomic.Bool
}

// start does what run in cmd/kubelet/app/server.go and NewContainerManager and Start in
// pkg/kubelet/cm/container_manager_linux.go do about resources, in their order.
func start(config *kubeletconfig.KubeletConfiguration, flags *options.KubeletFlags, machine *Machine, devices map[string][]Device) (*Node, error) {
	info := machine.info()
	node, err := newNode(config, flags, info)
	if err != nil {
		return nil, fmt.Errorf("failed to run Kubelet: %w", err)
	}
	if err := node.start(info); err != nil {
		return node, err
	}
	if err := validateNodeAllocatable(node.reserved, cadvisor.CapacityFromMachineInfo(info)); err != nil {
		return node, err
	}
	return node, node.register(devices)
}

func newNode(config *kubeletconfig.KubeletConfiguration, flags *options.KubeletFlags, info *machineInfo) (*Node, error) {
	reservedCPUs, err := getReservedCPUs(info, config.ReservedSystemCPUs)
	if err != nil {
		return nil, err
	}
	if reservedCPUs.Size() > 0 {
		if config.KubeReserved != nil {
			delete(config.KubeReserved, "cpu")
		}
		if config.SystemReserved == nil {
			config.SystemReserved = make(map[string]string)
		}
		config.SystemReserved["cpu"] = strconv.Itoa(reservedCPUs.Size())
	}
	kube, err := parseResourceList(config.KubeReserved)
	if err != nil {
		return nil, fmt.Errorf("--kube-reserved value failed to parse: %w", err)
	}
	system, err := parseResourceList(config.SystemReserved)
	if err != nil {
		return nil, fmt.Errorf("--system-reserved value failed to parse: %w", err)
	}
	var thresholds []evictionapi.Threshold
	if !flags.ExperimentalNodeAllocatableIgnoreEvictionThreshold {
		if thresholds, err = eviction.ParseThresholdConfig([]string{}, config.EvictionHard, nil, nil, nil); err != nil {
			return nil, err
		}
	}
	if _, err := cm.ParseQOSReserved(config.QOSReserved); err != nil {
		return nil, fmt.Errorf("--qos-reserved value failed to parse: %w", err)
	}
	if config.CPUManagerPolicyOptions != nil && isOff("CPUManagerPolicyOptions") && isRegistered("CPUManager") {
		return nil, fmt.Errorf("CPU Manager policy options %v require feature gates %q, %q enabled",
			config.CPUManagerPolicyOptions, "CPUManager", "CPUManagerPolicyOptions")
	}
	if config.TopologyManagerPolicyOptions != nil && isOff("TopologyManagerPolicyOptions") {
		return nil, fmt.Errorf("topology manager policy options %v require feature gates %q enabled",
			config.TopologyManagerPolicyOptions, "TopologyManagerPolicyOptions")
	}
	reservation := nodeAllocatableReservation(kube, system, thresholds, cadvisor.CapacityFromMachineInfo(info))
	node := &Node{reserved: reservation}
	made, err := call(topologymanager.NewManager, info.Topology, config.TopologyManagerPolicy, config.TopologyManagerScope,
		config.TopologyManagerPolicyOptions)
	if err != nil {
		return nil, err
	}
	node.topology = made[0].(topologymanager.Manager)
	socket := filepath.Join(flags.RootDirectory, "device-plugins", "kubelet.sock")
	if node.devices, err = newDeviceManager(socket, info.Topology, node.topology); err != nil {
		return nil, err
	}
	node.provideHints(node.devices)
	made, err = call(cpumanager.NewManager, config.CPUManagerPolicy, config.CPUManagerPolicyOptions, reconciled,
		info, reservedCPUs, reservation, flags.RootDirectory, node.topology)
	if err != nil {
		return nil, err
	}
	node.cpus = made[0].(cpumanager.Manager)
	node.provideHints(node.cpus)
	if isOff("MemoryManager") {
		return node, nil
	}
	made, err = call(memorymanager.NewManager, config.MemoryManagerPolicy, info, reservation, config.ReservedMemory,
		flags.RootDirectory, node.topology)
	if err != nil {
		return nil, err
	}
	node.memory = made[0].(memorymanager.Manager)
	node.provideHints(node.memory)
	return node, nil
}

func (n *Node) provideHints(provider topologymanager.HintProvider) {
	if _, err := call(n.topology.AddHintProvider, provider); err != nil {
		panic(err)
	}
}

func (n *Node) start(info *machineInfo) error {
	n.show(nil)
	none := containermap.NewContainerMap()
	if _, err := call(n.cpus.Start, n.activePods, n, unknownStatus{}, nil, none); err != nil {
		return fmt.Errorf("start cpu manager error: %w", err)
	}
	if n.memory != nil {
		if _, err := call(n.memory.Start, n.activePods, n, unknownStatus{}, nil, none); err != nil {
			return fmt.Errorf("start memory manager error: %w", err)
		}
	}
	return nil
}

func (n *Node) register(devices map[string][]Device) error {
	if _, err := call(n.devices.Start, n.activePods, n, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return err
	}
	for name, listed := range devices {
		plugin := &devicePlugin{resource: name, devices: listed}
		if _, err := call(n.devices.PluginConnected, name, plugin); err != nil {
			return err
		}
		if _, err := call(n.devices.PluginListAndWatchReceiver, name, plugin.list()); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) stop() {
	if _, err := call(n.devices.Stop); err != nil {
		panic(err)
	}
}

func (n *Node) show(pods []*v1.Pod)   { n.active.Store(&pods) }
func (n *Node) activePods() []*v1.Pod { return *n.active.Load() }
func (n *Node) AddSource(string)      {}
func (n *Node) AllReady() bool        { return n.ready.Load() }

// reservation returns what is reserved as quantities.
func (n *Node) reservation() map[string]string {
	texts := map[string]string{}
	for name, quantity := range n.reserved {
		texts[string(name)] = quantity.String()
	}
	return texts
}

// unknownStatus is a status manager that knows no pod: the managers' reconciling leaves every container alone.
type unknownStatus struct{}

func (unknownStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func isRegistered(name featuregate.Feature) bool {
	_, known := utilfeature.DefaultMutableFeatureGate.GetAll()[name]
	return known
}

func isOff(name featuregate.Feature) bool {
	return isRegistered(name) && !utilfeature.DefaultFeatureGate.Enabled(name)
}

// nodeAllocatableReservation is GetNodeAllocatableReservation, whose receiver cannot be made without a node.
func nodeAllocatableReservation(kube, system v1.ResourceList, thresholds []evictionapi.Threshold, capacity v1.ResourceList) v1.ResourceList {
	evicted := hardEvictionReservation(thresholds, capacity)
	reservation := make(v1.ResourceList)
	for name := range capacity {
		value := resource.NewQuantity(0, resource.DecimalSI)
		value.Add(system[name])
		value.Add(kube[name])
		if evicted != nil {
			value.Add(evicted[name])
		}
		if !value.IsZero() {
			reservation[name] = *value
		}
	}
	return reservation
}

// validateNodeAllocatable is the container manager's method of that name, for the same reason.
func validateNodeAllocatable(reservation, capacity v1.ResourceList) error {
	var errors []string
	for name, reserved := range reservation {
		left := capacity[name].DeepCopy()
		left.Sub(reserved)
		if left.Sign() < 0 {
			errors = append(errors, fmt.Sprintf("Resource %q has a reservation of %v but capacity of %v. Expected capacity >= reservation.",
				name, reserved, capacity[name]))
		}
	}
	if len(errors) > 0 {
		return fmt.Errorf("invalid Node Allocatable configuration. %s", strings.Join(errors, " "))
	}
	return nil
}
