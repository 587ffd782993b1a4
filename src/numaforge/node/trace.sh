# shellcheck shell=sh
# The transactions that the node has seen, independent of their folders: $ROOT/seen gets a line "announced ID" before a
# transaction may be handed over, and "began ID" before it does anything.

see() ( # WORD ID
    umask 077
    mkdir -p "$ROOT" && printf '%s %s\n' "$1" "$2" >> "$ROOT/seen" && sync "$ROOT/seen" "$ROOT"
)
seen() { sed -n "s/^\([a-z]*\) $ID\$/\1/p" "$ROOT/seen" 2> /dev/null | tail -n 1; } # the last that is known
trim_seen() { # a trimmed transaction is unknown
    if [ "$(wc -l < "$ROOT/seen")" -le 1000 ]; then return; fi
    tail -n 500 "$ROOT/seen" > "$ROOT/seen.new" && sync "$ROOT/seen.new" && mv -f "$ROOT/seen.new" "$ROOT/seen"
}
