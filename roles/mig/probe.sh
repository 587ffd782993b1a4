# shellcheck shell=sh
# How the GPUs are cut.

tell_mig() { # WORKER
    python3 -BEs "$1" show | sed 's/^/mig /'
}
