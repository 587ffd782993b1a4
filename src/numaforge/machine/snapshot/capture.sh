# shellcheck shell=sh disable=SC2086,SC2044,SC2046,SC2012 # lists of words and patterns; folders of the kernel
# Prints a snapshot of this host, or of the tree below $root, in lines that no content can imitate:
#   sys/FILE:LINE, proc/FILE:LINE   a line of a file, as grep prints it
#   lrwx...     a symbolic link, as `ls -ln` prints it
#   t PATH      a text, its bytes in hex on the indented lines below
#   T           many texts at once: hex of their sizes as wc prints them, then of `PATH:NUMBER:LINE`; of a text
#               without a size only the beginning is there
#   N           the same, not in hex, up to the end
#   u PATH      a text that this user may not read
#   c COMMAND   a command's output, in hex below
#   C COMMAND   the same, not in hex
#   v NAME:WORDS   an answer of plain words
#   p SIZE PATH   a PCI function's configuration space, all of which follow
#   P           them, one after the other: offsets and bytes in hex, equal rows as `od` prints them
# POSIX sh and nothing else: it runs under dash and busybox, and needs no program that they do not bring.
# Where the first argument is `packed`, every byte of the output arrives as it is, and little is printed in hex. With
# the second, `root`, it runs as root. A process costs more than all else here: it is what is saved.
tab=$(printf '\t')
IFS=" $tab$newline"

hex() {
    od -A n -v -t x1
}

# FOLDERS NAMES: prints the paths to read
attributes() {
    for folder in $1; do
        [ -d "$folder" ] || continue
        for names in $2; do
            until [ -f "$folder/${names%%|*}" ] && echo "$folder/${names%%|*}"; do
                case $names in
                *'|'*) names=${names#*|} ;;
                *) break ;;
                esac
            done
        done
    done
}

settings() {
    set -- $1
    set -f
    for file; do
        [ ! -f "$file" ] || unwanted "${file##*/}" || echo "$file"
    done
    set +f
}
unwanted() { # NAME: whether a pattern of $unwanted_settings matches it; without expansion of paths
    for pattern in $unwanted_settings; do
        # shellcheck disable=SC2254 # a pattern
        case $1 in $pattern) return 0 ;; esac
    done
    return 1
}
everything_small() { # the lines of $attributes_wanted and $planned_wanted are FOLDERS<tab>NAMES
    if [ -e "$plan" ]; then attributes_wanted="$attributes_wanted$newline$planned_wanted"; fi
    while IFS=$tab read -r folders names; do attributes "$folders" "$names"; done << END
$attributes_wanted
END
    if [ -f "$interrupts" ]; then affinities < "$interrupts"; fi
    for pattern in $settings_wanted; do settings "$pattern"; done
    for each in $pci_functions; do attributes "sys/bus/pci/devices/$each" iommu_group/type; done
}

# Prints the paths of the masks and interrupts that a configuration names (roles/interrupts/affinity.sh).
affinities() {
    while read -r kind _ _ pattern; do
        case $kind in within | mask) ;; *) continue ;; esac
        for path in ${pattern#/}; do
            if [ ! -e "$path" ]; then continue; fi
            echo "$path"
            case $kind in within) echo "proc/irq/${path##*/}/smp_affinity_list" ;; esac
        done
    done
}

