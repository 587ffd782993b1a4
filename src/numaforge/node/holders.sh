# shellcheck shell=sh
# The holders of devices, before anything changes; holders.py looks again on the node.

tell_holders() { # PATTERN [PYTHON]: python3's version, the control groups of who has such a file open, what PYTHON says
    python3 -c 'import os, re, sys
print("python %d.%d" % sys.version_info[:2])
groups, device = set(), re.compile(r"(%s)(?: \(deleted\))?$" % sys.argv[1])
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
'"${2-}" "$1" 2> /dev/null
}
