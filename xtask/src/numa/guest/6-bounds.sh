# What a host's cgroup bounds: memory, processes and cpu time of its programs, all together. The host beside it does not notice.

echo "+memory +cpu +pids" > /sys/fs/cgroup/cgroup.subtree_control
bounded=/sys/fs/cgroup/bounded slowed=/sys/fs/cgroup/slowed-host
mkdir -p /srv/cgi-bin
program() { # NAME LINES
    printf '#!/bin/sh\n%s\n' "$2" > "/srv/cgi-bin/$1"
    chmod 755 "/srv/cgi-bin/$1"
}
program hello 'printf "Content-Type: text/plain\nContent-Length: 6\n\nhello\n"'
program hungry 'x=$(head -c 100000000 /dev/zero | tr "\0" x); printf "Content-Type: text/plain\n\n%s\n" ${#x}'
# What it starts must not hold its output open: an answer ends when nobody can add to it.
program bomb 'for i in $(seq 500); do sleep 300 > /dev/null 2>&1 & done; printf "Content-Type: text/plain\n\nall\n"'
program busy 'while :; do :; done'
cat > /tmp/bounds.toml <<END
cores = "0-3"
log = "off"
control = "/run/control"
[[listener]]
address = "127.0.0.1:81"
[cgi]
user = "www-data"
[[host]]
names = ["free"]
root = "/srv"
[[host.route]]
prefix = "/cgi-bin"
action = "cgi"
[[host]]
names = ["bounded"]
root = "/srv"
[host.cgi]
timeout = "120s"
cgroup = { folder = "$bounded", memory = "32M", processes = 20 }
[[host.route]]
prefix = "/cgi-bin"
action = "cgi"
[[host]]
names = ["slow"]
root = "/srv"
[host.cgi]
timeout = "5s"
cgroup = { folder = "$slowed", cpu_percent = 20 }
[[host.route]]
prefix = "/cgi-bin"
action = "cgi"
END
# The status line of an answer.
ask() { # HOST PROGRAM
    wget -S -O /dev/null --header "Host: $1" "http://127.0.0.1:81/cgi-bin/$2" 2>&1 | sed -n 's/.*\(HTTP.1.1 [0-9]*\).*/\1/p' | head -n 1
}
event() { # FOLDER FILE NAME
    sed -n "s/^$3 //p" "$1/$2"
}
vermeil serve --config /tmp/bounds.toml 2> /tmp/said &
server=$!
for _ in $(seq 600); do grep -q "cores: " /tmp/said && break; sleep 0.2; done

answer=$(ask bounded hello)
[ "$answer" = "HTTP/1.1 200" ]; check "a program in a cgroup answers" $? "$answer"

answer=$(ask bounded hungry)
[ "$answer" = "HTTP/1.1 502" ] && [ "$(event $bounded memory.events oom_kill)" -gt 0 ] && grep -q "hungry: it ended with signal 9" /tmp/said
check "a program beyond the memory of its host dies, and the reason is said" $? \
    "$answer, $(event $bounded memory.events oom_kill) killed, said: $(grep hungry /tmp/said | tail -n 1)"

answer=$(ask bounded bomb)
[ "$answer" = "HTTP/1.1 502" ] && [ "$(event $bounded pids.events max)" -gt 0 ]
check "a fork bomb is held by the processes of its host" $? \
    "$answer, $(event $bounded pids.events max) forks refused, at most $(cat $bounded/pids.max) processes, $(cat $bounded/pids.current) left, said: $(grep bomb /tmp/said | tail -n 1)"

ask slow busy > /tmp/busy &
asked=$!
sleep 1
answer=$(ask free hello)
wait $asked
[ "$answer" = "HTTP/1.1 200" ] && [ "$(cat /tmp/busy)" = "HTTP/1.1 504" ] && [ "$(event $slowed cpu.stat nr_throttled)" -gt 0 ]
check "a program that never ends gets a share of a cpu, and ends late" $? \
    "$(cat /tmp/busy), throttled $(event $slowed cpu.stat nr_throttled) times; the host beside it meanwhile: $answer"
stop; check "the server drains" $? "exit code $?"
