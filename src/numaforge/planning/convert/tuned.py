"""A TuneD profile, alone or in an OpenShift Tuned object.

Source: redhat-performance/tuned, tuned/plugins and tuned/profiles; openshift/cluster-node-tuning-operator,
manifests/20-tuned.crd.yaml.
"""

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import digits, mapping
from numaforge.machine.knobs import KNOB_AT
from numaforge.planning.convert.documents import read_ini
from numaforge.planning.convert.draft import Draft
from numaforge.planning.convert.kernel_parameters import add_parameters
from numaforge.planning.convert.rows import Fate, table
from numaforge.roles.kernel_cmdline.parameters import with_one_pci

_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_.-]+)\}")
_UNKNOWN = re.compile(r"\$\{")
_ON = ("True", "true", "1")  # tuned/profiles/unit.py
_GOVERNORS = ("performance", "powersave", "schedutil", "ondemand", "conservative", "userspace")
_WORKQUEUES = ("/sys/devices/virtual/workqueue/cpumask", "/sys/bus/workqueue/devices/writeback/cpumask")
_HASH_SIZE = "nf_conntrack_hashsize"  # a parameter of a module, in TuneD's section of NICs
# The variable of the profiles cpu-partitioning and realtime, possibly set in another file.
_ISOLATED = ("${isolated_cores}", "${isolated_cores_expanded}", "${isolated_cores_online_expanded}")
_CPU_SETS = {"nohz_full": "kernel.nohz_full", "rcu_nocbs": "kernel.rcu_nocbs"}
_ALLOCATABLE = "allocatable"


def _switch(value: str) -> bool:
    return value.strip().lower() in ("1", "y", "yes", "t", "true")


def _governors(value: str) -> list[str]:
    """Return governors in TuneD's order: it takes the first that the driver has."""
    return [word.strip() for word in re.split(r"[|,]", value) if word.strip() in _GOVERNORS] or [value]


def _preference(value: str) -> str:
    return re.split(r"[|,]", value)[0].strip()


def _latency(value: str) -> dict[str, Any]:
    """`3`, `cstate.id:1|3`, `cstate.name:C1|10`, `cstate.id_no_zero:1|3`, as TuneD tries them in turn."""
    words = [word.strip() for word in value.split("|")]
    number = next((count for word in words if (count := digits(word)) is not None), None)
    if number is not None:
        return {"max_latency_us": number}
    names = [word.partition(":")[2] for word in words if word.startswith("cstate.name")]
    return {"deepest": names[0]} if names else {"max_latency_us": value}


def _reserved(_: str) -> str:
    return "reserved"


TUNED_ROWS = table(
    "tuned",
    {
        "[cpu] governor": lambda value: _governors(value)[0],
        "[cpu] force_latency": _latency,
        "[cpu] energy_performance_preference": _preference,
        "[cpu] no_turbo": lambda value: not _switch(value),
        "[cpu] boost": _switch,
        "[irqbalance] banned_cpus": _reserved,
        "[scheduler] isolated_cores": _reserved,
        "[scheduler] default_irq_smp_affinity": lambda value: None if value == "ignore" else "reserved",
        "[systemd] cpu_affinity": _reserved,
    },
)
UNIT_ROWS = table("tuned-section")
_UNIT_FIELDS = {name: row for row in UNIT_ROWS for name in row.field.split(", ")}
_FOR_SOME = ("uname_regex", "cpuinfo_regex", "devices", "devices_udev_regex")
# Plugins from which nothing is converted, whatever their sections hold.
_UNTOUCHED = {
    row.path()[0]
    for row in TUNED_ROWS
    if len(row.path()) == 1 and row.fate is Fate.NOT_EXPRESSED and not row.quiet
}

TUNED_OBJECT_ROWS = table("tuned-object")


def convert_object(draft: Draft, document: Mapping[str, Any], name: str | None) -> None:
    """Convert one profile of an OpenShift Tuned object."""
    rows = tuple(row for row in TUNED_OBJECT_ROWS if row.field != "metadata.name")
    draft.take(document, rows)
    if draft.mistakes:
        return
    listed = [mapping(entry) for entry in mapping(document.get("spec")).get("profile") or ()]
    profiles = {str(entry.get("name")): entry for entry in listed}
    field = "spec.profile"
    if name is None and len(profiles) != 1:
        draft.refuse(
            field, f"has {len(profiles)} profiles: give --name, one of {', '.join(profiles) or 'none'}"
        )
    elif name is not None and name not in profiles:
        draft.refuse(field, f"has no profile {name!r}; it has {', '.join(profiles)}")
    else:
        chosen = profiles[name] if name is not None else next(iter(profiles.values()))
        draft.put("name", chosen.get("name"), f"{field}.name")
        convert(draft, read_ini(chosen.get("data") or "", f"{field} {chosen.get('name')}"))


