# shellcheck shell=sh

memlock_of() { # UNIT: LOADED UNIT'S-LIMIT PROCESS'S-LIMIT, each "-" where there is none
    said=$(systemctl show -p LoadState -p LimitMEMLOCK -p MainPID "$1" 2> /dev/null)
    process=$(printf '%s\n' "$said" | sed -n 's/^MainPID=//p')
    running=$(sed -n 's/^Max locked memory *\([^ ]*\) .*/\1/p' "/proc/${process:-0}/limits" 2> /dev/null)
    loaded=$(printf '%s\n' "$said" | sed -n 's/^LoadState=//p')
    limit=$(printf '%s\n' "$said" | sed -n 's/^LimitMEMLOCK=//p')
    if [ "$running" = unlimited ]; then running=infinity; fi
    echo "${loaded:--} ${limit:--} ${running:--}"
}
