# shellcheck shell=sh
# Runs the script on stdin as root, by itself or through a sudo that asks for nothing. The part `right` of the answer
# says by which right, or why not. What follows is packed where it can be: that is a fifth of the bytes, and every
# byte arrives.
if ! command -v id >/dev/null 2>&1; then
    right=noid
elif [ "$(id -u)" = 0 ]; then
    right=root
    as_root() { exec "$@"; }
elif ! command -v sudo >/dev/null 2>&1; then
    right=nosudo
elif sudo -n true 2>/dev/null; then
    right=sudo
    as_root() { exec sudo -n "$@"; }
else
    right=password
fi
printf 'numaforge answers\nnumaforge part right\n%s\n' "$right"
case $right in
root | sudo)
    if command -v gzip >/dev/null 2>&1 && command -v base64 >/dev/null 2>&1; then
        echo "numaforge packed"
        as_root sh -s packed root | gzip -1 | base64
    else
        as_root sh -s plain root
    fi
    ;;
*) echo "numaforge ended 0" ;;
esac
