#!/bin/busybox sh
# What the emulated machine does, as its first process: starts the server, looks at it from outside, and says PASS or FAIL with
# what it saw, line by line. The other side (host.sh) sends requests when it is told to on the console.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
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
# The process of an instance, by number.
pid_of() { vermeil status --control /run/control | sed -n "s/^instance $1: pid \([0-9]*\),.*/\1/p"; }
# Pages of a process that are its own, on a node and in all, without those of files.
pages() { # PID NODE
    awk -v node="N$2" '!/ file=/ { for (i = 1; i <= NF; i++) if ($i ~ /^N[0-9]+=/) { split($i, part, "="); all += part[2];
        if (part[1] == node) here += part[2] } } END { printf "%d %d", here, all }' "/proc/$1/numa_maps"
}
# Whether an instance is where it has to be.
at_home() { # NUMBER
    pid=$(pid_of "$1"); cpus="$(($1 * 4))-$(($1 * 4 + 3))"
    elsewhere=$(grep -h Cpus_allowed_list /proc/"$pid"/task/*/status | cut -f2 | awk -v first="$(($1 * 4))" \
        '{ n = split($0, ends, "-"); if (ends[1] < first || ends[n] > first + 3) away++ } END { print away + 0 }')
    set -- "$1" $(pages "$pid" "$1")
    [ "$elsewhere" = 0 ] && [ "$3" -gt 0 ] && [ $(($2 * 100)) -ge $(($3 * 95)) ]
    at_home=$?
    saw="pid $pid, threads outside of cpus $cpus: $elsewhere, $2 of $3 pages on node $1"
}
# Every setting that steering may change.
settings() {
    for irq in /proc/irq/*/smp_affinity_list; do echo "$irq $(cat "$irq")"; done
    for file in /sys/class/net/eth0/queues/*/[rx]ps_*; do echo "$file $(cat "$file" 2>&1)"; done
}
answered() { vermeil status --control /run/control | awk '/^requests:/ { sum += $2 } END { print sum + 0 }'; }
wait_for() { # COUNT
    for _ in $(seq 300); do [ "$(answered)" -ge "$1" ] && return 0; sleep 0.2; done
    return 1
}

vermeil topo --plan | sed 's/^/VERMEIL plan: /'
head -c 20000 /dev/zero > /srv/page

settings > /tmp/before
vermeil steer apply > /tmp/steer 2>&1
check "steer apply changes the card" $? "$(grep -c -- '->' /tmp/steer) changes"
settings > /tmp/steered
vermeil serve /srv --listen :80 --log off --control /run/control 2> /tmp/said &
server=$!
for _ in $(seq 300); do grep -q "cores: 16 in 4" /tmp/said && break; sleep 0.2; done
sed 's/^/VERMEIL said: /' /tmp/said

say "ASK 200"
wait_for 200; check "every request over the card is answered" $? "$(answered) answered"
for number in 0 1 2 3; do at_home $number; check "instance $number is on its node" $at_home "$saw"; done

old=$(pid_of 2)
kill -9 "$old"
for _ in $(seq 300); do grep -q "instance 2 serves again" /tmp/said && break; sleep 0.2; done
again=$(sed -n 's/.*instance 2 serves again, after \(.*\)/\1/p' /tmp/said)
at_home 2; check "an instance that was killed is back on its node" $at_home "was pid $old; after $again; $saw"

vermeil status --control /run/control | grep -E "^instance|^requests" | sed 's/^/VERMEIL status: /'
kill -TERM $server
wait $server
check "all drain" $? "exit code $?"
sed -n 's/^vermeil\[\([0-9]\)\]: accepted/VERMEIL said: instance \1 accepted/p' /tmp/said
awk '/^vermeil.*: accepted:/ { for (i = 1; i <= NF; i++) { if ($i == "%") { share = $(i - 1);
    n = $(i + 5); gsub(/[^0-9]/, "", n); all += n; here += n * share / 100 } } }
    END { printf "%d %d\n", here + 0.5, all }' /tmp/said > /tmp/local
read -r here all < /tmp/local
# Not all: a core that the emulator holds up is relieved by its neighbours.
[ "$all" -gt 0 ] && [ $((here * 100)) -ge $((all * 50)) ]
check "connections are accepted where the card's queue brings them" $? "$here of $all looked at"

vermeil steer undo > /tmp/undone 2>&1
undone=$?
settings > /tmp/after
cmp -s /tmp/before /tmp/after && [ $undone = 0 ] && ! cmp -s /tmp/before /tmp/steered
check "steer undo restores every setting" $? "$(wc -l < /tmp/before) settings compared"
say DONE
poweroff -f
