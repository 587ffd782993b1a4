"""Validation of the kubelet's servers and of the endpoints it calls."""

from numaforge.kubelet.startup.validation.numbers import between
from numaforge.kubelet.startup.validation.refusals import CompleteConfig, InvalidSetting, Refusals, invalid
from numaforge.kubelet_minors.values.gotext import quoted


def healthz_port(config: CompleteConfig) -> Refusals:
    if config.number("healthzPort"):
        yield from between("healthzPort", "--healthz-port", 1, 65535)(config)


def read_only_port(config: CompleteConfig) -> Refusals:
    yield from between("readOnlyPort", "--read-only-port", 0, 65535)(config)


def server_tls(config: CompleteConfig) -> Refusals:
    if config.flag("serverTLSBootstrap") and not config.gate("RotateKubeletServerCertificate"):
        yield invalid(
            "NF115",
            "serverTLSBootstrap",
            "serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate",
            "do not switch the feature gate RotateKubeletServerCertificate off",
        )


def hairpin(config: CompleteConfig) -> Refusals:
    mode = config.text("hairpinMode")
    if mode not in ("none", "hairpin-veth", "promiscuous-bridge"):
        yield invalid(
            "NF111",
            "hairpinMode",
            f'option {quoted(mode)} specified for hairpinMode (--hairpin-mode). Valid options are "none", '
            '"hairpin-veth" or "promiscuous-bridge"',
            "use none, hairpin-veth or promiscuous-bridge",
        )


def hidden_metrics(config: CompleteConfig) -> Refusals:
    shown = config.text("showHiddenMetricsForVersion")
    previous = f"1.{config.minor - 1}"
    if not shown or shown == previous:
        return
    text = (
        f"--show-hidden-metrics-for-version must be omitted or have the value '{previous}'. "
        "Only the previous minor version is allowed"
    )
    if config.minor >= 36:
        text = (
            "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: "
            f"Invalid value: {quoted(shown)}: must be omitted or have the value '{previous}'; "
            "only the previous minor version is allowed"
        )
    yield InvalidSetting("NF111", "showHiddenMetricsForVersion", text, f'use "{previous}", or leave it out')


def runtime_endpoint(config: CompleteConfig) -> Refusals:
    if not config.text("containerRuntimeEndpoint"):
        yield invalid(
            "NF111",
            "containerRuntimeEndpoint",
            "the containerRuntimeEndpoint was not specified or empty",
            "set it to the runtime's socket, for example unix:///run/containerd/containerd.sock",
        )
