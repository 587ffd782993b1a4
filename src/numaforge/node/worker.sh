# shellcheck shell=sh
# Parts whose worker changes GPUs: worker.py of the part, in Python. What holds a GPU is stopped and started again within
# `apply` and within `undo`: wherever those are broken off, `undo` comes after. Without planned.json there is no work for
# it. Only processes of pods that the lease allows are ended.

WORKER_OUTDATED=3 # its exit status where a GPU has a holder that it did not have at the look

worker() { # VERB; sets `why` to what it says
    if [ ! -e "$PART/planned.json" ]; then return; fi
    NUMAFORGE_LEASE=$FOLDER/allowed python3 -BEs "$PART/worker.py" "$1" "$PART" 2> "$PART/said" && return
    status=$?
    why=$(tail -n 3 "$PART/said" | paste -s -d ' ' -)
    return "$status"
}
worker_keep() {
    worker keep && return
    if [ "$status" -eq "$WORKER_OUTDATED" ]; then : > "$FOLDER/outdated"; fi
    printf '%s\n' "$why" >&2
    return 1
}
worker_prove() { if [ "$1" = new ]; then worker prove; else worker settled; fi; } # NEW|OLD
worker_notes() {
    if [ -e "$PART/notes" ]; then printf '; %s' "$(cat "$PART/notes")"; fi
}