# Names in $pci_functions GPUs, network functions, NICs' switches, and the bridges above them; only where there is an
# RDMA device.
find_pci_functions() {
    set -- sys/class/infiniband/*
    [ -e "$1" ] || [ -L "$1" ] || return 0
    folders=
    # shellcheck disable=SC2013 # names without blanks
    for file in $(grep -l -e '^0x0[23]....$' -e '^0x12....$' -e "^0x$direct_nic\$" -e "^0x$switches\$" \
        sys/bus/pci/devices/*/class sys/bus/pci/devices/*/device 2> /dev/null); do
        [ -e "${file%/*}/physfn" ] || folders="$folders ${file%/*}"
        read -r id < "$file"
        [ "$id" != "0x$direct_nic" ] || direct=yes
    done
    [ -n "$folders" ] || return 0
    set -- "$(ls -lnd $folders 2> /dev/null)"
    set -f
    IFS=/
    for part in $1; do
        part=${part%%[ "$newline"]*}
        case " $pci_functions " in *" $part "*) continue ;; esac
        case $part in *:*:*.?) pci_functions="$pci_functions $part" ;; esac
    done
    IFS=" $tab$newline"
    set +f
}
# Reading the VPD takes a second: it is read only where it shows which functions share a card.
pci_configuration() {
    configs=
    groups=
    for each in $pci_functions; do
        each=sys/bus/pci/devices/$each
        groups="$groups $each/iommu_group"
        [ ! -f "$each/config" ] || configs="$configs $each/config"
        [ -z "$direct" ] || [ ! -r "$each/vpd" ] || ! ask 10 od -A n -v -t x1 "$each/vpd" < /dev/null ||
            printf 't /%s\n%s\n' "$each/vpd" "$answer"
    done
    [ -n "$configs" ] || return 0
    configs=$(ls -d $configs) # in the order of their sizes in the listing
    links $groups
    ls -lnL $configs 2> /dev/null | sed -n 's/^-[^ ]* *[0-9]* *[0-9]* *[0-9]* *\([0-9]*\) .* \(sys.*\)$/p \1 \/\2/p'
    echo P
    od -A x -t x1 $configs 2> /dev/null | sed -e 's/ //g' -e 's/^/ /'
    [ ! -r "$kernel_types" ] || { grep -q pci_config_acs "$kernel_types" && echo v config_acs:yes || echo v config_acs:no; }
}

links() {
    ls -lnd "$@" 2> /dev/null
}

# Says of each RDMA device whether its vital product data hold the keyword, and nothing else of them. Firmware gives
# them 4 bytes at a time, so that all devices are asked at once. Of NULs in an answer bash would complain.
vital_product_data() {
    for vpd in $vpd_wanted; do
        if [ -r "$vpd" ]; then
            data=$(tr -d '\000' 2> /dev/null < "$vpd") && case $data in
            *"$switch_management"*) echo "$vpd:$switch_management" ;;
            *) echo "$vpd:" ;;
            esac &
        elif [ -f "$vpd" ]; then
            printf 'u /%s\n' "$vpd"
        fi
    done
    wait
}

# Notes a text to be printed by `noted_texts`, all of them by three processes: starting one costs more than reading
# a file, above all in a virtual machine. Absolute paths are below the root, which is the working directory.
text() {
    file=${1#/}
    file=${file#/}
    [ -f "$file" ] || return 0
    if [ ! -r "$file" ]; then
        printf 'u /%s\n' "$file"
    elif [ -s "$file" ] || [ "${file#proc/}" != "$file" ]; then
        case $noted$newline in
        *"$newline$file$newline"*) ;;
        *) noted=$noted$newline$file ;;
        esac
    else
        printf 't /%s\n' "$file"
    fi
}

texts() {
    for path in "$@"; do
        text "$path"
    done
}

# Files that settings name: each is read only where root alone can have put it there (paths.sh).
safe_texts() {
    for path in "$@"; do
        path=${path#/}
        if is_safe "/$path"; then
            text "$path"
        elif [ -f "./$path" ]; then
            printf 'u /%s\n' "$path"
        fi
    done
}
is_safe() { # PATH: in the tree of another machine every path is
    [ -n "$root" ] || resolve "$1" 2> /dev/null
}

noted_texts() {
    set -f
    IFS=$newline
    if [ -n "$packed" ]; then
        echo N
        numbered_texts
    else
        echo T
        numbered_texts | hex
    fi
    IFS=" $tab$newline"
    set +f
}
numbered_texts() {
    [ -z "$noted" ] || wc -c /dev/null $noted
    [ -z "$noted" ] || grep $as_text -s -n '' /dev/null $noted
    [ -z "$noted_beginning" ] || grep $as_text -s -n -m 64 '' /dev/null "$noted_beginning"
} 2> /dev/null

command_output() { # COMMAND OUTPUT, without its empty lines where it is not in hex
    if [ -z "$packed" ]; then
        printf 'c %s\n' "$1"
        printf '%s' "$2" | hex
        return
    fi
    printf 'C %s\n' "$1"
    set -f
    IFS=$newline
    for line in $2; do printf ' %s\n' "$line"; done
    IFS=" $tab$newline"
    set +f
}

# The timeout of busybox may not know -k.
find_options() {
    as_text=-a
    timeout='timeout -k 5'
    ! timeout -k 1 1 grep -qa '' 2> /dev/null << END || return 0

END
    find_as_text
    if timeout -k 1 1 true 2> /dev/null; then
        :
    elif timeout 1 true 2> /dev/null; then
        timeout=timeout
    else
        timeout=none
    fi
}

bounded() { # SECONDS COMMAND...: takes the place of the shell that calls it, so one is made for it
    [ "$timeout" != none ] || { shift && exec "$@"; }
    exec $timeout "$@"
}

# SECONDS COMMAND...: runs it with its output in $answer, and its exit code in $ended if it fails; stdin must be given.
# A process that hangs inside a driver survives every signal: it is left behind, only its reader is waited for.
ask() {
    seconds=$1
    shift
    answer=$({ { {
        if (bounded "$seconds" "$@") <&3 2> /dev/null; then echo answered; else echo "ended with $?"; fi
    } & } 3<&0 | bounded $((seconds + 10)) cat; })
    case $answer in
    *answered) answer=${answer%answered} ;;
    *)
        ended=${answer##*"ended with "}
        answer=${answer%"ended with "*}
        return 1
        ;;
    esac
}

# Asking NVML or nvidia-smi without the driver would load it (nvidia-modprobe), and change the node.
driver_runs() { [ -e proc/driver/nvidia/version ]; }

nvml_installed() {
    IFS=":$IFS"
    set -- /usr/lib/*-linux-gnu /usr/lib64 /usr/lib /lib64 /usr/local/lib ${LD_LIBRARY_PATH-}
    IFS=" $tab$newline"
    for folder; do
        [ ! -e "$folder/libnvidia-ml.so.1" ] || return 0
    done
    driver_runs || return 1 # elsewhere it is worth a search only for an answer
    { ldconfig -p || /sbin/ldconfig -p; } 2> /dev/null | grep -q 'libnvidia-ml\.so\.1'
}

nvml() {
    ask 60 python3 - << END_OF_PROBE
$probe
END_OF_PROBE
}

# A GPU that does not answer makes nvidia-smi fail, but the document still has the others. The supported clocks are most
# of it, and command lines of processes are not captured.
nvidia_smi() {
    ask 60 nvidia-smi -q -x < /dev/null
    case $answer in
    *'</nvidia_smi_log>'*) ;;
    *) return 1 ;;
    esac
    answer=$(printf '%s\n' "$answer" | sed -e '/<supported_clocks>.*<\/supported_clocks>/d' \
        -e '/<supported_clocks>/,/<\/supported_clocks>/d' -e 's/<process_name>[^<]*<\/process_name>//g' -e '/^[[:space:]]*$/d')
}

# NVML where the host has python3 and the library, else nvidia-smi where it has that; then the processes that they list.
gpus() {
    if ! driver_runs; then
        nvml_installed || return 0
        answer='{"error": "Driver Not Loaded", "gpus": []}' # as NVML says it
        command_output nvml "$answer"
    elif command -v python3 > /dev/null && nvml_installed && nvml; then
        command_output nvml "$answer"
    elif command -v nvidia-smi > /dev/null && nvidia_smi; then
        command_output 'nvidia-smi -q -x' "$answer"
    else
        return 0
    fi
    users=$answer
    ! answer=$(bounded 20 modinfo -F version nvidia 2> /dev/null < /dev/null) || command_output 'modinfo nvidia' "$answer"
    answer=$users
    for pid in $(printf '%s\n' "$answer" | sed -n -e 's/.*"pids":\[\([0-9,]*\)\].*/\1/p' \
        -e 's/.*<pid>\([0-9]*\)<.*/\1/p' | tr ',' ' '); do
        texts "proc/$pid/comm" "proc/$pid/cgroup"
        hold "proc/$pid/cgroup"
        name_units "proc/$pid/cgroup"
    done
}

