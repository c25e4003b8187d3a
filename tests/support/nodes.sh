#!/usr/bin/env bash
# nodes.sh COUNT SHARED: COUNT machines n1, n2, ... on this one, and a shell on n1 that reads commands from standard input.
#
# Each is a network, PID, mount, UTS and IPC namespace with an sshd, whose address is 10.77.0.NUMBER; /tmp, /run, /media and
# /dev/shm are its own, but for the directories SHARED (below /tmp, with ":" between). It needs no root where users may
# make namespaces. All is inside namespaces that end with this process: nothing is left behind, however it ends. (Kill it
# with SIGKILL: unshare --fork blocks SIGTERM.)
set -euo pipefail
if [ "$1" != --inside ]; then
    as_root=(--user --map-root-user)
    [ "$(id -u)" -eq 0 ] && as_root=()
    MQS_USER=$(id -u):$(id -g) exec unshare "${as_root[@]}" -nuimp --fork --kill-child --mount-proc "$0" --inside "$@"
fi
count=$2
export SHARED=$3 LAB=/media AS_USER=
user=${MQS_USER%:*} group=${MQS_USER#*:}
[ "$user" -eq 0 ] || AS_USER="unshare --user --map-user=$user --map-group=$group"

mount -t tmpfs tmpfs $LAB
chmod 755 $LAB
mkdir $LAB/ssh_config.d $LAB/home
ssh-keygen -qt ed25519 -N '' -f $LAB/key
(
    echo 127.0.0.1 localhost
    for i in $(seq "$count"); do echo "10.77.0.$i n$i"; done
) >$LAB/hosts
(
    grep -E '^(root|sshd|munge):' /etc/passwd
    [ "$user" -eq 0 ] || echo "me:*:$user:$group::$LAB/home:/bin/bash"
) >$LAB/passwd
printf '%s\n' 'Host n*' "IdentityFile $LAB/key" 'StrictHostKeyChecking no' 'UserKnownHostsFile /dev/null' \
    'LogLevel ERROR' 'KexAlgorithms curve25519-sha256' >$LAB/ssh_config.d/nodes.conf
printf '%s\n' "HostKey $LAB/key" "AuthorizedKeysFile $LAB/key.pub" 'StrictModes no' 'UsePAM no' 'PidFile none' \
    "SetEnv PATH=$PATH" \
    >$LAB/sshd_config
mount --bind $LAB/hosts /etc/hosts
mount --bind $LAB/passwd /etc/passwd
mount --bind $LAB/ssh_config.d /etc/ssh/ssh_config.d
ip link add br0 type bridge
ip link set br0 up

node() { # what is process 1 of node $1: sshd, which also takes in orphans
    hostname "n$1"
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs tmpfs /run
    mkdir /run/sshd /run/tmp
    mount --rbind /tmp /run/tmp
    mount -t tmpfs tmpfs /tmp
    chmod 1777 /tmp /dev/shm
    IFS=: read -ra directories <<<"$SHARED"
    for directory in "${directories[@]}"; do
        mkdir -p "$directory"
        mount --bind "/run/tmp/${directory#/tmp/}" "$directory"
    done
    umount -l /run/tmp
    sysctl -qw net.ipv4.ip_unprivileged_port_start=0
    ip link set lo up
    until ip link set eth0 up 2>/dev/null; do sleep .02; done
    ip addr add "10.77.0.$1/24" dev eth0
    exec $AS_USER /usr/sbin/sshd -D -e -f $LAB/sshd_config 2>"$LAB/sshd.$1.log"
}
export -f node

for i in $(seq "$count"); do
    unshare -nuimp --fork --kill-child --mount-proc bash -c "node $i" &
    outer=$! inner=
    while [ -z "$inner" ]; do # the file ends without a newline, which read takes for a failure
        sleep .02
        read -r inner </proc/$outer/task/$outer/children || true
    done
    ip link add "ve$i" type veth peer name eth0 netns "$inner"
    ip link set "ve$i" master br0 up
    [ "$i" -gt 1 ] || first=$inner
done
in_first="nsenter -t $first -n -u -i -m -p"
$in_first bash -c "for i in \$(seq $count); do until (exec 3<>/dev/tcp/n\$i/22) 2>/dev/null; do sleep .02; done; done"
$in_first ${AS_USER:+nsenter -t 1 -U --preserve-credentials} bash # sshd's user namespace: ptrace(2) needs that