def convert(draft: Draft, document: Mapping[str, Mapping[str, str]]) -> None:
    """Convert the content of an INI file: options by section."""
    variables = dict(document.get("variables", {}))
    if include := variables.pop("include", None):
        draft.left_out("[variables] include", f"{include} is not read: what it sets is not in the profile")
    sections: dict[str, dict[str, str]] = {"variables": variables} if variables else {}
    for section, options in document.items():
        if section == "variables":
            continue
        expanded = {name: _expanded(value, variables) for name, value in options.items()}
        plugin = expanded.get("type", section)
        if _is_for_all(draft, section, plugin, expanded):
            _join(draft, section, sections.setdefault(plugin, {}), expanded, plugin)
    readable = {
        plugin: {name: value for name, value in options.items() if _readable(draft, plugin, name, value)}
        for plugin, options in sections.items()
    }
    if size := readable.get("net", {}).pop(_HASH_SIZE, None):
        module = readable.setdefault("modules", {})
        module["nf_conntrack"] = " ".join(filter(None, [module.get("nf_conntrack"), f"hashsize={size}"]))
    draft.take({plugin: options for plugin, options in readable.items() if options}, TUNED_ROWS, ini=True)
    if draft.mistakes:
        return
    _note_governors(draft, readable.get("cpu", {}).get("governor", ""))
    _place_sysctls(draft, readable.get("sysctl", {}))
    _place_memory(draft, readable.get("vm", {}))
    _place_sysfs(draft, readable.get("sysfs", {}))
    _place_modules(draft, readable.get("modules", {}))
    _place_cmdline(draft, readable.get("bootloader", {}))


def _note_governors(draft: Draft, value: str) -> None:
    """Note the governors that TuneD would take in turn."""
    first, *alternatives = _governors(value)
    if alternatives:
        text = f"{first}, the first; where the driver lacks it, TuneD takes {', then '.join(alternatives)}"
        draft.differs("[cpu] governor", text, "tuning.governor")


def _is_for_all(draft: Draft, section: str, plugin: str, options: dict[str, str]) -> bool:
    """Remove the options that every section may have; return whether the section is on, for all machines."""
    if plugin == "main":
        return True
    unit = {name: options.pop(name) for name in list(options) if name in _UNIT_FIELDS}
    if unit.get("enabled", "1") not in _ON:
        return False
    refused = [
        name for name in unit if _UNIT_FIELDS[name].why and _UNIT_FIELDS[name].fate is Fate.NOT_EXPRESSED
    ]
    refused = [
        name for name in refused if (name, unit[name]) != ("devices", "*") and plugin not in _UNTOUCHED
    ]
    for name in refused:
        row = _UNIT_FIELDS[name]
        draft.note(f"[{section}] {name}", row.fate, row.why)
    return not any(name in _FOR_SOME for name in refused)


def _join(
    draft: Draft, section: str, merged: dict[str, str], options: Mapping[str, str], plugin: str
) -> None:
    """Merge the options of a section with those of others of the same plugin."""
    for name in options.keys() & merged.keys():
        if plugin not in _UNTOUCHED and merged[name] != options[name]:
            draft.refuse(f"[{section}] {name}", f"another section of the plugin {plugin} sets it too")
    merged.update(options)


def _expanded(value: str, variables: Mapping[str, str]) -> str:
    """Substitute the file's variables; others stay as written."""
    text = value.strip().strip('"')
    for _ in range(len(variables) + 1):
        text = _VARIABLE.sub(lambda match: variables.get(match[1], match[0]).strip(), text)
    return text


def _readable(draft: Draft, plugin: str, name: str, value: str) -> bool:
    """Whether no variable remains; CPUs that another file isolates count as the pods'."""
    if not _UNKNOWN.search(value) or plugin in ("bootloader", "variables", "main", *_UNTOUCHED):
        return True
    if (plugin, name) in (
        ("scheduler", "isolated_cores"),
        ("irqbalance", "banned_cpus"),
        ("systemd", "cpu_affinity"),
    ):
        return True  # the value itself is not converted
    if name in _WORKQUEUES:
        return True
    draft.left_out(
        f"[{plugin}] {name}",
        f"{value} is computed on the host or set in another file: write the value in the profile",
    )
    return False


def _place_sysctls(draft: Draft, options: Mapping[str, str]) -> None:
    values = {}
    for name, value in options.items():
        number = value.lstrip(">< ")
        if number != value:
            draft.differs(
                f"[sysctl] {name}",
                f"{value} is set only where the host has {'less' if value[0] == '>' else 'more'}; here it "
                f"is set",
                f"tuning.sysctls.{name}",
            )
        values[name] = int(number) if re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", number) else number
    draft.put("tuning.sysctls", values or None, "[sysctl]")


