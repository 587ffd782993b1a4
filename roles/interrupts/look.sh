# shellcheck shell=sh

look_interrupts() { # BOOT-LINK BLOCK-BEGIN BLOCK-END CONFIGURATION-LINE...
    tell_link "$1"
    begin=$2
    end=$3
    shift 3
    if [ "$#" -gt 0 ]; then look_affinity "$@"; fi
    if [ -s "$AFFINITY/earlier" ]; then
        printf '%s\n' "$@" | affinity_left | while IFS=$TAB read -r path earlier; do
            [ ! -e "$path" ] || printf 'left %s %s\n' "$path" "$earlier"
        done
    fi
    look_irqbalance "$begin" "$end" # last: its file may end without a newline
}
look_irqbalance() { # BLOCK-BEGIN BLOCK-END
    for property in LoadState ActiveState UnitFileState; do
        unit_says irqbalance.service "$property"
        printf '%s %s\n' "$property" "$unit_value"
    done
    unit_says irqbalance.service EnvironmentFiles
    file=${unit_value%% *} # the rest is whether it may be missing
    printf 'EnvironmentFile %s\n' "$file"
    if [ -e "$file" ]; then sed -n "/^$1\$/,/^$2\$/s/^/block /p" "$file" 2> /dev/null; fi
}
look_affinity() { # CONFIGURATION-LINE...
    printf '%s\n' "$@" | affinity_differences | tell_as differs
    targets=$(printf '%s\n' "$@" | affinity_targets)
    for asked; do
        name=${asked#* }
        name=${name%% *}
        case $asked in within\ *) continue ;; esac
        case $targets$NEWLINE in *"$TAB$name$NEWLINE"*) ;; *) printf 'lacks %s\n' "$name" ;; esac
    done
}
