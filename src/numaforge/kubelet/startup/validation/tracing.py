"""Validation of tracing, and of its endpoint as Go's net/url parses it."""

import re

from numaforge.kubelet.findings import fault
from numaforge.kubelet.startup.validation.refusals import CompleteConfig, Refusals, invalid
from numaforge.kubelet_minors.values.gotext import quoted

_LARGEST_SAMPLING_RATE = 1_000_000
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_REFUSED_IN_HOST = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}|[ \\^`{}|]")


def tracing(config: CompleteConfig) -> Refusals:
    tracing = config.settings.get("tracing")
    if tracing is None:
        return
    if config.minor <= 33 and not config.gate("KubeletTracing"):
        yield invalid("NF115", "tracing")
        return
    rate = tracing.get("samplingRatePerMillion", 0)
    complaint = None
    if rate < 0:
        complaint = "sampling rate must be positive"
    elif rate > _LARGEST_SAMPLING_RATE:
        complaint = "sampling rate per million must be less than or equal to one million"
    if complaint:
        yield fault("NF110", "sampling rate", rate=rate, complaint=complaint)
    if "endpoint" not in tracing:
        return
    endpoint = tracing["endpoint"]
    url = endpoint if "//" in endpoint else f"dns://{endpoint}"
    complaint = _url_error(url)
    scheme = url.partition(":")[0].lower()
    if not complaint and scheme not in ("dns", "unix", "unix-abstract"):
        complaint = (
            f"unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  "
            "See https://github.com/grpc/grpc/blob/master/doc/naming.md"
        )
    if complaint:
        yield fault("NF111", "tracing endpoint", url=quoted(url), complaint=complaint)


def _url_error(url: str) -> str | None:
    """Return the error of url.Parse in net/url for a text, covering common mistakes in endpoints."""
    if _CONTROL_CHARACTER.search(url):
        return f"parse {quoted(url)}: net/url: invalid control character in URL"
    scheme, colon, rest = url.partition(":")
    complaint = None
    if colon and not scheme:
        complaint = "missing protocol scheme"
    elif colon and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        complaint = "first path segment in URL cannot contain colon"
    elif rest.startswith("//"):
        host = re.split(r"[/?#]", rest.removeprefix("//"), maxsplit=1)[0]
        complaint = _host_error(host.rpartition("@")[2])
    return f"parse {quoted(url)}: {complaint}" if complaint else None


def _host_error(host: str) -> str | None:
    bracket = host.rfind("[")
    if bracket > 0:
        return "invalid IP-literal"
    if bracket == 0 and "]" not in host:
        return "missing ']' in host"
    colon = host.find(":", host.rfind("]")) if host.startswith("[") else host.rfind(":")
    port = host[colon:] if colon >= 0 else ""
    if not re.fullmatch(r"(:[0-9]*)?", port):
        return f"invalid port {quoted(port)} after host"
    refused = _REFUSED_IN_HOST.search(host)
    if refused is None:
        return None
    if refused[0].startswith("%"):
        return f"invalid URL escape {quoted(refused[0])}"
    return f"invalid character {quoted(refused[0])} in host name"
