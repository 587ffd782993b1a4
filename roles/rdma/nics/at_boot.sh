# shellcheck shell=sh
# nics.sh apply FILE: apply the settings that a boot has lost; nics.sh show FILE: print the present ones.

case $1 in
apply) nics_apply_at_boot "$2" ;;
show) nics_show "$2" ;;
esac
