// Answers, with a kubelet's own code, whether that kubelet would start with a configuration and admit pods.
//
// Reads one question per line on standard input, writes one answer per line on standard output, both JSON. The
// only argument is an existing folder of its own: configuration, drop-ins and state files are laid out there, and
// the kubelet's texts name these paths. The same source is built against every minor of Kubernetes.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "k8s.io/component-base/logs/json/register" // as cmd/kubelet does
	"k8s.io/klog/v2"
)

// A Question is a configuration, and where a machine is given, a start on it and pods to admit. Where it has texts, these
// are read, and nothing else is asked. With Written the answer has the state files that the kubelet leaves.
type Question struct {
	Texts      []Text              `json:"texts"`
	Config     string              `json:"config"`
	DropIns    map[string]string   `json:"drop_ins"`
	Flags      []string            `json:"flags"`
	State      map[string]string   `json:"state"`
	Machine    *Machine            `json:"machine"`
	Devices    map[string][]Device `json:"devices"`
	Operations []Operation         `json:"operations"`
	Written    bool                `json:"written"`
}

// An Answer says how far the kubelet came; Error is what it died with, empty where it did not.
type Answer struct {
	Error       string            `json:"error"`
	Values      []Value           `json:"values,omitempty"`
	Loaded      bool              `json:"loaded"`
	Effective   json.RawMessage   `json:"effective,omitempty"`
	Reservation map[string]string `json:"reservation,omitempty"`
	Admissions  []Admission       `json:"admissions,omitempty"`
	Restarts    []Restart         `json:"restarts,omitempty"`
	State       map[string]string `json:"state,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: oracle FOLDER")
	}
	folder, err := filepath.Abs(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	answers := bufio.NewWriter(os.Stdout)
	silence()
	questions := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := questions.ReadBytes('\n')
		if err != nil {
			return
		}
		var question Question
		if err := json.Unmarshal(line, &question); err != nil {
			panic(err)
		}
		if err := json.NewEncoder(answers).Encode(answer(folder, &question)); err != nil {
			panic(err)
		}
		answers.Flush()
		if panicked {
			return
		}
	}
}

// silence keeps the kubelet's log from the answers; a panic of the runtime still reaches standard error.
func silence() {
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	os.Stdout, os.Stderr = nowhere, nowhere
	klog.LogToStderr(false)
	klog.SetOutput(nowhere)
	log.SetOutput(nowhere)
}

// panicked: the kubelet would have ended; what it was at may hold locks, or wait for what never comes.
var panicked bool

func answer(folder string, question *Question) (result Answer) {
	defer func() {
		if reason := recover(); reason != nil {
			panicked = true
			result.Error = fmt.Sprintf("panic: %v", reason)
		}
	}()
	if len(question.Texts) > 0 {
		for _, text := range question.Texts {
			result.Values = append(result.Values, read(text))
		}
		return result
	}
	if err := lay(folder, question); err != nil {
		panic(err)
	}
	config, flags, err := load(folder, question)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	result.Loaded = true
	result.Effective = effective(config)
	if question.Machine == nil {
		return result
	}
	node, err := start(config, flags, question.Machine, question.Devices)
	defer func() {
		if node != nil {
			node.stop()
		}
	}()
	if node != nil {
		result.Reservation = node.reservation()
	}
	if err != nil {
		result.Error = err.Error()
		return result
	}
	node.ready.Store(true)
	for _, operation := range question.Operations {
		switch {
		case operation.Remove != "":
			node.remove(operation.Remove)
		case operation.Restart:
			pods := node.pods
			node.stop()
			restart := Restart{State: written(folder)}
			if node, err = start(config, flags, question.Machine, question.Devices); err != nil {
				restart.Error = err.Error()
			}
			result.Restarts = append(result.Restarts, restart)
			if err != nil {
				return result
			}
			for _, pod := range pods {
				result.Admissions = append(result.Admissions, *node.put(pod))
			}
			// The kubelet marks a source of pods as ready once it has handled what came from it first.
			node.ready.Store(true)
		default:
			result.Admissions = append(result.Admissions, *node.operate(operation))
		}
	}
	if question.Written {
		result.State = written(folder)
	}
	return result
}

// written returns the managers' state files.
func written(folder string) map[string]string {
	state := map[string]string{}
	for _, path := range []string{"cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint"} {
		if text, err := os.ReadFile(filepath.Join(folder, rootFolder, path)); err == nil {
			state[filepath.Base(path)] = string(text)
		}
	}
	return state
}

// lay writes the files of a question, and removes those of the one before.
func lay(folder string, question *Question) error {
	for _, kind := range []string{dropInFolder, rootFolder} {
		if err := os.RemoveAll(filepath.Join(folder, kind)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(folder, kind), 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{configFile: question.Config}
	for name, text := range question.DropIns {
		files[filepath.Join(dropInFolder, name)] = text
	}
	for name, text := range question.State {
		files[filepath.Join(rootFolder, name)] = text
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