# Adds a small file to $held, which is searched for pod UIDs.
hold() {
    while IFS= read -r line; do
        held="$held $line"
    done < "$1"
} 2> /dev/null

device_holders() { # the file is FOLDER/$device_checkpoint
    file=${1#/}/$device_checkpoint
    [ -f "$file" ] || return 0
    if [ ! -r "$file" ] || ! is_safe "/$file"; then
        printf 'u /%s\n' "$file"
        return
    fi
    answer=$(sed 's/\("AllocResp":\)"[^"]*"/\1""/g' "$file")
    printf 't /%s\n' "$file"
    printf '%s' "$answer" | hex
    held="$held $answer"
    case $answer in *'"PodUID"'*) pod_resources "$1" ;; esac
}

# Asks the kubelet itself which container has which device: its checkpoint, which is written before a container gets
# one, has those of pods that have ended, too.
pod_resources() { # FOLDER, the kubelet's
    socket=$1/$pod_resources_socket
    [ -z "$root" ] && [ -S "$socket" ] || return 0
    answer='the host has no python3'
    ! command -v python3 > /dev/null || ask 10 python3 -IS - "$socket" << END_OF_PROBE || answer='it could not be asked'
$pod_resources_probe
END_OF_PROBE
    case $answer in
    '['*) printf 't %s\n' "$socket" && printf '%s' "$answer" | hex ;;
    *) printf 'v pod resources:%s\n' "$answer" ;;
    esac
}

