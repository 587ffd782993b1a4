# shellcheck shell=sh

memlock_of() { # UNIT: LOADED UNIT'S-LIMIT PROCESS'S-LIMIT, each "-" where there is none
    loaded=- limit=- process=0 running=-
    for property in $(systemctl show -p LoadState -p LimitMEMLOCK -p MainPID "$1"); do
        case $property in
        LoadState=?*) loaded=${property#*=} ;;
        LimitMEMLOCK=?*) limit=${property#*=} ;;
        MainPID=?*) process=${property#*=} ;;
        esac
    done
    while read -r _ what _ soft _; do
        if [ "$what" = locked ]; then running=$soft; fi # "Max locked memory SOFT HARD bytes"
    done < "/proc/$process/limits"
    if [ "$running" = unlimited ]; then running=infinity; fi
    echo "$loaded $limit $running"
} 2> /dev/null
