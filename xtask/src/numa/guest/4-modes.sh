# The modes compared where one node is slowed, as in Apache-NUMA's tables: the cores of node 2 get two thousandths of their
# cpus' time, as if others had the rest. One verdict: what looks at the load answers more meanwhile than what stays local.
# How much more, and what is fast and slow besides, cannot be judged here: how the emulator shares its own cpus is chance.

slowed=/sys/fs/cgroup/slowed
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
mkdir $slowed && echo threaded > $slowed/cgroup.type
# Slows the cores of an instance, which are the threads that may run on one cpu alone.
slow() { # INSTANCE
    # In a whole second, the longest period there is.
    echo "2000 1000000" > $slowed/cpu.max
    for task in /proc/"$(pid_of "$1")"/task/*; do
        case "$(sed -n 's/^Cpus_allowed_list:\t//p' "$task/status")" in
        *[!0-9]*) ;;
        *) echo "${task##*/}" > $slowed/cgroup.threads ;;
        esac
    done
}
row() { # MODE WHAT
    say "modes: $(printf '%-12s | %-10s | %5s %5s %5s %5s | %s' "$@")"
}
# One mode's row of the table. What is not answered in time is answered once the node is as fast as the others: where a
# connection waits was decided when it came.
mode() { # MODE slow-OR-true WHAT
    serve --balance "$1"
    $2 2
    begun=$(now)
    say "ASK 16 10 page"
    wait_for 160 15
    meanwhile=$(answered)
    took="$meanwhile in $(since "$begun")"
    echo "max 1000000" > $slowed/cpu.max
    wait_for 160 120
    set -- "$1" "$3" $(answered_each)
    all=$(($3 + $4 + $5 + $6))
    [ $all -gt 0 ] || all=1
    row "$1" "$2" "$(($3 * 100 / all)) %" "$(($4 * 100 / all)) %" "$(($5 * 100 / all)) %" "$(($6 * 100 / all)) %" "$took"
    stop
}

row mode "node 2 is" "inst0" "inst1" "inst2" "inst3" "of 160 requests, answered while it was so"
mode load-aware true "as others"
for balance in hash fixed round-robin; do mode $balance slow "slowed"; done
by_local=0 by_load=0
# Once more where chance had it otherwise.
for _ in 1 2; do
    mode local slow "slowed"; by_local=$((by_local + meanwhile))
    mode load-aware slow "slowed"; by_load=$((by_load + meanwhile))
    [ $by_load -gt $by_local ] && break
done
[ $by_load -gt $by_local ]
check "load-aware moves work away from a node that is slowed" $? "$by_load requests answered meanwhile, $by_local by local"
