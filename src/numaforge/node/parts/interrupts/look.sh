# shellcheck shell=sh

look_interrupts() { # BOOT-LINK BLOCK-BEGIN BLOCK-END CONFIGURATION-LINE...
    if [ -L "$1" ]; then echo unit enabled; else echo unit disabled; fi
    irqbalance=$(systemctl show -p LoadState -p ActiveState -p UnitFileState -p EnvironmentFiles \
        irqbalance.service 2> /dev/null)
    file=$(printf '%s\n' "$irqbalance" | sed -n 's/^EnvironmentFiles=\([^ ]*\).*/\1/p' | tail -n 1)
    printf '%s\n' "$irqbalance" | sed -n 's/^\([A-Z][A-Za-z]*\)=/\1 /p'
    echo "EnvironmentFile $file"
    [ -z "$file" ] || sed -n "/^$2\$/,/^$3\$/s/^/block /p" "$file" 2> /dev/null
    shift 3
    printf '%s\n' "$@" | affinity_differences | sed 's/^/differs /'
    for asked; do
        case $asked in rps\ * | mask\ *) [ -n "$(echo "$asked" | affinity_targets)" ] || echo "lacks $asked" ;; esac
    done
    [ -e "$AFFINITY/earlier" ] || return 0
    printf '%s\n' "$@" | affinity_left | while IFS=$TAB read -r path earlier; do
        [ ! -e "$path" ] || echo "left $path $earlier"
    done
}
