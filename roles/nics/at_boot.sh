# shellcheck shell=sh
# nics.sh apply FILE: what a boot has lost; nics.sh show FILE: what is there now.

case $1 in
apply) nics_apply_at_boot "$2" ;;
show) nics_show "$2" ;;
esac
