# A core that is stuck, one of sixteen: its thread is frozen, so packets are handled on its cpu as before and nobody comes
# for the connections. Where nobody watches, clients end up behind it one after the other.

frozen=/sys/fs/cgroup/frozen
mkdir $frozen && echo threaded > $frozen/cgroup.type
# Freezes the core of a cpu, which is the thread that may run nowhere else.
freeze() { # INSTANCE CPU
    for task in /proc/"$(pid_of "$1")"/task/*; do
        if [ "$(sed -n 's/^Cpus_allowed_list:\t//p' "$task/status")" = "$2" ]; then
            echo "${task##*/}" > $frozen/cgroup.threads
        fi
    done
    echo 1 > $frozen/cgroup.freeze
}
# How many of 200 requests are answered while the core of cpu 5 is stuck, which gets a share of the card's packets.
stuck() { # MODE SECONDS
    serve --balance "$1"
    freeze 1 5
    begun=$(now)
    say "ASK 8 25 page"
    wait_for 200 "$2"
    stuck=$(answered)
    say "stuck: $1: $stuck of 200 requests answered while one core of sixteen was stuck, for $(since "$begun")"
    echo 0 > $frozen/cgroup.freeze
    wait_for 200 120
    stop
    relieved=$(sed -n 's/.*connections, \([0-9]*\) of them taken over.*/\1/p' /tmp/said | awk '{ sum += $1 } END { print sum + 0 }')
}

stuck hash 15
without=$stuck
stuck local 120
[ "$stuck" -ge 200 ] && [ "$relieved" -gt 0 ]
check "a stuck core does not hold a share of new connections" $? \
    "$stuck of 200 answered, $relieved taken over by its neighbours; without neighbours that watch $without of 200"
