#!/bin/sh
# scratch.sh: the folder for the files of tests, in memory where there is plenty, else nothing: pytest's own choice.
# Tests write and delete very many small files. Before ext4 gives out an inode again it looks at each one that was
# deleted in the last minutes (recently_deleted in fs/ext4/ialloc.c), which took a quarter of all CPU time.
set -u
memory=/dev/shm
room_kib=$((2 * 1024 * 1024))

[ "$(stat -f -c %T "$memory" 2> /dev/null)" = tmpfs ] || exit 0
free_kib=$(df -P -k "$memory" | sed -n '$s/^[^ ]* *[0-9]* *[0-9]* *\([0-9]*\) .*/\1/p')
memory_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
if [ "${free_kib:-0}" -lt "$room_kib" ] || [ "${memory_kib:-0}" -lt $((2 * room_kib)) ]; then exit 0; fi
program=$(mktemp "$memory/scratch.XXXXXX" 2> /dev/null) || exit 0
trap 'rm -f "$program"' EXIT
# a container's is often mounted with noexec
if printf '#!/bin/sh\n' > "$program" && chmod +x "$program" && "$program" 2> /dev/null; then echo "$memory"; fi
