# shellcheck shell=sh disable=SC2086,SC2044,SC2012 # lists of words and patterns; folders of the kernel
# Prints a snapshot of this host, or of the tree below $root, in lines that no content can imitate:
#   sys/FILE:LINE, proc/FILE:LINE   a line of a file, as grep prints it
#   l LS-LINE   a symbolic link, as `ls -ln` prints it
#   t PATH      a text, its bytes in hex on the indented lines below
#   T           many texts at once: hex of their sizes as wc prints them, then of `PATH:NUMBER:LINE`
#   u PATH      a text that this user may not read
#   c COMMAND   a command's output, in hex below
#   v NAME:WORDS   an answer of plain words
#   end         the last line
# POSIX sh and nothing else: it runs under dash and busybox, and needs no program that they do not bring.
LC_ALL=C
export LC_ALL

tab=$(printf '\t')
newline='
'
IFS=" $tab$newline"

hex() {
    od -A n -v -t x1
}

# Names what to read. One grep reads it all: the shell's own `read` takes a byte at a time, and sysctls answer only
# a read that begins at 0; awk would end at the first file whose read fails (a port without a link has no speed).
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
    for file in $1; do
        [ ! -f "$file" ] || unwanted "${file##*/}" || echo "$file"
    done
}
unwanted() { # NAME: whether a pattern of $unwanted_settings matches it
    set -f
    for pattern in $unwanted_settings; do
        # shellcheck disable=SC2254 # a pattern
        case $1 in $pattern)
            set +f
            return 0
            ;;
        esac
    done
    set +f
    return 1
}
everything_small() { # the lines of $attributes_wanted are FOLDERS<tab>NAMES
    while IFS=$tab read -r folders names; do attributes "$folders" "$names"; done << END
$attributes_wanted
END
    for pattern in $settings_wanted; do settings "$pattern"; done
}

links() {
    ls -lnd "$@" 2> /dev/null | sed -n 's/^l/l l/p'
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

noted_texts() {
    set -f
    IFS=$newline
    echo T
    [ -z "$noted" ] || { wc -c /dev/null $noted; grep $as_text -s -n '' /dev/null $noted; } 2> /dev/null | hex
    IFS=" $tab$newline"
    set +f
}

command_output() {
    printf 'c %s\n' "$1"
    printf '%s' "$2" | hex
}

# Some kernels (5.15) end a cpulist with a NUL, which makes a text binary to GNU grep.
as_text=
if echo | grep -a '' > /dev/null 2>&1; then
    as_text=-a
fi

find_timeout() {
    if timeout -k 1 1 true 2> /dev/null; then
        timeout='timeout -k 5'
    elif timeout 1 true 2> /dev/null; then
        timeout=timeout
    else
        timeout=none
    fi
}

bounded() { # SECONDS COMMAND...
    if [ "$timeout" = none ]; then
        shift && "$@"
    else
        $timeout "$@"
    fi
}

# Runs a command for at most so many seconds, with its output in $answer; the standard input must be given.
# A process that hangs inside a driver survives every signal: it is left behind, only its reader is waited for.
ask() {
    seconds=$1
    shift
    [ -n "$timeout" ] || find_timeout
    answer=$({ { { bounded "$seconds" "$@" <&3 2> /dev/null && echo answered; } & } 3<&0 |
        bounded $((seconds + 10)) cat; })
    case $answer in
    *answered) answer=${answer%answered} ;;
    *) return 1 ;;
    esac
}

nvml_installed() {
    for folder in /usr/lib/*-linux-gnu /usr/lib64 /usr/lib /lib64 /usr/local/lib \
        $(printf '%s' "${LD_LIBRARY_PATH-}" | tr ':' ' '); do
        [ ! -e "$folder/libnvidia-ml.so.1" ] || return 0
    done
    # Elsewhere it is worth a search only where the driver is loaded: without it NVML has no answer.
    [ -e /dev/nvidiactl ] || [ -e /proc/driver/nvidia ] || return 1
    { ldconfig -p || /sbin/ldconfig -p; } 2> /dev/null | grep -q 'libnvidia-ml\.so\.1'
}

nvml() {
    ask 60 python3 - << END_OF_PROBE
$probe
END_OF_PROBE
}

# A GPU that does not answer makes nvidia-smi fail, and the others are in the document none the less. The clocks
# that a GPU supports are most of it, and command lines of processes are not ours to read.
nvidia_smi() {
    ask 60 nvidia-smi -q -x < /dev/null
    case $answer in
    *'</nvidia_smi_log>'*) ;;
    *) return 1 ;;
    esac
    answer=$(printf '%s\n' "$answer" | sed -e '/<supported_clocks>.*<\/supported_clocks>/d' \
        -e '/<supported_clocks>/,/<\/supported_clocks>/d' -e 's/<process_name>[^<]*<\/process_name>//g' -e '/^[[:space:]]*$/d')
}

# NVML where the host has python3 and the library, else nvidia-smi where it has that; then what the processes are
# that they name.
gpus() {
    if command -v python3 > /dev/null && nvml_installed && nvml; then
        command_output nvml "$answer"
    elif command -v nvidia-smi > /dev/null && nvidia_smi; then
        command_output 'nvidia-smi -q -x' "$answer"
    else
        return 0
    fi
    users=$answer
    nvidia_versions
    answer=$users
    for pid in $(printf '%s\n' "$answer" | sed -n -e 's/.*"pids":\[\([0-9,]*\)\].*/\1/p' \
        -e 's/.*<pid>\([0-9]*\)<.*/\1/p' | tr ',' ' '); do
        texts "proc/$pid/comm" "proc/$pid/cgroup"
        hold "proc/$pid/cgroup"
    done
}

