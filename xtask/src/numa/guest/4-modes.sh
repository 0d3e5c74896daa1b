# The modes compared where one node is slowed, as in Apache-NUMA's tables: the cores of node 2 get two thousandths of their
# cpus' time, as if others had the rest. A table and no verdict: what is fast and what is slow cannot be seen here, and
# how the emulator shares its own cpus is chance.

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
    took="$(answered) in $(since "$begun")"
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
for balance in hash fixed round-robin local load-aware; do mode $balance slow "slowed"; done
