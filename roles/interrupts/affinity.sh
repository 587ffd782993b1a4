# shellcheck shell=sh disable=SC2086 # patterns of paths
# Interrupts, received packets and workqueues on given CPUs. A configuration has the lines
#   within NAME CPULIST /sys/bus/pci/devices/ADDRESS/msi_irqs/*   each message-signalled interrupt of a device
#   mask NAME MASK PATTERN                                        each mask of the kernel
# Interrupt numbers are valid for one boot, and so are their earlier CPUs: these are kept below /run, and restored for
# what leaves the configuration.

AFFINITY=/run/numaforge/interrupts
TAB=$(printf '\t')
NEWLINE='
'

affinity_targets() { # configuration on stdin; prints PATH<tab>CPUS<tab>NAME for the paths that this kernel has
    while read -r kind name cpus pattern; do
        case $kind in within | mask) ;; *) continue ;; esac
        for path in $pattern; do
            case $kind in within) path=/proc/irq/${path##*/}/smp_affinity_list ;; esac
            [ ! -e "$path" ] || printf '%s\t%s\t%s\n' "$path" "$cpus" "$name"
        done
    done
}
affinity_now() { # PATH: sets $now
    now=
    IFS= read -r now < "$1" || [ -n "$now" ]
}
each_cpu() { # CPULIST COMMAND: run it with each CPU until it fails
    left=$1,
    while [ -n "$left" ]; do
        range=${left%%,*}
        left=${left#*,}
        cpu=${range%-*}
        while [ "$cpu" -le "${range#*-}" ]; do
            "$2" "$cpu" || return 1
            cpu=$((cpu + 1))
        done
    done
}
note_cpu() { cpus="$cpus$1 "; }
noted_cpu() { case $cpus in *" $1 "*) ;; *) return 1 ;; esac }
bare() { # MASK: sets $mask without commas and leading zeros, whose number differs between kernels
    mask=$1
    while :; do
        case $mask in
        *,*) mask=${mask%%,*}${mask#*,} ;;
        0?*) mask=${mask#0} ;;
        *) return ;;
        esac
    done
}
# A mask must be equal. An interrupt may be on any subset of the CPUs: irqbalance chooses one of them.
affinity_fits() { # PATH NOW CPUS
    if [ "$2" = "$3" ]; then return 0; fi
    if [ -z "$2" ]; then return 1; fi
    case $1 in
    *_list) ;;
    *)
        bare "$2"
        is=$mask
        bare "$3"
        [ "$is" = "$mask" ]
        return
        ;;
    esac
    cpus=' '
    each_cpu "$3" note_cpu
    each_cpu "$2" noted_cpu
}
affinity_differences() { # configuration on stdin; prints PATH<tab>NOW<tab>CPUS<tab>NAME
    managed=$NEWLINE$(cat "$AFFINITY/managed" 2> /dev/null)$NEWLINE
    affinity_targets | while IFS=$TAB read -r path cpus name; do
        case $managed in *"$NEWLINE$path$NEWLINE"*) continue ;; esac
        wish=$cpus
        affinity_now "$path" 2> /dev/null || continue # it has disappeared
        affinity_fits "$path" "$now" "$wish" || printf '%s\t%s\t%s\t%s\n' "$path" "$now" "$wish" "$name"
    done
}
# Writes to managed interrupts (the queues of NVMe drives) fail with EIO (kernel/irq/proc.c, write_irq_affinity), which
# is expected. The message of a shell's own redirection does not identify the error, so `tee` writes again.
affinity_write() { # PATH CPUS
    if { printf '%s\n' "$2" > "$1"; } 2> /dev/null; then return 0; fi
    said=$(printf '%s\n' "$2" | LC_ALL=C tee "$1" 2>&1 > /dev/null)
    case $said in
    *nput/output\ error*) printf '%s\n' "$1" >> "$AFFINITY/managed" ;;
    *) printf '%s: the kernel refuses %s (%s)\n' "$1" "$2" "${said##*: }" >> "$AFFINITY/refused" ;;
    esac
}
affinity_folder() { # like all of /run/numaforge for root alone, as there are locks in it
    [ -d "$AFFINITY" ] || (umask 077 && mkdir -p "$AFFINITY") && touch "$AFFINITY/earlier"
}
affinity_apply() { # CONFIGURATION: sets what differs; fails if the kernel refuses any, with the errors in `refused`
    affinity_folder || return 1
    : > "$AFFINITY/refused"
    affinity_give_back < "$1" || return 1
    : > "$AFFINITY/managed" # found again: the numbers may now belong to other devices
    affinity_differences < "$1" > "$AFFINITY/differ"
    known=$NEWLINE$(cut -f 1 "$AFFINITY/earlier")$NEWLINE
    while IFS=$TAB read -r path now cpus _ <&3; do
        case $known in
        *"$NEWLINE$path$NEWLINE"*) ;;
        *) printf '%s\t%s\n' "$path" "$now" >> "$AFFINITY/earlier" || return 1 ;;
        esac
        affinity_write "$path" "$cpus" 3<&-
    done 3< "$AFFINITY/differ"
    [ ! -s "$AFFINITY/refused" ]
}
affinity_left() { # configuration on stdin; prints PATH<tab>EARLIER of what was changed and is no longer in it
    planned=$NEWLINE$(affinity_targets | cut -f 1)$NEWLINE
    while IFS=$TAB read -r path earlier; do
        case $planned in *"$NEWLINE$path$NEWLINE"*) ;; *) printf '%s\t%s\n' "$path" "$earlier" ;; esac
    done < "$AFFINITY/earlier"
}
affinity_give_back() { # configuration on stdin: restores what is no longer in it
    affinity_left > "$AFFINITY/left"
    [ -s "$AFFINITY/left" ] || return 0
    while IFS=$TAB read -r path earlier <&3; do
        [ ! -e "$path" ] || affinity_write "$path" "$earlier" 3<&-
    done 3< "$AFFINITY/left"
    grep -vxF -f "$AFFINITY/left" "$AFFINITY/earlier" > "$AFFINITY/kept" || :
    mv -f "$AFFINITY/kept" "$AFFINITY/earlier"
}