# Adds a small file to $held, in which the UIDs of pods are looked for.
hold() {
    while IFS= read -r line; do
        held="$held $line"
    done < "$1"
} 2> /dev/null

device_holders() { # the file is FOLDER/$device_checkpoint
    file=${1#/}/$device_checkpoint
    [ ! -f "$file" ] || [ -r "$file" ] || printf 'u /%s\n' "$file"
    [ -r "$file" ] && answer=$(sed 's/\("AllocResp":\)"[^"]*"/\1""/g' "$file") || return 0
    printf 't /%s\n' "$file"
    printf '%s' "$answer" | hex
    held="$held $answer"
}

# Says the folders of those pods whose UIDs are in $held; in systemd's control groups they have _ for -.
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

drop_ins() {
    IFS=$newline
    for drop_in in $(find -L "$1" -type f -name '*.conf' 2> /dev/null); do
        text "${drop_in#./}"
    done
    IFS=" $tab$newline"
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

# Says which files are there of those that tell enough by that, and how many nodes the IMEX service knows.
present() {
    found=
    for file in $present_wanted; do
        [ ! -e "$file" ] && [ ! -L "$file" ] || found="$found /$file"
    done
    printf 'v present:%s\n' "${found# }"
    [ ! -e sys/module/nvidia ] && [ ! -e sys/module/nouveau ] || texts $modprobe_wanted
    [ -f "$imex_nodes" ] && [ -r "$imex_nodes" ] || return 0
    count=0
    while read -r entry || [ -n "$entry" ]; do
        case $entry in
        '' | '#'*) ;;
        *) count=$((count + 1)) ;;
        esac
    done < "$imex_nodes"
    printf 'v imex nodes:%s\n' "$count"
}

# Asks for versions that no file tells: of the module that is loaded next, and of what has to fit to it.
# shellcheck disable=SC2016 # what dpkg-query and rpm put in for each package
nvidia_versions() {
    ! ask 20 modinfo -F version nvidia < /dev/null || command_output 'modinfo nvidia' "$answer"
    set -f
    if command -v dpkg-query > /dev/null; then
        set -- dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' $packages_wanted
    elif command -v rpm > /dev/null; then
        set -- rpm -qa --qf 'installed %{NAME} %{VERSION}\n' $packages_wanted
    else
        set --
    fi
    set +f
    # A pattern without a package is no failure here.
    [ "$#" = 0 ] || command_output 'nvidia packages' "$(bounded 20 "$@" 2> /dev/null < /dev/null)"
}

# The files that the kubelet reads are named by its flags, and those by its command line, unit or environment files.
kubelet() {
    words=
    environment_files=
    for comm in proc/[0-9]*/comm; do
        name=
        { IFS= read -r name < "$comm"; } 2> /dev/null
        case " $daemons_wanted " in
        *" ${name:-none} "*)
            pid=${comm%/comm}
            daemons="$daemons ${pid#proc/}"
            texts "$comm" "$pid/cgroup"
            ;;
        esac
        [ "$name" = kubelet ] || continue
        texts "${comm%/comm}/cmdline" "${comm%/comm}/cgroup"
        words="$words $({ tr '\0' ' ' < "${comm%/comm}/cmdline"; } 2> /dev/null)"
    done
    for unit in $unit_files_wanted; do
        text "$unit"
        read_words "$unit"
    done
    for file in $environment_files; do
        text "$file"
        read_words "./$file"
    done

    binary=
    config_files=$config_file
    config_folders=$config_dir
    root_folders=$root_dir
    previous=
    set -f
    IFS=" $tab$newline\"'="
    for word in $words; do
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
        case $word in
        /*/kubelet) [ ! -f "$word" ] || [ ! -x "$word" ] || binary=$word ;;
        esac
        previous=$word
    done
    IFS=" $tab$newline"
    set +f

    texts $config_files
    for folder in $config_folders; do
        [ ! -d "./$folder" ] || drop_ins "./$folder"
    done
    for folder in $root_folders; do
        for name in $state_files; do
            text "$folder/$name"
        done
        device_holders "$folder"
    done

    [ -z "$root" ] || return 0
    [ -n "$binary" ] || binary=$(PATH=$PATH:/usr/local/bin:/opt/bin command -v kubelet) || return 0
    # Starting it takes long on a slow machine; the plan of an earlier run knows the version of this very file.
    identity=$(stat -L -c '%i %s %Y %n' "$binary" 2> /dev/null) && printf 'v kubelet binary:%s\n' "$identity"
    [ -z "$identity" ] || ! grep -qsF "\"$identity\"" "./$plan" || return 0
    ! ask 60 "$binary" --version < /dev/null || command_output 'kubelet --version' "$answer"
}

capture() {
    echo "numaforge-snapshot $schema"
    cd "${root:-/}" || exit 2
    everything_small | xargs grep $as_text -s '' /dev/null | tr -d '\000'
    links $links_wanted
    texts $texts_wanted
    if [ -f "./$cpuinfo" ] && [ -e sys/devices/system/cpu/cpu0/topology ]; then
        echo "t $cpuinfo"
        sed '/^$/q' "./$cpuinfo" 2> /dev/null | hex
    else
        text "$cpuinfo"
    fi
    daemons=
    kubelet
    printf 'v daemons:%s\n' "${daemons# }"
    present
    if [ -z "$root" ]; then
        printf 'v uname -m:%s\nv id -u:%s\n' "$(uname -m)" "$(id -u)"
        gpus
    fi
    pods
    noted_texts
    echo end
}

noted=
held=
timeout=
capture
