#!/bin/sh
# inside.sh ROOT COMMAND...: runs a command in the tree of another release of Debian, as root.
# It sees this machine's processes, devices and temporary files, and this repository, all at their own paths; the mounts
# are gone with it. ROOT/etc/hosts gets this machine's name, which MPICH 3.4 looks up.
set -eu
if [ "${INSIDE_REPOSITORY:-}" ]; then
    root=$1
    shift
    for folder in /proc /sys /dev /tmp "$INSIDE_REPOSITORY" "${TMPDIR:-/tmp}"; do
        mkdir -p "$root$folder"
        mountpoint -q "$root$folder" || mount --rbind "$folder" "$root$folder"
    done
    unset INSIDE_REPOSITORY
    exec chroot "$root" "$@"
fi
echo "127.0.0.1 localhost $(hostname)" >"$1/etc/hosts"
INSIDE_REPOSITORY=$(cd "$(dirname "$0")/../.." && pwd) exec unshare --mount --propagation private "$0" "$@"
