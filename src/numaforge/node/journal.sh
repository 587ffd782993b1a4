# shellcheck shell=sh
# The progress and the outcome of a transaction. `state`, `last` and `result.json` are renamed into place and flushed:
# they are read after a power cut. KEPT_TRANSACTIONS is how many finished ones stay.

valid_utf8() { # the reader over SSH accepts only this
    if command -v iconv > /dev/null 2>&1; then
        iconv -c -f UTF-8 -t UTF-8 2> /dev/null
    else
        LC_ALL=C tr '\200-\377' '?'
    fi
}
record() { # NAME TEXT [NAME TEXT]...: write each to a file of the transaction, atomically and flushed, in order
    named=
    written=
    while [ "$#" -gt 0 ]; do
        printf '%s\n' "$2" > "$FOLDER/$1.new" || return 1
        named="$named $FOLDER/$1"
        written="$written $FOLDER/$1.new"
        shift 2
    done
    # shellcheck disable=SC2086 # paths of ours
    sync $written || return 1
    folders=
    for written in $named; do
        mv -f "$written.new" "$written" || return 1
        folders="$folders ${written%/*}"
    done
    # shellcheck disable=SC2086
    sync $folders
}
replace() { sync "$1.new" && mv -f "$1.new" "$1" && sync "${1%/*}"; } # FILE: by what FILE.new holds, flushed
noted() { cat "$FOLDER/$1" 2> /dev/null; } # NAME
phase() { record state "$1"; }
outcome() { # FOLDER
    sed -n '1s/.*, "outcome": "\([a-z-]*\)", .*/\1/p' "$1/result.json" 2> /dev/null
}
json_line() { # a line of any bytes on stdin as the inside of a JSON string
    valid_utf8 | tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g'
}
result() { # OUTCOME REASON
    printf '{"id": "%s", "outcome": "%s", "reason": "%s", "journal": [' "$ID" "$1" \
        "$(printf '%s' "$2" | tr '\n' ' ' | json_line)"
    separator=
    if [ -e "$FOLDER/journal" ]; then
        json_line < "$FOLDER/journal" | while IFS= read -r line; do
            printf '%s\n  "%s"' "$separator" "$line"
            separator=,
        done
    fi
    printf ']}\n'
}
finish() { # OUTCOME REASON
    rm -f "$FOLDER/reserve"
    result "$1" "$2" > "$FOLDER/result.new" && sync "$FOLDER/result.new" || return 1
    touched=yes
    case $1 in
    void | refused | unknown) touched= ;; # the node is unchanged: plans for it still hold
    *)
        printf '%s %s\n' "$ID" "$1" > "$ROOT/last.new" && replace "$ROOT/last" || return 1
        ;;
    esac
    remember "$1" "$2" || return 1
    mv -f "$FOLDER/result.new" "$FOLDER/result.json" && sync -f "$FOLDER" || return 1
    # Only a new predecessor guarantees that a transaction whose folder is removed never begins.
    if [ -n "$touched" ]; then prune; fi
    release
}
remember() { # OUTCOME REASON: a plan that was at fault in the last rollback is not retried automatically
    case $1 in
    applied) rm -f "$ROOT/failed" ;;
    rolled-back)
        [ -e "$FOLDER/blamed" ] || return 0
        printf 'plan %s\nboot %s\nwhen %s\nwhy %s\n' "$PLAN" "$(boot_id)" "$(date -u '+%Y-%m-%dT%H:%M:%SZ')" \
            "$(printf '%s' "$2" | tr '\000-\037' ' ' | valid_utf8)" > "$ROOT/failed.new" && replace "$ROOT/failed"
        ;;
    esac
}
prune() { # the oldest finished transactions, but none that needs a person, and none that holds an edit
    kept=0
    untouched=0
    # shellcheck disable=SC2045 # by age; the names are our ids
    for id in $(ls -1t "$ROOT"); do
        if [ -L "$ROOT/$id" ] || [ ! -d "$ROOT/$id" ]; then continue; fi
        its_end=$(outcome "$ROOT/$id")
        case $its_end in
        void | refused | unknown) untouched=$((untouched + 1)) number=$untouched ;; # their backups are not needed
        *) kept=$((kept + 1)) number=$kept ;;
        esac
        if [ "$number" -gt "$KEPT_TRANSACTIONS" ] && [ "$id" != "$ID" ] && [ "$its_end" != failed ] &&
            [ ! -e "$ROOT/$id/edited" ]; then
            rm -rf "${ROOT:?}/$id"
        fi
    done
}
