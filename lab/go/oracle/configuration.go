package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
)

const (
	configFile   = "config.yaml"
	dropInFolder = "drop-ins"
	rootFolder   = "root"
)

// What the kubelet's code keeps in variables and changes while it loads a configuration. A kubelet does so once.
var (
	pristineGates        = utilfeature.DefaultMutableFeatureGate.DeepCopy()
	pristineEvictionHard = maps.Clone(eviction.DefaultEvictionHard)
	pristineEnforcement  = slices.Clone(conversion.DefaultNodeAllocatableEnforcement)
)

// load does what the kubelet's command does before it constructs its dependencies: RunE of NewKubeletCommand in
// cmd/kubelet/app/server.go, which is the same from 1.30 to 1.36.
func load(folder string, question *Question) (*kubeletconfig.KubeletConfiguration, *options.KubeletFlags, error) {
	gates := pristineGates.DeepCopy()
	eviction.DefaultEvictionHard = maps.Clone(pristineEvictionHard)
	conversion.DefaultNodeAllocatableEnforcement = slices.Clone(pristineEnforcement)
	utilfeature.DefaultMutableFeatureGate, utilfeature.DefaultFeatureGate = gates, gates
	if err := logsapi.ResetForTest(gates); err != nil {
		panic(err)
	}
	arguments := []string{"--config=" + filepath.Join(folder, configFile), "--root-dir=" + filepath.Join(folder, rootFolder)}
	if len(question.DropIns) > 0 {
		arguments = append(arguments, "--config-dir="+filepath.Join(folder, dropInFolder))
	}
	arguments = append(arguments, question.Flags...)

	flagSet := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	flagSet.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags := options.NewKubeletFlags()
	config, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, nil, err
	}
	flags.AddFlags(flagSet)
	options.AddKubeletConfigFlags(flagSet, config)
	options.AddGlobalFlags(flagSet)
	flagSet.BoolP("help", "h", false, "")

	if err := flagSet.Parse(arguments); err != nil {
		return nil, nil, fmt.Errorf("failed to parse kubelet flag: %w", err)
	}
	if commands := flagSet.Args(); len(commands) > 0 {
		return nil, nil, fmt.Errorf("unknown command %+s", commands[0])
	}
	if err := gates.SetFromMap(config.FeatureGates); err != nil {
		return nil, nil, fmt.Errorf("failed to set feature gates from initial flags-based config: %w", err)
	}
	if err := options.ValidateKubeletFlags(flags); err != nil {
		return nil, nil, fmt.Errorf("failed to validate kubelet flags: %w", err)
	}
	if config, err = loadConfigFile(context.Background(), flags.KubeletConfigFile); err != nil {
		return nil, nil, fmt.Errorf("failed to load kubelet config file, path: %s, error: %w", flags.KubeletConfigFile, err)
	}
	if len(flags.KubeletDropinConfigDirectory) > 0 {
		if err := mergeKubeletConfigurations(config, flags.KubeletDropinConfigDirectory); err != nil {
			return nil, nil, fmt.Errorf("failed to merge kubelet configs: %w", err)
		}
	}
	if err := kubeletConfigFlagPrecedence(config, arguments); err != nil {
		return nil, nil, fmt.Errorf("failed to precedence kubeletConfigFlag: %w", err)
	}
	if err := gates.SetFromMap(config.FeatureGates); err != nil {
		return nil, nil, fmt.Errorf("failed to set feature gates from initial flags-based config: %w", err)
	}
	if err := logsapi.ValidateAndApplyAsField(&config.Logging, gates, field.NewPath("logging")); err != nil {
		return nil, nil, fmt.Errorf("initialize logging: %v", err)
	}
	if err := validation.ValidateKubeletConfiguration(config, gates); err != nil {
		// The kubelet prints the whole configuration behind this.
		return nil, nil, fmt.Errorf("failed to validate kubelet configuration, error: %w", err)
	}
	return config, flags, nil
}

// effective returns the configuration as /configz shows it.
func effective(config *kubeletconfig.KubeletConfiguration) json.RawMessage {
	shown := &v1beta1.KubeletConfiguration{}
	if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(config, shown, nil); err != nil {
		panic(err)
	}
	text, err := json.Marshal(shown)
	if err != nil {
		panic(err)
	}
	return text
}