# Prints the folders of the pods whose UIDs are in $held; systemd's control groups write _ for -.
pods() {
    [ -n "$held" ] || return 0
    held=$(printf '%s' "$held" | tr '_' '-')
    named=
    for folder in "$pod_logs" $root_folders; do
        folder=${folder#/}
        [ "$folder" = "$pod_logs" ] || folder=$folder/pods
        for pod in "$folder"/*; do
            uid=${pod##*[_/]}
            case $uid in
            *[!0-9a-f-]*) continue ;;
            esac
            [ "${#uid}" -ge 32 ] || continue
            case $held in
            *"$uid"*) named="$named ${pod##*/}" ;;
            esac
        done
    done
    [ -z "$named" ] || printf 'v pods:%s\n' "${named# }"
}

drop_ins() { # FOLDER: those in folders below it, too, where find knows a link that leads back
    [ -n "$root" ] || read_rights "${1#.}"/*.conf
    for drop_in in "$1"/* "$1"/.[!.]* "$1"/..?*; do
        if [ -d "$drop_in" ]; then
            IFS=$newline
            for below in $(find -L "$drop_in" -type f -name '*.conf' 2> /dev/null); do safe_texts "${below#./}"; done
            IFS=" $tab$newline"
        else
            case $drop_in in *.conf) safe_texts "${drop_in#./}" ;; esac
        fi
    done
}

# Adds the words of a file to $words, and the files that a unit calls EnvironmentFile to $environment_files. The
# shell reads it itself: a process costs more than a file of this size, above all in a virtual machine.
read_words() {
    [ -r "$1" ] || return 0
    while IFS= read -r line || [ -n "$line" ]; do
        words="$words $line"
        case $line in
        EnvironmentFile=*) line=${line#*=} && environment_files="$environment_files ${line#-}" ;;
        esac
    done < "$1"
}

# Prints which of these files exist (their presence is enough), and the host's IMEX settings.
present() {
    found=
    for file in $present_wanted; do
        [ ! -e "$file" ] && [ ! -L "$file" ] || found="$found /$file"
    done
    printf 'v present:%s\n' "${found# }"
    [ ! -e sys/module/nvidia ] && [ ! -e sys/module/nouveau ] || texts $modprobe_wanted
    [ ! -r "$imex_config" ] || imex_commands
    [ -f "$imex_nodes" ] && [ -r "$imex_nodes" ] || return 0
    count=0
    entries=
    while read -r entry || [ -n "$entry" ]; do
        case $entry in
        '' | '#'*) ;;
        *) count=$((count + 1)) && entries="$entries$entry$newline" ;;
        esac
    done < "$imex_nodes"
    printf 'v imex nodes:%s\n' "$count"
    sum=$(printf %s "$entries" | sha256sum 2> /dev/null) && printf 'v imex list:%s\n' "${sum%% *}"
}

imex_commands() { # says the last value of the key that has the daemon take commands
    value=$(sed -n 's/^[[:space:]]*IMEX_CMD_ENABLED[[:space:]]*=[[:space:]]*//p' "$imex_config" | sed -n '$p')
    printf 'v imex commands:%s\n' "$value"
}

