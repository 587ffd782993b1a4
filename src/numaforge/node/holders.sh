# shellcheck shell=sh
# The services that hold devices, before anything changes; processes.py looks again on the node.

tell_holders() { # PATTERN PROGRAM [PYTHON]: python3's version, who has such a file open, and what PYTHON says
    python3 -c 'import sys
print("python %d.%d" % sys.version_info[:2])
exec(sys.argv[2])
tell_holders(sys.argv[1])
'"${3-}" "$1" "$2" 2> /dev/null
}
