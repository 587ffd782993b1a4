# shellcheck shell=sh
# Runs the script on stdin as root, by itself or through a sudo that asks for nothing, and says which it was.
if [ "$(id -u)" = 0 ]; then
    echo "numaforge-right root"
    exec sh -s
elif ! command -v sudo >/dev/null 2>&1; then
    echo "numaforge-right nosudo"
elif sudo -n true 2>/dev/null; then
    echo "numaforge-right sudo"
    exec sudo -n sh -s
else
    echo "numaforge-right password"
fi
