// Answers of the device plugin for recorded questions: record_preferred_allocation.py puts it into internal/rm.

package rm

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	spec "github.com/NVIDIA/k8s-device-plugin/api/config/v1"
)

type question struct {
	Levels    [][]int  // nvml.GpuTopologyLevel of each pair; none for replicas
	Links     [][]int  // NVLinks of each pair
	Devices   []string // of the resource, by id
	Policy    string
	Available []string
	Required  []string
	Size      int
}

type fakeNvml struct {
	nvml.Interface
	q *question
}

type fakeGpu struct {
	nvml.Device
	q     *question
	index int
}

func (f fakeNvml) Init() nvml.Return                  { return nvml.SUCCESS }
func (f fakeNvml) Shutdown() nvml.Return              { return nvml.SUCCESS }
func (f fakeNvml) DeviceGetCount() (int, nvml.Return) { return len(f.q.Levels), nvml.SUCCESS }
func (f fakeNvml) DeviceGetHandleByIndex(i int) (nvml.Device, nvml.Return) {
	return fakeGpu{q: f.q, index: i}, nvml.SUCCESS
}
func (g fakeGpu) GetName() (string, nvml.Return) { return "GPU", nvml.SUCCESS }
func (g fakeGpu) GetUUID() (string, nvml.Return) { return fmt.Sprint(g.index), nvml.SUCCESS }
func (g fakeGpu) GetPciInfo() (nvml.PciInfo, nvml.Return) {
	return address(g.index), nvml.SUCCESS
}
func (g fakeGpu) GetTopologyCommonAncestor(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
	uuid, _ := other.GetUUID()
	var j int
	fmt.Sscan(uuid, &j)
	return nvml.GpuTopologyLevel(g.q.Levels[g.index][j]), nvml.SUCCESS
}
func (g fakeGpu) GetNvLinkState(link int) (nvml.EnableState, nvml.Return) {
	if g.peer(link) < 0 {
		return nvml.FEATURE_DISABLED, nvml.ERROR_INVALID_ARGUMENT
	}
	return nvml.FEATURE_ENABLED, nvml.SUCCESS
}
func (g fakeGpu) GetNvLinkRemotePciInfo(link int) (nvml.PciInfo, nvml.Return) {
	return address(g.peer(link)), nvml.SUCCESS
}
func (g fakeGpu) peer(link int) int {
	for j, count := range g.q.Links[g.index] {
		if link < count {
			return j
		}
		link -= count
	}
	return -1
}

func address(index int) nvml.PciInfo {
	info := nvml.PciInfo{}
	for i, b := range []byte(fmt.Sprintf("00000000:%02x:00.0", index+1)) {
		info.BusId[i] = int8(b)
	}
	return info
}

func TestRecorded(t *testing.T) {
	text, err := os.ReadFile(os.Getenv("QUESTIONS"))
	if err != nil {
		t.Skip(err)
	}
	var questions []question
	if err := json.Unmarshal(text, &questions); err != nil {
		t.Fatal(err)
	}
	answers := make([][]string, len(questions))
	for i := range questions {
		answers[i] = answer(&questions[i])
	}
	written, _ := json.Marshal(answers)
	if err := os.WriteFile(os.Getenv("ANSWERS"), written, 0o644); err != nil {
		t.Fatal(err)
	}
}

// answer returns each set that was preferred, over many orders of the available devices.
func answer(q *question) []string {
	devices := Devices{}
	for _, id := range q.Devices {
		devices[id] = &Device{Device: pluginapi.Device{ID: id}, Index: strings.SplitN(id, "::", 2)[0]}
	}
	config := &spec.Config{}
	config.Flags.Plugin = &spec.PluginCommandLineFlags{SharedDevicesAllocationPolicy: &q.Policy}
	manager := nvmlResourceManager{resourceManager{config: config, resource: "nvidia.com/gpu", devices: devices}, fakeNvml{q: q}}
	found := map[string]bool{}
	random := rand.New(rand.NewSource(1))
	for range 3000 {
		available := append([]string{}, q.Available...)
		random.Shuffle(len(available), func(i, j int) { available[i], available[j] = available[j], available[i] })
		found[once(&manager, available, q)] = true
	}
	sets := []string{}
	for set := range found {
		sets = append(sets, set)
	}
	sort.Strings(sets)
	return sets
}

func once(manager *nvmlResourceManager, available []string, q *question) (set string) {
	defer func() {
		if failure := recover(); failure != nil {
			set = fmt.Sprint("panic: ", failure)
		}
	}()
	chosen, err := manager.GetPreferredAllocation(available, append([]string{}, q.Required...), q.Size)
	if err != nil {
		return "error: " + err.Error()
	}
	if strings.Contains(strings.Join(q.Devices, ""), "::") { // replicas of a GPU are alike
		for i := range chosen {
			chosen[i] = strings.SplitN(chosen[i], "::", 2)[0]
		}
	}
	sort.Strings(chosen)
	return strings.Join(chosen, ",")
}
