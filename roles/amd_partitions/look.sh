# shellcheck shell=sh

look_amd_partitions() { # BOOT-LINK [python]
    tell_link "$1"
    if [ -z "${2-}" ]; then return; fi
    python3 -c 'import glob, os, re, sys
print("python %d.%d" % sys.version_info[:2])
nodes = glob.glob("/sys/bus/pci/drivers/amdgpu/*:*:*.*/drm/*") + glob.glob("/sys/devices/platform/amdgpu_xcp*/drm/*")
names = {os.path.basename(each) for each in nodes if re.search("/(card|renderD)[0-9]+$", each)}
device = re.compile("(/dev/kfd|/dev/dri/(%s))(?: .deleted.)?$" % "|".join(sorted(names) or ["none"]))
groups = set()
for process in filter(str.isdigit, os.listdir("/proc")):
    folder = "/proc/%s/" % process
    try:
        files = (os.readlink("%sfd/%s" % (folder, each)) for each in os.listdir(folder + "fd"))
        if any(device.search(each) for each in files):
            groups.update(line.rstrip("\n").split(":", 2)[2] for line in open(folder + "cgroup"))
    except OSError:
        pass
for group in sorted(groups):
    print("holds %s" % group)' 2> /dev/null
    if command -v modprobe > /dev/null; then echo "modprobe yes"; fi
}
