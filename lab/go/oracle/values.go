package main

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"
)

// A Text is read by one of the readers below.
type Text struct {
	Reader string `json:"reader"`
	Text   string `json:"text"`
}

// A Value is what a reader made of a text, printed, or the error with which it refused it.
type Value struct {
	Value string `json:"value"`
	Error string `json:"error"`
}

// readers are the functions with which the kubelet reads scalars and YAML; each prints what it read.
var readers = map[string]func(string) (string, error){
	"quantity": func(text string) (string, error) {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return "", err
		}
		whole, isWhole := quantity.AsInt64()
		// String returns what was written where that is canonical enough for it.
		number, suffix := quantity.CanonicalizeBytes(nil)
		return fmt.Sprintf("%s%s %d %d %d %t", number, suffix, quantity.Value(), quantity.MilliValue(), whole, isWhole), nil
	},
	"duration": func(text string) (string, error) {
		duration, err := time.ParseDuration(text)
		return duration.String(), err
	},
	"cpuset": func(text string) (string, error) {
		cpus, err := cpuset.Parse(text)
		return cpus.String(), err
	},
	"integer": func(text string) (string, error) {
		number, err := strconv.ParseInt(text, 0, 64)
		return strconv.FormatInt(number, 10), err
	},
	"decimal": func(text string) (string, error) {
		number, err := strconv.Atoi(text)
		return strconv.Itoa(number), err
	},
	"float": func(text string) (string, error) {
		number, err := strconv.ParseFloat(text, 32)
		return strconv.FormatFloat(number, 'g', -1, 64), err
	},
	"boolean": func(text string) (string, error) {
		truth, err := strconv.ParseBool(text)
		return strconv.FormatBool(truth), err
	},
	"quote": func(text string) (string, error) { return strconv.Quote(text), nil },
	"yaml": func(text string) (string, error) {
		json, err := yaml.YAMLToJSON([]byte(text))
		return string(json), err
	},
	"strict yaml": func(text string) (string, error) {
		json, err := yaml.YAMLToJSONStrict([]byte(text))
		return string(json), err
	},
}

// read returns what the reader of a text makes of it.
func read(text Text) (value Value) {
	defer func() {
		if reason := recover(); reason != nil {
			value = Value{Error: fmt.Sprintf("panic: %v", reason)}
		}
	}()
	printed, err := readers[text.Reader](text.Text)
	if err != nil {
		return Value{Error: err.Error()}
	}
	return Value{Value: printed}
}
