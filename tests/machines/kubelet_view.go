// Prints where the kubelet's CPU manager places every CPU of the tree below a folder, as JSON. The tree is read by
// cAdvisor, then by the CPU manager's own Discover. It runs as root, because cAdvisor only reads /sys itself.
package main

import (
	"encoding/json"
	"log"
	"os"
	"syscall"

	info "github.com/google/cadvisor/info/v1"
	"github.com/google/cadvisor/utils/sysfs"
	"github.com/google/cadvisor/utils/sysinfo"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
)

type numaNode struct {
	ID     int    `json:"id"`
	Memory uint64 `json:"memory_bytes"`
}

type place struct {
	CPU    int `json:"cpu"`
	Core   int `json:"core"`
	Socket int `json:"socket"`
	Node   int `json:"numa_node"`
	Uncore int `json:"uncore"`
}

type view struct {
	Nodes  []numaNode `json:"numa_nodes"`
	Places []place    `json:"places"`
}

func main() {
	if err := syscall.Chroot(os.Args[1]); err != nil {
		log.Fatalf("chroot %s: %v", os.Args[1], err)
	}
	nodes, threads, err := sysinfo.GetNodesInfo(sysfs.NewRealSysFs())
	if err != nil {
		log.Fatalf("cAdvisor: %v", err)
	}
	found, err := topology.Discover(klog.Background(), &info.MachineInfo{NumCores: threads, Topology: nodes})
	if err != nil {
		log.Fatalf("the CPU manager: %v", err)
	}
	shown := view{Nodes: []numaNode{}, Places: []place{}}
	for _, node := range nodes {
		shown.Nodes = append(shown.Nodes, numaNode{node.Id, node.Memory})
	}
	for _, cpu := range found.CPUDetails.CPUs().List() {
		held := found.CPUDetails[cpu]
		shown.Places = append(shown.Places, place{cpu, held.CoreID, held.SocketID, held.NUMANodeID, held.UncoreCacheID})
	}
	if err := json.NewEncoder(os.Stdout).Encode(shown); err != nil {
		log.Fatal(err)
	}
}
