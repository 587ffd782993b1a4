# shellcheck shell=sh

look_mig() { # BOOT-LINK [python]
    tell_link "$1"
    if [ -z "${2-}" ]; then return; fi
    python3 -c 'import ctypes, sys
print("python %d.%d" % sys.version_info[:2])
ctypes.CDLL("libnvidia-ml.so.1")
print("library yes")' 2> /dev/null
    :
}
