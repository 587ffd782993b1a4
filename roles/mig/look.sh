# shellcheck shell=sh

look_mig() { # BOOT-LINK [python]
    tell_link "$1"
    if [ -z "${2-}" ]; then return; fi
    python3 -c 'import ctypes, os, re, sys
print("python %d.%d" % sys.version_info[:2])
groups, device = set(), re.compile(r"/dev/nvidia([0-9]+|-caps/nvidia-cap[0-9]+)(?: \(deleted\))?$")
for process in filter(str.isdigit, os.listdir("/proc")):
    folder = "/proc/%s/" % process
    try:
        files = (os.readlink("%sfd/%s" % (folder, each)) for each in os.listdir(folder + "fd"))
        if any(device.search(each) for each in files):
            groups.update(line.rstrip("\n").split(":", 2)[2] for line in open(folder + "cgroup"))
    except OSError:
        pass
for group in sorted(groups):
    print("holds %s" % group)
ctypes.CDLL("libnvidia-ml.so.1")
print("library yes")' 2> /dev/null
    :
}
