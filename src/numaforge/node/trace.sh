# shellcheck shell=sh
# Which transactions the node has seen, whatever becomes of their folders: $ROOT/seen has a line "announced ID" for
# one that may be handed over, from before that, and "began ID" from before anything of it happens.

see() ( # WORD ID
    umask 077
    mkdir -p "$ROOT" && printf '%s %s\n' "$1" "$2" >> "$ROOT/seen" && sync "$ROOT/seen" "$ROOT"
)
seen() { sed -n "s/^\([a-z]*\) $ID\$/\1/p" "$ROOT/seen" 2> /dev/null | tail -n 1; } # the last that is known
trim_seen() { # what is not there any more is unknown
    if [ "$(wc -l < "$ROOT/seen")" -le 1000 ]; then return; fi
    tail -n 500 "$ROOT/seen" > "$ROOT/seen.new" && sync "$ROOT/seen.new" && mv -f "$ROOT/seen.new" "$ROOT/seen"
}
