# shellcheck shell=sh

look_mig() { # BOOT-LINK [PROGRAM-OF-HOLDERS]
    tell_link "$1"
    if [ -z "${2-}" ]; then return; fi
    tell_holders '/dev/nvidia([0-9]+|-caps/nvidia-cap[0-9]+)' "$2" 'import ctypes
ctypes.CDLL("libnvidia-ml.so.1")
print("library yes")'
    :
}
