# shellcheck shell=sh
# Which modules are loaded.

tell_modules() { # MODULE...
    for module in "$@"; do
        [ ! -d "/sys/module/$module" ] || printf 'module %s\tloaded\n' "$module"
    done
}
