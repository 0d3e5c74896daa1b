# A core that is stuck, one of sixteen: its thread is frozen, so packets are handled on its cpu as before and nobody comes
# for the connections. Where nobody watches, clients end up behind it one after the other.

frozen=/sys/fs/cgroup/frozen
mkdir $frozen && echo threaded > $frozen/cgroup.type
# Freezes the core of a cpu, which is the thread that may run nowhere else.
freeze() { # PID CPU
    for task in /proc/"$1"/task/*; do
        if [ "$(sed -n 's/^Cpus_allowed_list:\t//p' "$task/status")" = "$2" ]; then
            echo "${task##*/}" > $frozen/cgroup.threads
        fi
    done
    echo 1 > $frozen/cgroup.freeze
}
# How many of 200 requests are answered while the core of cpu 5 is stuck, which gets a share of the card's packets.
stuck() { # MODE SECONDS per-node|one
    serve --balance "$1" --instances "$3"
    home=$server
    [ "$3" = one ] || home=$(pid_of 1)
    freeze "$home" 5
    begun=$(now)
    say "ASK 8 25 page"
    wait_for 200 "$2"
    stuck=$(answered)
    say "stuck: $1, instances $3: $stuck of 200 requests answered while one core of sixteen was stuck, for $(since "$begun")"
    echo 0 > $frozen/cgroup.freeze
    wait_for 200 120
    stop
    relieved=$(sed -n 's/.*connections, \([0-9]*\) of them taken over.*/\1/p' /tmp/said | awk '{ sum += $1 } END { print sum + 0 }')
}

stuck hash 15 per-node
without=$stuck
for instances in per-node one; do
    stuck local 120 $instances
    [ "$stuck" -ge 200 ] && [ "$relieved" -gt 0 ]
    check "a stuck core does not hold a share of new connections, instances: $instances" $? \
        "$stuck of 200 answered, $relieved taken over by its neighbours; without neighbours that watch $without of 200"
done

# For each core: its cpu, its connections that rest, and those it has taken from a neighbour.
cores() {
    vermeil status --control /run/control --json | tr '{' '\n' | grep '"resting"' |
        sed 's/.*"cpu":\([0-9]*\),.*"resting":\([0-9]*\),.*"moved":\([0-9]*\),.*/\1 \2 \3/'
}
# Clients that keep their connections and ask once more after a while, when the core that has most of them is stuck.
serve --balance local --instances per-node
say "ASK 16 2 page 2/m"
for try in $(seq 100); do
    set -- $(cores | awk '{ sum += $2 } $2 > most { most = $2; cpu = $1 } END { print sum + 0, cpu + 0, most + 0 }')
    [ "$1" = 16 ] && break
    sleep 0.2
done
resting=$1 cpu=$2 its=$3
before=$(answered)
freeze "$(pid_of $((cpu / 4)))" "$cpu"
wait_for 32 90
after=$(answered)
moved=$(cores | awk '{ sum += $3 } END { print sum + 0 }')
echo 0 > $frozen/cgroup.freeze
[ "$resting" = 16 ] && [ "$before" = 16 ] && [ "$after" -ge 32 ] && [ "$moved" -ge "$its" ] && [ "$its" -gt 0 ]
check "connections that rest leave a stuck core between two requests" $? \
    "$resting of 16 rest, $its of them on cpu $cpu, which is stuck; $((after - before)) of 16 second requests answered, $moved on connections that moved"
stop

# Who watches whom where one process has all sixteen cores: for each listener a line with the cpus whose cores are told of its
# connections, their own core's included. A thread that waits is in a system call whose first argument is its set.
watchers() {
    for task in /proc/$server/task/*; do
        read -r name < "$task/comm"
        case "$name" in vermeil-[0-9]*) ;; *) continue ;; esac
        for try in $(seq 100); do
            read -r call set rest < "$task/syscall"
            case "$set" in 0x*) break ;; esac
        done
        cpu=$(sed -n 's/^Cpus_allowed_list:\t//p' "$task/status")
        sed -n "s/^tfd:.* ino:\([0-9a-f]*\) .*/$cpu \1/p" "/proc/$server/fdinfo/$((set))"
    done > /tmp/told
    awk '$4 == "0A" && $2 ~ /:0050$/ { printf "%x\n", $10 }' /proc/net/tcp /proc/net/tcp6 > /tmp/listeners
    awk 'NR == FNR { listens[$1]; next } $2 in listens { told[$2] = told[$2] " " $1 }
        END { for (one in told) print told[one] }' /tmp/listeners /tmp/told
}
serve --balance local --instances one --io epoll
watchers > /tmp/watchers
# How many listeners, and how many of them are watched by the four cores of one node and by no other.
set -- $(awk '{ node = int($1 / 4); good = NF == 4; for (at = 2; at <= NF; at++) good = good && int($at / 4) == node; here += good }
    END { printf "%d %d", NR, here }' /tmp/watchers)
# Sixteen for each of the two addresses.
[ "$1" = 32 ] && [ "$2" = 32 ]
check "a core watches the neighbours of its node, and no other" $? \
    "$2 of $1 listeners are watched by the four cores of one node: cpus$(sort -u /tmp/watchers | sort -n | tr '\n' ',')"
stop
