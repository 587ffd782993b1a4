# shellcheck shell=sh
# What is left on a host when nothing of it is set by numaforge any more: the plan, and what runs have left.

kept() { # say whether there is anything to forget
    if [ -e "$PLAN" ] || [ -e "$STATE" ] || [ -e "$RUN" ]; then echo yes; else echo no; fi
}
forget() { # CONFIG-DIR-FLAG, empty where the kubelet is started without one
    if [ -L "$ROOT/current" ]; then
        echo "a change of this node has not ended: run again, which ends it first" >&2
        return 1
    fi
    left=$(find /etc/numaforge -mindepth 1 ! -path "$PLAN" 2> /dev/null | LC_ALL=C sort | tr '\n' ' ')
    if [ -n "$left" ]; then
        echo "${left% }: not taken back yet, because it waits for a reboot or could not be: see above, then run again" >&2
        return 1
    fi
    rm -f "$PLAN" && rm -rf "$STATE" "$RUN" || return 1
    for folder in /etc/numaforge /usr/local/lib/numaforge; do
        [ ! -d "$folder" ] || rmdir "$folder" || return 1
    done
    if [ -z "$1" ] && [ -d "$CONFIG_DIR" ]; then rmdir "$CONFIG_DIR" 2> /dev/null || :; fi # others' files stay
}
