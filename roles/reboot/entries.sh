# shellcheck shell=sh
# The boot loader's entries: GRUB's menu as update-grub writes it, or the entries of the Boot Loader Specification as in
# RHEL and its derivatives. Every look at a node reads them, so reading starts no process.

boot_menu() { # sets `menu` to menu, entries or none, and `grub` to GRUB's folder
    menu=none grub=/boot/grub
    if [ -d /boot/grub2 ]; then grub=/boot/grub2; fi
    for found in /boot/loader/entries/*.conf; do
        if [ -e "$found" ] && [ "$grub" = /boot/grub2 ]; then
            menu=entries
            return
        fi
    done
    if [ -r "$grub/grub.cfg" ]; then menu=menu; fi
}
each_entry() { # COMMAND...: run it for each entry, described by entry_* variables
    boot_menu
    case $menu in
    menu) each_menu_entry "$@" < "$grub/grub.cfg" ;;
    entries) each_loader_entry "$@" ;;
    esac
}
stripped() { # LINE: sets `line` to it without surrounding space
    line=${1#"${1%%[![:space:]]*}"}
    line=${line%"${line##*[![:space:]]}"}
}
# entry_id and entry_title include the submenu, joined by ">", as in next_entry and saved_entry; entry_number counts
# from 0 on each level. entry_kernel and entry_initrds are paths as the boot loader sees them, entry_text its lines.
each_menu_entry() { # COMMAND..., grub.cfg on stdin; mkconfig does not nest submenus
    above='' above_id='' above_title='' count=0 inner=0 within=''
    while IFS= read -r raw || [ -n "$raw" ]; do
        stripped "$raw"
        case $line in
        'submenu '*'{')
            menu_words
            above=$count above_id=$id above_title=$title count=$((count + 1)) inner=0
            ;;
        'menuentry '*'{')
            menu_words
            within=yes entry_kernel='' entry_initrds='' entry_options='' entry_text='' entry_file=''
            entry_head=$line
            if [ -n "$above" ]; then
                entry_number="$above>$inner" entry_id="$above_id>$id" entry_title="$above_title>$title"
                inner=$((inner + 1))
            else
                entry_number=$count entry_id=$id entry_title=$title count=$((count + 1))
            fi
            ;;
        '}')
            if [ -n "$within" ]; then
                within=
                "$@" < /dev/null
            else
                above=
            fi
            ;;
        *) if [ -n "$within" ]; then menu_line; fi ;;
        esac
    done
}
menu_words() { # sets `title` and `id` from the head of an entry in `line`
    rest=${line#* }
    quote=${rest%"${rest#?}"}
    case $quote in
    "'" | '"') title=${rest#?} title=${title%%"$quote"*} ;;
    *) title=${rest%%[[:space:]]*} ;;
    esac
    id=$title
    # shellcheck disable=SC2016 # GRUB expands it
    case $line in
    *'$menuentry_id_option '*) id=${line##*'$menuentry_id_option '} ;;
    *' --id '*) id=${line##*' --id '} ;;
    *) return ;;
    esac
    id=${id%' {'*}
    case $id in \'*\' | \"*\") id=${id#?} id=${id%?} ;; esac
}
menu_line() {
    entry_text="$entry_text
$line"
    case $line in
    linux[[:space:]]* | linux16[[:space:]]* | linuxefi[[:space:]]*)
        stripped "${line#*[[:space:]]}"
        entry_kernel=${line%%[[:space:]]*}
        stripped "${line#"$entry_kernel"}"
        entry_options=$line
        ;;
    initrd[[:space:]]* | initrd16[[:space:]]* | initrdefi[[:space:]]*)
        stripped "${line#*[[:space:]]}"
        entry_initrds="$entry_initrds $line"
        ;;
    esac
}
each_loader_entry() { # COMMAND...
    for entry_file in /boot/loader/entries/*.conf; do
        entry_id=${entry_file##*/} entry_id=${entry_id%.conf} entry_number=''
        entry_title='' entry_kernel='' entry_initrds='' entry_options='' entry_text=''
        while IFS= read -r raw || [ -n "$raw" ]; do
            stripped "$raw"
            key=${line%%[[:space:]]*}
            stripped "${line#"$key"}"
            case $key in
            title) entry_title=$line ;;
            linux) entry_kernel=$line ;;
            initrd) entry_initrds="$entry_initrds $line" ;;
            options) entry_options="${entry_options:+$entry_options }$line" ;;
            *) continue ;;
            esac
        done < "$entry_file"
        grub_expanded "$entry_options"
        entry_options=$expanded
        grub_expanded "$entry_initrds"
        entry_initrds=$expanded
        "$@"
    done
}
grub_expanded() { # TEXT: sets `expanded` to it, with the entries' variables expanded from grubenv
    expanded=$1
    for variable in kernelopts tuned_params tuned_initrd; do
        case $expanded in
        *"\$$variable"*)
            grub_variable "$variable"
            expanded="${expanded%%"\$$variable"*}$value${expanded#*"\$$variable"}"
            ;;
        esac
    done
    stripped "$expanded"
    expanded=$line
}
grub_variable() { # NAME: sets `value` to its value in grubenv
    value=
    if [ ! -r "$grub/grubenv" ]; then return; fi
    while IFS= read -r raw || [ -n "$raw" ]; do
        case $raw in "$1="*) value=${raw#*=} ;; esac
    done < "$grub/grubenv"
}
# The entry of the next boot: the one to boot once, or the default. GRUB boots the first entry where the default is not
# in its menu.
next_entry() { # sets entry_*; 1: unknown, and `unknown` has the reason
    boot_menu
    unknown="there is no boot loader here whose entries numaforge reads"
    if [ "$menu" = none ]; then return 1; fi
    grub_default
    unknown="the default of the boot loader, $wish, is none of its entries"
    find_entry is_wanted "$wish" && return
    if [ "$menu" = entries ]; then
        case $wish in '' | *[!0-9]*) return 1 ;; esac
        newest_entry "$wish"
        return
    fi
    if [ -e "$grub/custom.cfg" ]; then return 1; fi # GRUB reads its entries at the boot
    find_entry is_wanted 0
}
grub_default() { # sets `wish`, and `once` where grub.cfg boots the entry in next_entry once
    wish='' once=''
    if [ -r "$grub/grub.cfg" ]; then
        while IFS= read -r raw || [ -n "$raw" ]; do
            stripped "$raw"
            # shellcheck disable=SC2016 # GRUB expands them
            case $line in
            'set default="${next_entry}"') once=yes ;;
            'set default='*) wish=${line#*=} ;;
            'menuentry '* | 'submenu '*) break ;;
            esac
        done < "$grub/grub.cfg"
    fi
    case $wish in \"*\" | \'*\') wish=${wish#?} wish=${wish%?} ;; esac
    # shellcheck disable=SC2016 # grub.cfg has it literally
    case $wish in
    '' | '${saved_entry}' | '$saved_entry')
        grub_variable saved_entry
        wish=${value:-0}
        ;;
    esac
    if [ -n "$once" ]; then
        grub_variable next_entry
        if [ -n "$value" ]; then wish=$value; fi
    fi
}
find_entry() { # TEST ARGUMENT...: sets entry_* to the first entry that passes the test; 1: none does
    seen=
    each_entry first_that "$@"
    [ -n "$seen" ] || return 1
    entry_id=$seen_id entry_number=$seen_number entry_title=$seen_title entry_kernel=$seen_kernel
    entry_initrds=$seen_initrds entry_options=$seen_options entry_text=$seen_text entry_file=$seen_file entry_head=$seen_head
}
first_that() { # TEST ARGUMENT...
    if [ -n "$seen" ] || ! "$@"; then return; fi
    seen=yes seen_id=$entry_id seen_number=$entry_number seen_title=$entry_title seen_kernel=$entry_kernel
    seen_initrds=$entry_initrds seen_options=$entry_options seen_text=$entry_text seen_file=$entry_file seen_head=$entry_head
}
is_wanted() { # ENTRY: a default submenu boots its first entry
    case $1 in
    "$entry_id" | "$entry_number" | "$entry_title") return 0 ;;
    esac
    case $entry_number in
    *'>0') [ "$1>0" = "$entry_number" ] || [ "$1" = "${entry_id%>*}" ] ;;
    *) return 1 ;;
    esac
}
newest_entry() { # NUMBER: GRUB sorts the files' names by version, the newest first
    wanted=$(for found in /boot/loader/entries/*.conf; do echo "${found##*/}"; done | sort -rV | sed -n "$(($1 + 1))p")
    find_entry is_wanted "${wanted%.conf}"
}
kernel_version() { # PATH: sets `version`; empty where the path has none
    version=${1##*/}
    case $version in *-*) version=${version#*-} ;; *) version= ;; esac
}
running= # read by cat: the shell reads byte by byte, and a sysctl returns only the first byte that way
running_kernel() { [ -n "$running" ] || running=$(cat /proc/sys/kernel/osrelease 2> /dev/null); } # sets `running`
is_running() { # whether the entry is the running kernel's: by its version, or by the path that it was started from
    running_kernel
    kernel_version "$entry_kernel"
    if [ -n "$version" ]; then
        [ "$version" = "$running" ]
        return
    fi
    IFS= read -r started < /proc/cmdline
    word_of "$started" BOOT_IMAGE
    [ -n "$word" ] && [ "${word##*)}" = "${entry_kernel##*)}" ]
}
word_of() { # TEXT NAME: sets `word` to the value of the last NAME=VALUE in it
    case " $1" in
    *" $2="*) word=${1##*"$2="} word=${word%% *} ;;
    *) word= ;;
    esac
}
on_disk() { # PATH as the boot loader sees it: whether the file exists; /boot may be a file system of its own
    [ -e "$1" ] || [ -e "/boot$1" ] || [ -e "/boot/${1##*/}" ]
}
is_whole() { # sets `lacking` where a file of the entry is missing
    lacking=$entry_kernel
    if [ -z "$entry_kernel" ] || ! on_disk "$entry_kernel"; then return 1; fi
    for lacking in $entry_initrds; do
        if ! on_disk "$lacking"; then return 1; fi
    done
}
broken_entries() { each_entry tell_broken; } # prints the missing kernel or initial RAM disk of each entry
tell_broken() { is_whole || printf '%s\n' "$lacking"; }
# One boot of another entry: GRUB clears next_entry when it reads it, so it must be able to write to grubenv.
cannot_boot_once() { # 1: it can boot an entry once; 0: `why` has the reason
    boot_menu
    grub_default
    why="its grub.cfg knows no next_entry"
    if [ -z "$once" ]; then return 0; fi
    why="it has no $grub/grubenv"
    if [ ! -f "$grub/grubenv" ]; then return 0; fi
    why="grub-editenv and grub-probe are missing"
    tool_of_grub editenv && tool_of_grub probe || return 0
    on=unknown
    if layers=$("$tool" --target=abstraction "$grub/grubenv" 2> /dev/null) &&
        on=$("$tool" --target=fs "$grub/grubenv" 2> /dev/null); then on="${layers:+$layers }$on"; fi
    why="GRUB cannot write to $grub (${on:=unknown})"
    for layer in $on; do
        # The list in Debian's grub.d/00_header.
        case $layer in
        lvm | diskfilter | unknown | btrfs | cpiofs | newc | odc | romfs | squash4 | tarfs | zfs) return 0 ;;
        esac
    done
    why="numaforge cannot tell which entry it boots: $unknown"
    ! next_entry
}
tool_of_grub() { # NAME: sets `tool`
    for tool in "grub-$1" "grub2-$1"; do
        if command -v "$tool" > /dev/null 2>&1; then return 0; fi
    done
    return 1
}
boot_once() { # ENTRY
    boot_menu
    tool_of_grub editenv && "$tool" "$grub/grubenv" set "next_entry=$1" && sync "$grub/grubenv" || return 1
    grub_variable next_entry
    [ "$value" = "$1" ]
}
not_once() { # ENTRY: cancel its one boot
    boot_menu
    grub_variable next_entry
    if [ "$value" != "$1" ]; then return; fi
    tool_of_grub editenv && "$tool" "$grub/grubenv" unset next_entry && sync "$grub/grubenv"
}