# shellcheck disable=SC2016 # what dpkg-query and rpm put in for each package
packages() {
    set -f
    if command -v dpkg-query > /dev/null; then
        set -- dpkg-query -W -f '${db:Status-Want} ${db:Status-Status} ${Package} ${Version}\n' $packages_wanted
    elif command -v rpm > /dev/null; then
        set -- rpm -qa --qf 'install installed %{NAME} %{VERSION}\n' $packages_wanted
    else
        set --
    fi
    set +f
    # a pattern may match no package
    [ "$#" = 0 ] || command_output packages "$(bounded 20 "$@" 2> /dev/null < /dev/null)"
}

# What containerd runs with, asked of the program that its unit runs: one that k3s brings has another's name.
containerd_setup() {
    is_roots_program "$containerd_program" || return 0
    program=$target
    words=$({ tr '\0' ' ' < "proc/$containerd_pid/cmdline"; } 2> /dev/null)
    file=/etc/containerd/config.toml
    set -f
    set -- $words
    set +f
    while [ "$#" -gt 0 ]; do
        case $1 in
        -c | --config) file=${2-$file} ;;
        --config=*) file=${1#*=} ;;
        esac
        shift
    done
    answer=$(bounded 5 "$program" --version 2> /dev/null < /dev/null) && command_output 'containerd --version' "$answer"
    is_safe "$file" || return 0
    ! answer=$(bounded 10 "$program" --config "$file" config dump 2> /dev/null < /dev/null) ||
        command_output 'containerd config dump' "$(printf '%s\n' "$answer" | grep -E "$containerd_keys" | grep -v '\.registry')"
    command_output 'containerd files' "$(grep -HE '^[[:space:]]*(version|imports)[[:space:]]*=' \
        /dev/null "$file" etc/containerd/conf.d/*.toml 2> /dev/null)"
}

tuned_profiles() { # NAME...: and those that they include
    for name in "$@"; do
        case " $profiles " in *" $name "*) continue ;; esac
        profiles="$profiles $name"
        for folder in $tuned_folders; do
            [ -f "$folder/$name/tuned.conf" ] || continue
            text "$folder/$name/tuned.conf"
            tuned_profiles $(sed -n 's/^include *= *//p' "$folder/$name/tuned.conf" | tr ',' ' ')
            break
        done
    done
}

# Processes with the name of a daemon, as any process may have it: systemd says which are daemons.
name_processes() {
    for comm in proc/[0-9]*/comm; do
        name=
        { IFS= read -r name < "$comm"; } 2> /dev/null
        pid=${comm%/comm}
        case " $daemons_wanted " in
        *" ${name:-none} "*)
            daemons="$daemons ${pid#proc/}"
            texts "$comm" "$pid/cgroup"
            name_units "$pid/cgroup"
            ;;
        esac
        case " $host_daemons_wanted " in
        *" ${name:-none} "*)
            host_daemons="$host_daemons ${pid#proc/}"
            texts "$comm" "$pid/cgroup" "$pid/limits"
            name_units "$pid/cgroup"
            [ "$name" != kubelet ] || kubelets="$kubelets ${pid#proc/}"
            ;;
        esac
    done
}

