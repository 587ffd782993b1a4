# shellcheck shell=sh
# Packages that stay at their version. `hold` and `loose` have the names to hold and to release, `record` our holds
# afterwards. PACKAGE_MANAGER (apt, dnf, zypper) and HELD_RECORD are settings.

packages_keep() { keep "$FOLDER/backup" "$HELD_RECORD"; }
packages_apply() {
    for names in hold loose; do
        : > "$PART/did-$names"
        packages_change "$names" "$names" || {
            rm "$PART/did-$names" # package managers change all or nothing
            return 1
        }
    done
    why="$HELD_RECORD could not be written"
    write_record "$HELD_RECORD" "the packages that it holds, and nothing else did before"
}
packages_undo() { # reverse what was done
    if [ -e "$PART/did-hold" ]; then packages_change loose hold || return 2; fi
    if [ -e "$PART/did-loose" ]; then packages_change hold loose || return 2; fi
    why="$HELD_RECORD could not be put back"
    put_back "$FOLDER/backup" "$HELD_RECORD" || return 2
}
packages_discard() { discard new "$HELD_RECORD"; }
packages_by_hand() {
    for verb in hold loose; do
        if [ "$verb" = hold ]; then names=loose; else names=hold; fi
        if [ -s "$PART/$names" ]; then printf '%s %s; ' "$(packages_command "$verb")" "$(paste -s -d ' ' "$PART/$names")"; fi
    done
}
packages_change() { # hold|loose FILE: another run of the package manager may have its lock
    [ -s "$PART/$2" ] || return 0
    command=$(packages_command "$1")
    if [ -z "$command" ]; then
        why="the package manager \"$PACKAGE_MANAGER\" cannot hold a package"
        return 1
    fi
    deadline=$(($(uptime_seconds) + 100))
    # shellcheck disable=SC2046,SC2086 # a command and package names, split into words
    until $command $(cat "$PART/$2") > "$PART/output" 2>&1 < /dev/null; do
        why="$command failed: $(tail -n 3 "$PART/output" | paste -s -d ' ' -)"
        if [ "$(uptime_seconds)" -ge "$deadline" ] || ! packages_locked; then return 1; fi
        pause
    done
}
packages_command() { # hold|loose
    case $PACKAGE_MANAGER,$1 in
    apt,hold) echo apt-mark hold ;;
    apt,loose) echo apt-mark unhold ;;
    dnf,hold) echo dnf -q -y versionlock add ;;
    dnf,loose) echo dnf -q -y versionlock delete ;;
    zypper,hold) echo zypper -n addlock ;;
    zypper,loose) echo zypper -n removelock ;;
    esac
}
packages_locked() { grep -qi 'lock' "$PART/output"; }
