"""`numaforge convert`: other tools' files as a profile."""

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from numaforge.commands.options import output_option, path_option
from numaforge.commands.wrapped import key_option, remark_repeated
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.lib.given import BYTE_ORDER_MARK, read_text
from numaforge.report.printable import plain
from numaforge.report.terminal import save


@click.command()
@click.argument("words", metavar="[KIND] FILE", nargs=-1, required=True)
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the one to convert, in a FILE with several (mig-parted, TuneD, eksctl).",
)
@key_option
@path_option("--to", help="Write to this file instead of standard output.")
@output_option("yaml", "json")
def convert(words: tuple[str, ...], name: str | None, key: str | None, to: str | None, output: str) -> int:
    """Convert another tool's file to a profile.

    Comments name what a profile cannot express.

    \b
    KIND is auto, or one of
      performanceprofile    OpenShift's PerformanceProfile
      kubeletconfiguration  KubeletConfiguration, OpenShift's KubeletConfig
      mig-parted            a configuration of mig-parted
      tuned                 a TuneD profile, OpenShift's Tuned
      kubespray             group variables of kubespray
      gke                   a node system configuration of GKE
      eks                   NodeConfig, eksctl's ClusterConfig, Bottlerocket's settings
      kubelet-flags         /etc/default/kubelet, a unit's drop-in, MicroK8s' args
      machineconfig         OpenShift's MachineConfig
      k3s                   config.yaml of k3s or RKE2
      talos                 a machine configuration of Talos
      kubeadm               InitConfiguration, JoinConfiguration
      cluster-api           KubeadmConfigTemplate, KubeadmControlPlane
      karpenter             EC2NodeClass, NodePool
      aks                   --kubelet-config or --linux-os-config of AKS
      sysctl                a file of /etc/sysctl.d
      grub                  /etc/default/grub

    Without KIND, the content decides. FILE may be - for standard input, and a List, a ConfigMap or Helm
    values that hold such a file.

    Exit codes: 2 the file is invalid, or contradicts itself.

    \b
    Examples:
      numaforge convert performanceprofile performance.yaml --to profiles/performance.yaml
      oc get kubeletconfig gpu -o yaml | numaforge convert -
    """
    from numaforge.lib.strict_yaml import MOST_MIB
    from numaforge.planning.convert.forms import AUTO, FORM_NAMES
    from numaforge.planning.convert.forms import convert as converted
    from numaforge.planning.convert.yaml_text import as_yaml

    if len(words) > 2:
        raise click.UsageError("give a KIND and one FILE")
    kind, file = words if len(words) == 2 else (AUTO, words[0])
    if kind not in (AUTO, *FORM_NAMES):
        raise click.UsageError(f"{kind!r} is not a KIND; write auto or one of {', '.join(FORM_NAMES)}")
    where = "standard input" if file == "-" else file
    if to and file != "-" and Path(to).exists() and Path(to).samefile(file):
        raise click.UsageError(f"{to} is the file that is read: name another one with --to")
    text = read_text(file, most_mib=MOST_MIB).removeprefix(BYTE_ORDER_MARK)
    conversion = converted(text, where, kind, name, key)
    with suppress(NumaforgeError):  # a text that is not YAML has no key twice
        remark_repeated(text, where)
    document = {"schema": 1, **asdict(conversion)}
    written = f"{json.dumps(document, indent=2)}\n" if output == "json" else as_yaml(conversion, where)
    save(plain(written), to)
    return ExitCode.YES