def _place_memory(draft: Draft, options: Mapping[str, str]) -> None:
    for name, value in options.items():
        if not name.startswith("dirty_"):
            continue
        key = name.replace("_bytes", "_ratio") if value.endswith("%") else name
        number = digits(value.rstrip("%"))
        if number is None:
            draft.refuse(f"[vm] {name}", f"{value!r} is neither a number of bytes nor a percentage")
        else:
            draft.put("tuning.sysctls", {f"vm.{key}": number}, f"[vm] {name}")


def _place_sysfs(draft: Draft, options: Mapping[str, str]) -> None:
    for path, value in options.items():
        field = f"[sysfs] {path}"
        knob = KNOB_AT.get(path)
        if knob and (word := knob.word_for(path, value)) is not None:
            draft.put(f"tuning.{knob.key}", word, field)
        elif path in _WORKQUEUES:
            draft.put("interrupts.workqueues", "reserved", field)
            draft.differs(field, "unbound workqueues run on the reserved CPUs", "interrupts.workqueues")
        else:
            draft.left_out(field, "no key of a profile writes this file: use a tmpfiles.d entry")


def _place_modules(draft: Draft, options: Mapping[str, str]) -> None:
    for name, value in options.items():
        words = [word for word in value.removeprefix("+r").strip(" ,").split() if word]
        if words:
            draft.put("modules.options", {name: words}, "[modules]")
        else:
            draft.left_out(f"[modules] {name}", "no options: set modules.load to have it loaded")


def _place_cmdline(draft: Draft, options: Mapping[str, str]) -> None:
    """Compose the command line as TuneD does: options sorted by name, `+` adds, `-` removes."""
    words: list[tuple[str, str]] = []  # with their options; a word may be repeated, as hugepages= is
    for name in sorted(options):
        if not name.startswith("cmdline"):
            if f"[bootloader] {name}" not in {row.field for row in TUNED_ROWS}:
                draft.refuse(
                    f"[bootloader] {name}", "unknown option; known here: cmdline and what begins with it"
                )
            continue
        value = options[name].strip()
        removed = _words(value.removeprefix("+").removeprefix("-").strip().strip('"'))
        if value.startswith("-"):
            if absent := [word for word in removed if word not in dict(words)]:
                text = f"{' '.join(absent)} is taken off the host's command line: a profile takes nothing off"
                draft.left_out(f"[bootloader] {name}", text, "kernel.cmdline")
            words = [(word, field) for word, field in words if word not in removed]
        else:
            words += [(word, f"[bootloader] {name}") for word in removed]
    pci = next((field for word, field in words if word.startswith("pci=")), "")
    options_of = dict(words)
    merged = with_one_pci([word for word, _ in words])
    for field, of_option in groupby(merged, key=lambda word: options_of.get(word, pci)):
        for computed, group in groupby(of_option, key=lambda word: bool(_UNKNOWN.search(word))):
            if not computed:
                add_parameters(draft, group, field)
                continue
            for word in group:
                _place_computed(draft, word, field)


def _words(text: str) -> list[str]:
    """Return the parameters of a command line; a space inside `${...}` does not separate."""
    words, depth = [""], 0
    for char in text:
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char.isspace() and depth <= 0:
            words.append("")
        else:
            words[-1] += char
    return [word for word in words if word]


def _place_computed(draft: Draft, word: str, field: str) -> None:
    """Place a parameter whose value is computed on the host or set in another file."""
    parameter, _, value = word.partition("=")
    if parameter == "isolcpus" and value.split(",")[-1] in _ISOLATED and "domain" in value:
        draft.put("kernel.isolated_cpus", _ALLOCATABLE, field)
    elif parameter in _CPU_SETS and value in _ISOLATED:
        draft.put(_CPU_SETS[parameter], _ALLOCATABLE, field)
    else:
        draft.left_out(
            field,
            f"{word} is left out: its value is computed on the host or set in another file",
            "kernel.cmdline",
        )
        return
    draft.differs(
        field,
        f"{word}: another file sets the CPUs; here they are all but the reserved ones",
        "kernel.nohz_full",
    )


def is_profile(sections: Mapping[str, Any]) -> bool:
    """Whether sections of an INI file are those of a TuneD profile."""
    sections_of_tuned = {row.path()[0] for row in TUNED_ROWS}
    texts = all(
        isinstance(options, Mapping) and all(isinstance(value, str) for value in options.values())
        for options in sections.values()
    )
    return texts and bool(sections.keys() & sections_of_tuned)


def read(text: str, file: str) -> dict[str, dict[str, str]]:
    """Return the sections of a TuneD profile. Raises NumaforgeError."""
    sections = read_ini(text, file)
    if not sections:
        raise NumaforgeError("is empty", where=file, remedy="name the tuned.conf to convert")
    return sections
