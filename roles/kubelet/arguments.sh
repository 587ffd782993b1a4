# shellcheck shell=sh
# Before each start of the kubelet: writes a variable of its unit with one more argument, as an environment file. systemd
# reads such files again before each program of a unit (systemd.exec(5)), so this program finds the variable as others
# set it, and the kubelet finds it with the argument. Arguments: the file, the variable, what it gets in addition.

eval "value=\${$2-}"
mkdir -p "${1%/*}" || exit
value=$(printf '%s\n' "$value" | sed 's/[\\"`$]/\\&/g') || exit # in double quotes, as systemd reads them
printf '%s="%s %s"\n' "$2" "$value" "$3" > "$1.new" && mv -f "$1.new" "$1"
