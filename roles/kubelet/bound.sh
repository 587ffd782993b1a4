# shellcheck shell=sh
# The units that systemd stops with the kubelet and does not start with it: Requires=, BindsTo=, PartOf=. A stop
# propagates to every unit that names the stopped one in that way, and on to theirs; a start does not
# (systemd.unit(5)). So those that were active are noted before each stop and started after each start.

# The reverse of Requires=, Requisite=, BindsTo=, PartOf= and StopPropagatedFrom=, as `systemctl show` names
# them; a systemd that does not know one prints nothing for it.
bound_to() { # UNIT...
    systemctl show -p RequiredBy -p RequisiteOf -p BoundBy -p ConsistsOf -p PropagatesStopTo "$@" |
        sed 's/^[A-Za-z]*=//'
}
bound_units() { # sets `bound` to every unit that systemd stops with the kubelet, directly or through another
    bound=
    more=$KUBELET_UNIT
    while [ -n "$more" ]; do
        # shellcheck disable=SC2086 # several units
        names=$(bound_to $more)
        more=
        for unit in $names; do
            case " $KUBELET_UNIT $bound " in
            *" $unit "*) ;;
            *)
                bound="$bound $unit"
                more="$more $unit"
                ;;
            esac
        done
    done
}
bound_before() { cat "$PART/bound" 2> /dev/null; }
note_bound() { # add those that are active
    bound_units
    {
        bound_before
        for unit in $bound; do
            if systemctl is-active --quiet "$unit"; then printf '%s\n' "$unit"; fi
        done
    } | sort -u > "$PART/bound.new" && sync "$PART/bound.new" && mv -f "$PART/bound.new" "$PART/bound"
}
start_bound() { # `bound_run` checks that they come up
    for unit in $(bound_before); do
        systemctl reset-failed "$unit" 2> /dev/null
        systemctl start --no-block "$unit"
    done
}
bound_run() { # whether they are all active; else `down` is one that is not
    for unit in $(bound_before); do
        down=$unit
        systemctl is-active --quiet "$unit" || return 1
    done
}
bound_by_hand() { for unit in $(bound_before); do printf '; systemctl start %s' "'$unit'"; done; }
