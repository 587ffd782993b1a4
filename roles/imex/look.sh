# shellcheck shell=sh

look_imex() { # PLANNED CONFIG NODES RECORD KEY...: nothing where PLANNED is empty and there is no RECORD
    if [ -z "$1" ] && [ ! -e "$4" ]; then return; fi
    shift
    if command -v nvidia-imex > /dev/null 2>&1; then echo "program yes"; fi
    echo "unit $(imex_unit_state)"
    unit_says nvidia-imex.service ActiveState
    if [ "$unit_value" = active ]; then echo "active yes"; fi
    imex_daemons
    each_record "$2" printf 'node %s\n'
    each_record "$3" printf 'recorded %s\n'
    if command -v ip > /dev/null 2>&1; then
        ip -o address show scope global 2> /dev/null | sed -n 's/.* inet6\{0,1\} \([0-9a-f.:]*\).*/address \1/p'
    fi
    config=$1
    shift 3
    for key in "$@"; do
        value=$(imex_value "$config" "$key") && tell_first_line key "$key=$value"
    done
}