# Asks systemd's system manager for the main process and the control group of each unit in $units, once for all.
ask_systemd() {
    [ -z "$root" ] && [ -d run/systemd/system ] || return 0
    ask_units MainPID,ControlGroup,ExecStart $units
    case $units_say in *"${newline}ControlGroup="*) ;; *) return 0 ;; esac
    rows=
    for unit in $units; do
        unit_says "$unit" ControlGroup
        group=$unit_value
        unit_says "$unit" MainPID
        [ -z "$group" ] || rows="$rows$unit ${unit_value:-0} $group$newline"
    done
    command_output units "$rows"
    find_main_processes
}
find_main_processes() {
    unit_says "$kubelet_unit" MainPID
    kubelet_pid=${unit_value#0}
    [ -n "$kubelet_pid" ] || find_child_kubelet
    for unit in $kubelet_hosts; do
        unit_says "$unit" MainPID
        [ -z "${unit_value#0}" ] || { host_unit=$unit && host_pid=$unit_value; }
    done
    for unit in $containerd_units; do
        unit_says "$unit" MainPID
        [ -z "${unit_value#0}" ] || [ -n "$containerd" ] || { containerd=$unit && containerd_pid=$unit_value; }
    done
    set -- proc/1/ns/mnt
    for pid in $kubelet_pid $host_pid $containerd_pid; do set -- "$@" "proc/$pid/ns/mnt" "proc/$pid/exe"; done
    [ "$#" = 1 ] || programs=$(ls -ln "$@" 2> /dev/null)
}
find_child_kubelet() { # in RKE2's own control group, and no other's
    for unit in $kubelet_parents; do
        unit_says "$unit" ControlGroup
        [ -n "$unit_value" ] || continue
        for pid in $kubelets; do
            while IFS= read -r line; do
                case $line in "0::$unit_value" | *":name=systemd:$unit_value") kubelet_pid=$pid ;; esac
            done < "proc/$pid/cgroup"
        done
    done
} 2> /dev/null

program_link() { # PATH: sets `target` to where this link of `ls -ln` leads
    target=
    case $programs in *" $1 -> "*) target=${programs#*" $1 -> "} && target=${target%%"$newline"*} ;; esac
}
# UNIT PID NAME: sets `program` to what the unit runs, and starts next: the program of its main process in the host's
# own mount namespace, else that of its ExecStart, else one of this name in a folder of programs.
find_program() {
    candidates=
    program_link proc/1/ns/mnt
    own=$target
    program_link "proc/${2:-none}/ns/mnt"
    if [ -n "$own" ] && [ "$target" = "$own" ]; then
        program_link "proc/$2/exe"
        candidates=$target$newline
    fi
    unit_says "$1" ExecStart
    set -f
    for word in $unit_value; do
        case $word in
        path=*) candidates=$candidates${word#path=}$newline ;;
        /*/"$3") candidates=$candidates$word$newline ;; # after a wrapper
        esac
    done
    for folder in $program_folders; do candidates=$candidates$folder/$3$newline; done
    IFS=$newline
    program=
    for word in $candidates; do
        case ${word##*/} in "$3"*) if [ -f "$word" ]; then program=$word && break; fi ;; esac
    done
    IFS=" $tab$newline"
    set +f
}
is_roots_program() { # PATH: whether root alone can have written it; sets `target` to it without links
    [ -n "$1" ] && resolve "$1" 2> /dev/null && rights_of "$target" && [ -x "$target" ] || return 1
    case $right in -????-??-?\ 0\ *) ;; *) return 1 ;; esac
}

