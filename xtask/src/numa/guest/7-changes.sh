# What an administrator may take from a server while it runs: a cpu, the cpus of its cpuset, the memory of a node. It goes on
# elsewhere and says so, goes back when it may, and answers all the while.

echo "+cpuset" > /sys/fs/cgroup/cgroup.subtree_control
kept=/sys/fs/cgroup/kept
mkdir $kept && echo "0-15" > $kept/cpuset.cpus && echo "0-3" > $kept/cpuset.mems
serve
for process in $server $(for number in 0 1 2 3; do pid_of $number; done); do echo "$process" > $kept/cgroup.procs; done

# Waits until the server has said something, at most a minute.
says() { # PATTERN
    for _ in $(seq 120); do grep -q "$1" /tmp/said && return 0; sleep 0.5; done
    return 1
}
# Takes something away and gives it back; what the server says both times, and whether it answers.
taken() { # NAME FILE VALUE-WITHOUT VALUE-WITH SAYS-AWAY SAYS-BACK
    : > /tmp/answers
    echo "$3" > "$2"
    says "$5"; away=$?
    for _ in $(seq 8); do wget -q -O - http://127.0.0.1/index.html >> /tmp/answers; done
    echo "$4" > "$2"
    says "$6"; back=$?
    answers=$(grep -c home /tmp/answers)
    [ $away = 0 ] && [ $back = 0 ] && [ "$answers" = 8 ]
    check "$1" $? "$answers of 8 requests answered without it; said: $(grep -m 1 "$5" /tmp/said); $(grep -m 1 "$6" /tmp/said)"
}

taken "a cpu is taken offline and comes back" /sys/devices/system/cpu/cpu9/online 0 1 \
    "cpu 9 was taken away" "runs on cpu 9 again"
taken "a cpu leaves the cpuset and comes back" $kept/cpuset.cpus "0-13,15" "0-15" \
    "cpu 14 was taken away" "runs on cpu 14 again"
taken "the memory of a node leaves the cpuset and comes back" $kept/cpuset.mems "0-2" "0-3" \
    "memory of node 3 was taken away" "memory comes from node 3 again"

# An instance that is killed while one of its cpus is away comes back on the others, and goes to that one when it may.
: > /tmp/answers
echo 0 > /sys/devices/system/cpu/cpu10/online
says "cpu 10 was taken away"
kill -KILL "$(pid_of 2)"
says "instance 2 serves again"; again=$?
for _ in $(seq 8); do wget -q -O - http://127.0.0.1/index.html >> /tmp/answers; done
echo 1 > /sys/devices/system/cpu/cpu10/online
says "runs on cpu 10 again"; back=$?
answers=$(grep -c home /tmp/answers)
[ $again = 0 ] && [ $back = 0 ] && [ "$answers" = 8 ]
check "a killed instance serves again without one of its cpus" $? \
    "$answers of 8 requests answered; said: $(grep -m 1 "instance 2 serves again" /tmp/said); $(grep -m 1 "runs on cpu 10 again" /tmp/said)"

stop; check "the server drains after all that" $? "exit code $?"
