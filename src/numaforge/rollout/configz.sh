# shellcheck shell=sh

ask_configz() { # QUESTION; the probe, a Python program, on stdin
    if ! command -v python3 > /dev/null 2>&1; then
        echo '{"unreadable": "there is no python3 on the node"}'
    elif ! python3 -IS - "$1"; then
        echo '{"unreadable": "the python3 of the node is too old"}'
    fi
}
