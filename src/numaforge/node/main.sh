# shellcheck shell=sh
# The last lines of the script that a node runs: the transaction and the verb.

FOLDER=$(cd -P "$(dirname "$0")" && pwd) || exit 1
ROOT=${FOLDER%/*}
ID=${FOLDER##*/}
while IFS=' ' read -r name value; do eval "$name=\$value"; done < "$FOLDER/settings"
DOWNWARDS=$(eval "reversed $UPWARDS")
trap '' HUP # a change outlives its terminal or connection
find_boot
"$@"
