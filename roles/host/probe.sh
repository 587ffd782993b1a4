# shellcheck shell=sh
# Prints the state of the clock, of control groups, and of held packages.

tell_clock() { printf 'host clock\t%s\n' "$(timedatectl show -p NTPSynchronized --value 2> /dev/null)"; }
tell_cgroup() { [ ! -e /sys/fs/cgroup/cgroup.controllers ] || printf 'host cgroup\t2\n'; }
tell_held() { held_packages "$1" | sed 's/^held \(.*\)/host held \1\tyes/'; } # MANAGER
