#!/bin/busybox sh
# The first process of the emulated machine: makes it a machine, then does what the parts say. Each starts the server, looks
# at it from outside, and says PASS or FAIL with what it saw, line by line. The other side (host.sh) sends requests when it is
# told to on the console.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
# Which one needs which differs between kernels: whatever order is right, three rounds find it.
for round in 1 2 3; do
    for module in /lib/*.ko; do insmod "$module" 2> /dev/null; done
done
ip link set lo up
ip addr add 10.9.0.2/24 dev eth0
ip link set eth0 up
ulimit -n 20000

say() { echo "VERMEIL $*"; }
check() { # NAME HOW DETAIL
    if [ "$2" = 0 ]; then say "PASS $1: $3"; else say "FAIL $1: $3"; fi
}
# Starts the server on all cpus.
serve() { # OPTION...
    vermeil serve /srv --listen :80 --log off --control /run/control "$@" 2> /tmp/said &
    server=$!
    for _ in $(seq 600); do grep -q "cores: 16 " /tmp/said && break; sleep 0.2; done
}
stop() {
    kill -TERM $server
    wait $server
}
status() { vermeil status --control /run/control; }
# The process of an instance, by number.
pid_of() { status | sed -n "s/^instance $1: pid \([0-9]*\),.*/\1/p"; }
# Requests answered by all instances; by each.
answered() { status | awk '/^requests:/ { sum += $2 } END { print sum + 0 }'; }
answered_each() { status | awk '/^instance/ { at = $2 + 0 } /^requests:/ { sum[at] += $2 }
    END { for (at = 0; at < 4; at++) printf "%d ", sum[at] }'; }
# Waits until so many are answered, at most so many seconds.
wait_for() { # COUNT SECONDS
    until=$(($(seconds) + $2))
    while [ "$(seconds)" -lt $until ]; do
        [ "$(answered)" -ge "$1" ] && return 0
        sleep 0.2
    done
    return 1
}
# Pages of processes that are their own, on a node and in all, without those of files.
pages() { # NODE PID...
    node=$1
    shift
    for pid in "$@"; do cat "/proc/$pid/numa_maps"; done | awk -v node="N$node" '!/ file=/ {
        for (i = 1; i <= NF; i++) if ($i ~ /^N[0-9]+=/) { split($i, part, "="); all += part[2];
        if (part[1] == node) here += part[2] } } END { printf "%d %d", here, all }'
}
seconds() { cut -d. -f1 /proc/uptime; }
now() { cut -d' ' -f1 /proc/uptime; }
since() { echo "$1 $(now)" | awk '{ printf "%.1f s", $2 - $1 }'; }

for part in /parts/*.sh; do . "$part"; done
say DONE
poweroff -f