# The files that the kubelet reads are named by its flags, and those by the command line of its unit's main process, its
# unit or environment files.
kubelet_setup() { # not called kubelet: `command -v` names functions, too
    words=
    environment_files=
    if [ -n "$kubelet_pid" ]; then
        texts "proc/$kubelet_pid/cmdline" "proc/$kubelet_pid/cgroup"
        words=$({ tr '\0' ' ' < "proc/$kubelet_pid/cmdline"; } 2> /dev/null)
    fi
    for unit in $unit_files_wanted; do
        text "$unit"
        read_words "$unit"
    done
    for file in $arguments_files; do
        [ ! -e ".$file" ] || environment_files="$environment_files $file"
    done
    if [ -z "$root" ]; then
        if [ -n "$host_pid" ]; then
            find_program "$host_unit" "$host_pid" k3s
        else
            find_program "$kubelet_unit" "$kubelet_pid" kubelet
        fi
        kubelet_program=$program
        [ -z "$containerd" ] || find_program "$containerd" "$containerd_pid" containerd
        [ -z "$containerd" ] || containerd_program=$program
        set -- ${kubelet_program:+"$kubelet_program"} ${containerd_program:+"$containerd_program"}
        for name in $device_checkpoint $state_files; do set -- "$@" "$root_dir/$name"; done
        read_rights "$@" $environment_files "$config_file" "$config_dir"/*.conf
    fi
    for file in $environment_files; do
        safe_texts "$file"
        case $noted$newline in *"$newline${file#/}$newline"*) read_words "./$file" ;; esac
    done

    config_files=$config_file
    config_folders="$config_dir $distributions_dirs"
    root_folders=$root_dir
    previous=
    set -f
    IFS=" $tab$newline\"'="
    for word in $words; do
        case $word in
        "\${SNAP_DATA}"*) word=$snap_data${word#"\${SNAP_DATA}"} ;;
        "\${SNAP_COMMON}"*) word=$snap_common${word#"\${SNAP_COMMON}"} ;;
        esac
        case $previous in
        --config) config_files="$config_files $word" ;;
        --config[-_]dir)
            case " $config_folders " in
            *" $word "*) ;;
            *) config_folders="$config_folders $word" ;;
            esac
            ;;
        --root[-_]dir)
            case " $root_folders " in
            *" $word "*) ;;
            *) root_folders="$root_folders $word" ;;
            esac
            ;;
        esac
        previous=$word
    done
    IFS=" $tab$newline"
    set +f

    safe_texts $config_files
    for folder in $config_folders; do
        [ ! -d "./$folder" ] || drop_ins "./$folder"
    done
    for folder in $root_folders; do
        set --
        for name in $state_files; do set -- "$@" "$folder/$name"; done
        [ -n "$root" ] || read_rights "$@"
        safe_texts "$@"
        device_holders "$folder"
    done
    [ -n "$root" ] || kubelet_version
}
kubelet_version() {
    [ -n "$kubelet_program" ] || return 0
    is_roots_program "$kubelet_program" || { printf 'v kubelet refused:%s\n' "$kubelet_program" && return; }
    program=$target
    # Starting it takes long on a slow machine; the plan of an earlier run knows the version of this very file.
    identity=$(stat -L -c '%i %s %Y %n' "$program" 2> /dev/null) && printf 'v kubelet binary:%s\n' "$identity"
    [ -z "$identity" ] || ! grep -qsF "\"$identity\"" "./$plan" || return 0
    if ask 60 "$program" --version < /dev/null; then
        command_output 'kubelet --version' "$answer"
    else
        case $ended in *[!0-9]*) ended= ;; esac
        printf 'v kubelet failed:%s %s\n' "${ended:-0}" "$program"
    fi
}

capture() {
    lacks=$(tell_missing $tools_wanted)
    [ -z "$lacks" ] || { tell_part lacks echo "$lacks" && return; }
    cd "${root:-/}" || exit 2
    begin_part "snapshot $schema"
    find_options
    find_pci_functions
    files=$(everything_small)
    if [ -n "$packed" ]; then tell_lines "$files"; else tell_lines "$files" | tr -d '\000'; fi # some kernels (5.15) end a cpulist with a NUL
    links $links_wanted
    vital_product_data
    pci_configuration
    texts $texts_wanted
    if [ -r "$cpuinfo" ] && [ -e sys/devices/system/cpu/cpu0/topology ]; then
        noted_beginning=$cpuinfo # the kernel asks every CPU how fast it runs: of all that is said, one CPU's is enough
    else
        text "$cpuinfo"
    fi
    name_processes
    printf 'v daemons:%s\nv host daemons:%s\n' "${daemons# }" "${host_daemons# }"
    [ -n "$root" ] || gpus
    ask_systemd
    kubelet_setup
    present
    profiles=
    [ ! -r "$tuned_profile" ] || tuned_profiles $(cat "$tuned_profile")
    if [ -z "$root" ]; then
        [ -r proc/sys/kernel/arch ] || printf 'v uname -m:%s\n' "$(uname -m)"
        if [ "$user" = root ]; then echo 'v id -u:0'; else printf 'v id -u:%s\n' "$(id -u)"; fi
        packages
        containerd_setup
        [ ! -d run/systemd/system ] ||
            ! answer=$(bounded 5 timedatectl show -p NTPSynchronized --value 2> /dev/null < /dev/null) ||
            command_output 'timedatectl NTPSynchronized' "$answer"
    fi
    pods
    noted_texts
}

packed=
[ "${1-}" != packed ] || packed=yes
user=${2-}
noted=
noted_beginning=
held=
pci_functions=
direct=
daemons=
host_daemons=
kubelets=
units=$units_wanted
asked_units=
programs=
kubelet_pid=
kubelet_program=
host_unit=
host_pid=
containerd=
containerd_pid=
containerd_program=
capture
