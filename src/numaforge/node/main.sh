# shellcheck shell=sh
# The last lines of what a node carries out: which transaction it is, and what to do.

FOLDER=$(cd -P "$(dirname "$0")" && pwd) || exit 1
ROOT=${FOLDER%/*}
ID=${FOLDER##*/}
while IFS=' ' read -r name value; do eval "$name=\$value"; done < "$FOLDER/settings"
DOWNWARDS=$(eval "reversed $UPWARDS")
trap '' HUP # the end of a terminal, or of a connection, is none of a change
"$@"
