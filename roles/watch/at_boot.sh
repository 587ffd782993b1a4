# shellcheck shell=sh disable=SC2086 # lists of files
# Whether this node is as planned: metrics for node_exporter's textfile collector and, where the verdict has changed, a
# condition of its Node. A handful of processes read everything, however many CPUs there are. configuration.py describes
# the form of the configuration.

LC_ALL=C
export LC_ALL
CURRENT=/var/lib/numaforge/txn/current # exists while a change of the node is in progress
KEPT=/run/numaforge/watch              # `verdict` of the last run, `told` to the Node, `untold` why not
MADE=/var/lib/numaforge/watch-made
CONDITION=numaforge.io/PlanDrift
TELL_SECONDS=10
TAB=$(printf '\t')

watch() { # CONFIGURATION [anyway]: during a change nothing is compared, for the node is between two plans
    if [ -L "$CURRENT" ] && [ -z "${2-}" ]; then return; fi
    umask 022
    watch_settings "$1" && private_folder "$KEPT" || return 1
    now=$(date +%s)
    watch_owners
    watch_look "$1" | watch_judge "$1" > "$KEPT/metrics" && [ -s "$KEPT/metrics" ] || return 1
    watch_publish
    published=$?
    watch_verdict && return "$published"
}
watch_publish() { # a new file, renamed over the old one; after a power loss the next run writes it
    [ -d "$folder" ] || watch_folder || return 1
    # shellcheck disable=SC2016 # the other shell expands it
    watch_as sh -c 'rm -f "$1/.numaforge.prom.new" && set -C && cat > "$1/.numaforge.prom.new" &&
        mv -f "$1/.numaforge.prom.new" "$1/numaforge.prom"' sh "$folder" < "$KEPT/metrics"
}
# The folder of the metrics may be node_exporter's own. What another user could redirect, by a link there or by another
# folder in its place, is touched with that user's rights alone: so nothing comes of it that the user could not do. It gets
# no lock of a transaction either, since a user may look into its own processes.
watch_as() { # COMMAND...: as root, or as the user who could redirect the folder
    forget_rights
    if resolve "$folder/." 2> /dev/null; then
        "$@"
        return
    fi
    setpriv "--reuid=${redirector% *}" "--regid=${redirector#* }" --clear-groups "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- && return
    echo "nothing could be done in $folder with the rights of its user ${redirector% *}: $why" >&2
    return 1
}
watch_folder() { # create it, and record the topmost new folder
    made=$folder
    while [ ! -d "${made%/*}/" ]; do made=${made%/*}; done
    mkdir -p "${MADE%/*}" && printf '%s\n' "$made" > "$MADE" && watch_as mkdir -p "$folder"
}
watch_folder_away() { # as far as it was created here and is empty
    [ -e "$MADE" ] || return 0
    IFS= read -r made < "$MADE" || return 0
    while watch_as rmdir "$folder" 2> /dev/null && [ "$folder" != "$made" ]; do folder=${folder%/*}; done
    rm -f "$MADE"
}
watch_settings() { # CONFIGURATION
    node='' folder='' kubeconfig='' owners=''
    while IFS=$TAB read -r key value; do
        case $key in
        node) node=$value ;;
        owner) owners=$owners$value$newline ;;
        folder) folder=$value ;;
        kubeconfig) kubeconfig=$value ;;
        '#'*) ;;
        *) break ;;
        esac
    done < "$1"
    if [ -z "$node" ] || [ -z "$folder" ]; then
        echo "$1: has no node and no folder" >&2
        return 1
    fi
}
# Prints CHECKSUM  PATH of our files, a line =, PATH:LINE of the kernel's, a line =, and what is on other CPUs
# (affinity.sh) as PATH<tab>CPUS<tab>PLANNED<tab>WHAT.
watch_look() ( # CONFIGURATION
    lists=$(awk -F '\t' -v OFS='\n' '
        function each(path, cpus,   parts, ends, count, part, cpu) {
            if (cpus == "-") { files[++many] = path; return }
            count = split(cpus, parts, ",")
            for (part = 1; part <= count; part++) {
                if (split(parts[part], ends, "-") < 2) ends[2] = ends[1]
                for (cpu = ends[1] + 0; cpu <= ends[2] + 0; cpu++) {
                    with = path
                    sub(/\{\}/, cpu, with)
                    files[++many] = with
                }
            }
        }
        $1 == "file" { print $4 }
        $1 == "measured" || $1 == "stalled" { each($4, "-") }
        $1 == "counted" { each($5, $4) }
        $1 == "is" || $1 == "least" || $1 == "has" || $1 == "lines" { each($6, $5) }
        $1 == "mask" || $1 == "within" { affinity[++masks] = $1 " " $2 " " $3 " " $6 }
        END {
            print "\n=\n"
            for (mask = 1; mask <= masks; mask++) print affinity[mask]
            print "\n=\n"
            for (file = 1; file <= many; file++) print files[file]
            print "end"
        }' "$1") || return 1
    end="$newline=$newline"
    ours=${lists%%"$end"*}
    lists=${lists#*"$end"}
    affinity=${lists%%"$end"*}
    lists=${lists#*"$end"} # by far the longest: a shell takes the square of what it searches
    set -f
    IFS=$newline
    [ -z "$ours" ] || sha256sum $ours 2> /dev/null
    printf '=\n'
    find_as_text
    tell_lines "${lists%end}"
    printf '=\n'
    set +f
    IFS=" $TAB$newline"
    printf '%s\n' "$affinity" | affinity_differences
)
watch_judge() { # CONFIGURATION, the output of watch_look on stdin: prints the metrics, and writes verdict.new
    awk -F '\t' -v node="$node" -v now="$now" -v owned="$owned" -v unsure="$unsure" -v verdict="$KEPT/verdict.new" '
        function words(text) {
            gsub(/[ \t]+/, " ", text)
            gsub(/^ | $/, "", text)
            return text
        }
        function is(text, wanted) {
            text = words(text)
            return text == wanted || index(" " text " ", " [" wanted "] ") > 0
        }
        function number(text) { return text ~ /^[0-9]+$/ }
        function as_planned(how, text, count, wanted) {
            if (how == "lines") return count == wanted + 0
            if (how == "has") return index(" " words(text) " ", " " wanted " ") > 0
            if (how == "least") { text = words(text); return !(number(text) && number(wanted) && text + 0 < wanted + 0) }
            return is(text, wanted)
        }
        function shown(text) { # for people, in one line
            gsub(/[^ -~]/, "?", text)
            return length(text) > 100 ? substr(text, 1, 100) "..." : text
        }
        function name(what) { if (!(what in drift)) { order[++kinds] = what; drift[what] = 0 } }
        function differs(what, sentence) {
            name(what)
            drift[what] = 1
            if (++details <= 20) detail[details] = sentence
        }
        function unreadable(what, path) {
            if (what in drift && drift[what] == 0) drift[what] = "NaN"
            if (!(what in unread)) { unknown[++blind] = what; unread[what] = path }
        }
        function present(path) { return (getline line < path) >= 0 && !close(path) }
        function escaped(text) { gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text); gsub(/[^ -~]/, "?", text); return text }
        function next_cpu() { # sets `file` to the path for the next of `cpus`; false after the last one
            if (cpus == "-") { file = path; cpus = ""; return 1 }
            while (cpu > last) {
                if (cpus == "") return 0
                comma = index(cpus, ",")
                part = comma ? substr(cpus, 1, comma - 1) : cpus
                cpus = comma ? substr(cpus, comma + 1) : ""
                dash = index(part, "-")
                cpu = dash ? substr(part, 1, dash - 1) + 0 : part + 0
                last = dash ? substr(part, dash + 1) + 0 : part + 0
            }
            file = path
            sub(/\{\}/, cpu++, file)
            return 1
        }
        function walk(path_, cpus_) { path = path_; cpus = cpus_; cpu = 1; last = 0 }
        # The output of watch_look comes first. Paths may contain colons: every part of a line that may be one is kept.
        FILENAME != ARGV[2] {
            if ($0 == "=") { section++; next }
            if (!section) { sum[substr($0, 67)] = substr($0, 1, 64); next }
            if (section == 2) { if (!($4 in elsewhere)) elsewhere[$4] = $1 ": " shown($2) ", planned " $3; next }
            at = index($0, ":")
            while (at) {
                head = substr($0, 1, at - 1)
                if (!(head in first)) first[head] = substr($0, at + 1)
                else if (head ~ /\.pressure$/) second[head] = substr($0, at + 1)
                seen[head]++
                rest = index(substr($0, at + 1), ":")
                at = rest && at < 200 ? at + rest : 0
            }
            next
        }
        $1 == "text" { print $2; next }
        $1 == "owner" {
            name($2)
            if (index(owned, " " $2 " ")) differs($2, "the label " $3 " of the Node has another tool set it")
            else if (index(unsure, " " $2 " ")) unreadable($2, "the label " $3)
            next
        }
        function said(of, path) { return path in of ? words(of[path]) : "" } # a lookup alone would create the element
        $1 == "measured" {
            if (number(said(first, $4))) print $3 " " said(first, $4)
            else unreadable($2, $4)
            next
        }
        $1 == "stalled" {
            for (kind = 1; kind <= 2; kind++) {
                text = kind == 1 ? said(first, $4) : said(second, $4)
                if (match(text, /total=[0-9]+/)) {
                    split(text, parts, " ")
                    printf "%s\"%s\"} %.6f\n", $3, parts[1], substr(text, RSTART + 6, RLENGTH - 6) / 1000000
                } else if (kind == 1) unreadable($2, $4)
            }
            next
        }
        $1 == "counted" {
            split("", texts); split("", counts)
            many = missing = 0
            for (walk($5, $4); next_cpu();) {
                if (!(file in first)) { missing++; blank = file; continue }
                text = words(first[file])
                if (!(text in counts)) texts[++many] = text
                counts[text]++
            }
            for (one = 1; one <= many; one++) print $3 "\"" escaped(texts[one]) "\"} " counts[texts[one]]
            if (many && missing) unreadable($2, blank)
            next
        }
        $1 == "file" {
            name($2)
            if (!present($4)) differs($2, $4 " is gone")
            else if (!($4 in sum)) unreadable($2, $4)
            else if (sum[$4] != $3) differs($2, $4 " was edited")
            next
        }
        $1 == "link" {
            name($2)
            if (!present($3)) differs($2, $3 " is gone")
            next
        }
        $1 == "mask" || $1 == "within" {
            name($2)
            if ($2 in elsewhere) differs($2, elsewhere[$2])
            next
        }
        $1 == "is" || $1 == "least" || $1 == "has" || $1 == "lines" {
            for (walk($6, $5); next_cpu();) {
                if (!(file in first)) { if ($4 == "needed") { name($2); unreadable($2, file) }; continue }
                name($2)
                if (!as_planned($1, first[file], seen[file], $3))
                    differs($2, file ": " shown(first[file]) ", planned " shown($3))
            }
        }
        END {
            print "# HELP numaforge_plan_drift Whether something is not as planned; NaN: it cannot be read."
            print "# TYPE numaforge_plan_drift gauge"
            for (kind = 1; kind <= kinds; kind++) {
                what = order[kind]
                print "numaforge_plan_drift{node=\"" node "\",what=\"" what "\"} " drift[what]
                if (drift[what] == 1) named = named ", " what
            }
            if (blind) {
                print "# HELP numaforge_watch_unreadable What cannot be read, so that it is unknown."
                print "# TYPE numaforge_watch_unreadable gauge"
                for (one = 1; one <= blind; one++) {
                    print "numaforge_watch_unreadable{node=\"" node "\",what=\"" unknown[one] "\"} 1"
                    if (unknown[one] in drift && drift[unknown[one]] == "NaN") hidden = hidden ", " unknown[one]
                }
            }
            print "# HELP numaforge_watch_last_run_timestamp_seconds When the node was compared with its plan last."
            print "# TYPE numaforge_watch_last_run_timestamp_seconds gauge"
            print "numaforge_watch_last_run_timestamp_seconds{node=\"" node "\"} " now
            if (named) print "True Drifted not as planned: " short(substr(named, 3)) > verdict
            else if (hidden) print "Unknown Unreadable cannot be read: " short(substr(hidden, 3)) > verdict
            else print "False AsPlanned as planned" > verdict
            for (one = 1; one <= details && one <= 20; one++) print detail[one] > verdict
            if (details > 20) print "and " details - 20 " more" > verdict
            for (one = 1; one <= blind; one++) print unknown[one] ": " unread[unknown[one]] " cannot be read" > verdict
        }
        function short(text) { return length(text) > 800 ? substr(text, 1, 800) "..." : text }' - "$1"
}
# The verdict: a line STATUS REASON MESSAGE, then the details. It is reported once, not every minute.
watch_verdict() {
    IFS= read -r verdict < "$KEPT/verdict.new" || return 1
    was=
    if [ -e "$KEPT/verdict" ]; then IFS= read -r was < "$KEPT/verdict"; fi
    if [ "$verdict" != "$was" ]; then
        cat "$KEPT/verdict.new"
        mv -f "$KEPT/verdict.new" "$KEPT/verdict" || return 1
    fi
    told=
    if [ -z "$kubeconfig" ]; then return; fi
    if [ -e "$KEPT/told" ]; then IFS= read -r told < "$KEPT/told"; fi
    if [ "$verdict" = "$told" ] || ! watch_is_time; then return; fi
    if watch_tell "$verdict" "${told%% *}"; then
        printf '%s\n' "$verdict" > "$KEPT/told"
        rm -f "$KEPT/untold"
    else
        watch_untold
    fi
}
# A failed report is retried after a minute, two, four, up to an hour; its reason is printed once.
uptime_seconds() {
    read -r uptime _ < /proc/uptime
    echo "${uptime%%.*}"
}
watch_is_time() {
    [ -e "$KEPT/untold" ] || return 0
    read -r next pause _ < "$KEPT/untold"
    [ "$(uptime_seconds)" -ge "$next" ]
}
watch_untold() { # the reason is in $why
    pause=30 earlier=
    if [ -e "$KEPT/untold" ]; then read -r _ pause earlier < "$KEPT/untold"; fi
    if [ "$why" != "$earlier" ]; then echo "the Node $node is not told: $why"; fi
    pause=$((pause * 2))
    if [ "$pause" -gt 3600 ]; then pause=3600; fi
    printf '%s %s %s\n' "$(($(uptime_seconds) + pause - 5))" "$pause" "$why" > "$KEPT/untold"
}
watch_tell() { # VERDICT STATUS-BEFORE
    status=${1%% *}
    message=${1#* }
    at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    since=
    if [ "$status" != "$2" ]; then since=",\"lastTransitionTime\":\"$at\""; fi
    watch_patch "{\"type\":\"$CONDITION\",\"status\":\"$status\",\"reason\":\"${message%% *}\",\"message\":\"${message#* }\",\"lastHeartbeatTime\":\"$at\"$since}"
}
# Devices that the plan sets may have got another owner (roles/device_owners.py): its pod runs here, and the Node has the
# label that it obeys. The Node is asked only then. Sets `owned` and `unsure`, with spaces around each.
watch_owners() {
    owned=' ' unsure=' ' labels=
    while IFS=$TAB read -r what label process; do
        if [ -z "$what" ] || ! watch_runs_in_pod "$process"; then continue; fi
        if [ -z "$labels" ]; then labels=$(watch_labels) || labels=unknown; fi
        case $labels in
        unknown) unsure="$unsure$what " ;;
        *"\"$label\":\"\""*) ;;
        *"\"$label\":\""*) owned="$owned$what " ;;
        esac
    done << END
$owners
END
}
watch_runs_in_pod() { # NAME, as far as the kernel keeps it; "" for a tool whose label alone shows it
    if [ -z "$1" ]; then return 0; fi
    while IFS= read -r file; do
        if [ -n "$file" ] && grep -qs kubepods "${file%comm}cgroup"; then return 0; fi
    done << END
$(grep -slx "$1" /proc/[0-9]*/comm)
END
    return 1
}
watch_labels() { # prints the Node as JSON without spaces
    watch_logged_in watch_send GET "?pretty=false" && cat "$KEPT/answer" && rm -f "$KEPT/answer"
}
watch_patch() { # CONDITION; sets `why` where that fails
    watch_logged_in watch_send PATCH /status "{\"status\":{\"conditions\":[$1]}}"
}
watch_logged_in() { # COMMAND...: with the kubelet's own login; sets `why` where that fails
    case $node in *[!a-z0-9.-]*)
        why="its name is none of a Node"
        return 1
        ;;
    esac
    why="$kubeconfig is not there: the kubelet has not joined"
    [ -e "$kubeconfig" ] || return 1
    forget_rights # a login names the server, and a file whose text is sent there as a token
    is_roots_file "$kubeconfig" 2> /dev/null || return 1
    why="there is no curl"
    command -v curl > /dev/null 2>&1 || return 1
    umask 077 # the files may include a key
    watch_login
    taken=$?
    if [ "$taken" -eq 0 ]; then
        "$@"
        taken=$?
    fi
    rm -f "$KEPT/login".*
    return "$taken"
}
watch_login() { # writes what curl needs to `server` and files login.*; sets `why` for an unsupported login
    server='' with=''
    watch_login_lines > "$KEPT/login.lines"
    while IFS=' ' read -r key value; do
        case $key in
        odd)
            why="$kubeconfig has $value, which only numaforge itself understands"
            return 1
            ;;
        server) server=$value ;;
        certificate-authority | client-certificate | client-key | tokenFile)
            case $value in /*) ;; *) value=${kubeconfig%/*}/$value ;; esac
            if [ ! -r "$value" ]; then
                why="$value cannot be read"
                return 1
            fi
            case $key in
            tokenFile)
                { printf 'Authorization: Bearer ' && cat "$value"; } > "$KEPT/login.header"
                ;;
            *) ln -sf "$value" "$KEPT/login.$key" ;;
            esac
            ;;
        *-data)
            why="$key in $kubeconfig is not base64"
            printf '%s\n' "$value" | base64 -d > "$KEPT/login.${key%-data}" 2> /dev/null || return 1
            ;;
        token) printf 'Authorization: Bearer %s\n' "$value" > "$KEPT/login.header" ;;
        esac
    done < "$KEPT/login.lines"
    why="$kubeconfig names no https server"
    case $server in https://*) ;; *) return 1 ;; esac
    why="$kubeconfig has neither a client certificate nor a token"
    [ -e "$KEPT/login.client-certificate" ] || [ -e "$KEPT/login.header" ]
}
watch_login_lines() { # of a kubeconfig with one cluster and one user, as kubeadm and most others write it
    awk '
        { sub(/\r$/, "") }
        match($0, /^[ \t]*(- )?[A-Za-z-]+:/) {
            key = substr($0, RSTART, RLENGTH - 1)
            sub(/^[ \t]*(- )?/, "", key)
            value = substr($0, RSTART + RLENGTH)
            gsub(/^[ \t]+|[ \t]+$/, "", value)
            if (value ~ /^".*"$/ || value ~ /^\047.*\047$/) value = substr(value, 2, length(value) - 2)
            if (key ~ /^(exec|auth-provider|proxy-url|tls-server-name|username|insecure-skip-tls-verify)$/) print "odd", key
            else if (key ~ /^(server|certificate-authority|client-certificate|client-key)(-data)?$|^token(File)?$/) {
                if (key in had) print "odd", "several logins"
                had[key] = 1
                if (value != "") print key, value
            }
        }' "$kubeconfig"
}
watch_send() { # METHOD SUFFIX [PATCH]: the answer to a GET is in the file `answer`
    answer=$KEPT/login.answer
    if [ "$1" = GET ]; then answer=$KEPT/answer; fi
    set -- --request "$1" ${3:+--data "$3"} "$server/api/v1/nodes/$node$2"
    for key in certificate-authority:--cacert client-certificate:--cert client-key:--key header:--header; do
        file=$KEPT/login.${key%%:*}
        if [ ! -e "$file" ]; then continue; fi
        case $key in header:*) file=@$file ;; esac
        set -- "${key#*:}" "$file" "$@"
    done
    code=$(curl --silent --show-error --globoff --noproxy '*' --max-time "$TELL_SECONDS" --output "$answer" \
        --max-filesize 1048576 --write-out '%{http_code}' --header 'Accept: application/json' \
        --header 'Content-Type: application/strategic-merge-patch+json' "$@" 2> "$KEPT/login.error")
    case $code in
    2??) return 0 ;;
    000) why="the API server does not answer: $(head -c 300 "$KEPT/login.error" | tr -c ' -~' ' ')" ;;
    *) why="the API server answers $code: $(sed -n 's/.*"message": *"\([^"]*\)".*/\1/p' "$answer" | head -c 300)" ;;
    esac
    return 1
}
forget() { # CONFIGURATION: removes the metrics and the condition, which would become stale
    watch_settings "$1" || return 1
    watch_as rm -f "$folder/numaforge.prom" "$folder/.numaforge.prom.new"
    if [ -n "$kubeconfig" ] && [ -e "$KEPT/told" ]; then
        watch_patch "{\"type\":\"$CONDITION\",\"\$patch\":\"delete\"}" || echo "the Node $node keeps its condition $CONDITION: $why"
    fi
    watch_folder_away
    rm -rf "$KEPT"
}

