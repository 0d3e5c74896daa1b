# Steering, instances on their nodes, one that is killed, the end.

# Every setting that steering may change.
settings() {
    for irq in /proc/irq/*/smp_affinity_list; do echo "$irq $(cat "$irq")"; done
    for file in /sys/class/net/eth0/queues/*/[rx]ps_*; do echo "$file $(cat "$file" 2>&1)"; done
}
# Whether an instance is where it has to be.
at_home() { # NUMBER
    pid=$(pid_of "$1"); cpus="$(($1 * 4))-$(($1 * 4 + 3))"
    elsewhere=$(grep -h Cpus_allowed_list /proc/"$pid"/task/*/status | cut -f2 | awk -v first="$(($1 * 4))" \
        '{ n = split($0, ends, "-"); if (ends[1] < first || ends[n] > first + 3) away++ } END { print away + 0 }')
    set -- "$1" $(pages "$1" "$pid")
    [ "$elsewhere" = 0 ] && [ "$3" -gt 0 ] && [ $(($2 * 100)) -ge $(($3 * 95)) ]
    at_home=$?
    saw="pid $pid, threads outside of cpus $cpus: $elsewhere, $2 of $3 pages on node $1"
}

vermeil topo --plan | sed 's/^/VERMEIL plan: /'
head -c 20000 /dev/zero > /srv/page

settings > /tmp/before
vermeil steer apply > /tmp/steer 2>&1
check "steer apply changes the card" $? "$(grep -c -- '->' /tmp/steer) changes"
settings > /tmp/steered
serve
sed 's/^/VERMEIL said: /' /tmp/said

say "ASK 8 25 page"
wait_for 200 120; check "every request over the card is answered" $? "$(answered) answered"
for number in 0 1 2 3; do at_home $number; check "instance $number is on its node" $at_home "$saw"; done

old=$(pid_of 2)
kill -9 "$old"
for _ in $(seq 300); do grep -q "instance 2 serves again" /tmp/said && break; sleep 0.2; done
again=$(sed -n 's/.*instance 2 serves again, after \(.*\)/\1/p' /tmp/said)
at_home 2; check "an instance that was killed is back on its node" $at_home "was pid $old; after $again; $saw"

status | grep -E "^instance|^requests" | sed 's/^/VERMEIL status: /'
stop; check "all drain" $? "exit code $?"
sed -n 's/^vermeil\[\([0-9]\)\]: accepted/VERMEIL said: instance \1 accepted/p' /tmp/said
awk '/^vermeil.*: accepted:/ { for (i = 1; i <= NF; i++) { if ($i == "%") { share = $(i - 1);
    n = $(i + 5); gsub(/[^0-9]/, "", n); all += n; here += n * share / 100 } } }
    END { printf "%d %d\n", here + 0.5, all }' /tmp/said > /tmp/local
read -r here all < /tmp/local
# Not all: a core that the emulator holds up is relieved by its neighbours.
[ "$all" -gt 0 ] && [ $((here * 100)) -ge $((all * 50)) ]
check "connections are accepted where the card's queue brings them" $? "$here of $all looked at"
