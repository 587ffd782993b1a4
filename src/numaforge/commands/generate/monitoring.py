"""`numaforge generate monitoring`: what Prometheus, Grafana and GPU exporters need."""

import re
from pathlib import Path

import click

from numaforge.commands.generate import write_files
from numaforge.commands.options import output_option, path_option
from numaforge.report.terminal import print_data, remark, show_json

_LINK = re.compile(r"[\w.~:/?\[\]@!$&()*+,;=%-]+", re.ASCII)
"""The characters of a URL before its fragment; no quotes, which could end the YAML string around it."""


@click.command()
@path_option("--to", "folder", metavar="DIR", help="Write the files to this folder.")
@click.option("--runbooks", metavar="URL", help="URL of docs/alerts.md; each alert links to its section.")
@output_option("yaml", "json")
def monitoring(folder: str | None, runbooks: str | None, output: str) -> None:
    """Write what Prometheus, Grafana and GPU exporters need to watch planned nodes.

    Alert rules, as a file and as a PrometheusRule; a dashboard; counters and settings of NVIDIA's
    dcgm-exporter and AMD's metrics exporter. Asks no cluster, and applies nothing.

    \b
    Examples:
      numaforge generate monitoring --to monitoring
      numaforge generate monitoring --to monitoring --runbooks https://wiki.example.com/gpu-alerts
    """
    from numaforge.fleet.monitoring import RUNBOOKS, monitoring_files

    if runbooks is not None and not _LINK.fullmatch(runbooks):
        raise click.BadParameter(f"{runbooks!r} is not a URL: write it without #", param_hint="--runbooks")
    texts = monitoring_files(runbooks or RUNBOOKS)
    if folder is not None:
        write_files(Path(folder), texts)
        for name in texts:
            remark(f"wrote {Path(folder) / name}")
    elif output == "json":
        show_json({"schema": 1, "files": texts})
    else:
        for name, text in texts.items():
            print_data(f"---\n# {name}\n{text.rstrip()}\n")
