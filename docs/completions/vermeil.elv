
use builtin;
use str;

set edit:completion:arg-completer[vermeil] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'vermeil'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'vermeil'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand serve 'Serve a folder'
            cand check 'Read a configuration and say what it would do, or all that is wrong with it'
            cand status 'Say what a server that runs is doing: cores and their load, connections, requests, caches, memory, logs, pools'
            cand reload 'Have a server that runs read its configuration again'
            cand load 'Load a server, and say whether the answer can be trusted'
            cand topo 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use'
            cand steer 'Bring each flow''s packets, its interrupts and its consumer to one core of the card''s memory node'
            cand sim 'Run the scheduler on machines you do not have: virtual cores, caches, memory nodes and links, under a virtual clock'
            cand instance 'Serve as one of several instances, for the supervisor that stands behind standard input'
            cand completions 'Write the completions of a shell to standard output'
            cand man 'Write a man page to standard output: `vermeil man serve | man -l -`'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;serve'= {
            cand --take-over 'Take over from the server that runs, without losing a connection: to upgrade it, or to change its cores'
            cand -l 'Where to listen; may be given several times'
            cand --listen 'Where to listen; may be given several times'
            cand --cores 'Which cpus to run on: all, a number of them, or a list'
            cand --instances 'Into how many processes to divide the server: per-node, one, or a number'
            cand --balance 'How new connections find their cores'
            cand --io 'How the kernel is asked for input and output'
            cand --busy-poll 'Whether cores poll their network card while they have much to do'
            cand --log 'Where the access log goes: - (standard output), a file, or off'
            cand --control 'Where the control socket is, by which status and reload reach the server: a path, or off'
            cand --agent 'Where HAProxy''s agent checks are answered, as for --listen'
            cand --trace 'Leave a recording of each core''s last events in this file when the server ends, for `vermeil sim`'
            cand --user 'The user, or USER:GROUP, to become once ports are bound, and the log and the control socket are opened'
            cand --follow-symlinks 'Which symbolic links below DIR are followed'
            cand --type 'The media type of files with an extension, such as ts=text/x-typescript'
            cand --cache-bytes 'Memory for file contents, all cores together, in bytes'
            cand --cache-entries 'Paths remembered, all cores together'
            cand --cache-file-bytes 'The largest file whose content is kept in memory, in bytes'
            cand --php 'Have files named *.php answered by PHP'
            cand --php-children 'Children of the pool, and connections open to it at once'
            cand --php-queue 'Requests that may wait for PHP'
            cand --php-queue-timeout 'How long a request may wait for PHP to be free, in seconds or with a unit: ms, s, m, h'
            cand --php-timeout 'How long PHP may be silent, in seconds or with a unit: ms, s, m, h'
            cand --php-requests 'Requests after which a child of our own pool is replaced'
            cand --php-body-bytes 'The longest request body for PHP, in bytes'
            cand --php-user 'The user that our own pool runs as, when the server is started by the superuser'
            cand --php-send 'A folder out of which PHP may have files sent; may be given several times'
            cand --cgi 'Have programs answer: below a folder (/cgi-bin/), or wherever a name ends so (.cgi); may be given several times'
            cand --cgi-user 'The user that programs run as, with its groups'
            cand --cgi-max 'Programs that run at once'
            cand --cgi-queue 'Requests that may wait for a program to end'
            cand --cgi-timeout 'How long a program may run, in seconds or with a unit: ms, s, m, h'
            cand --cgi-memory 'Address space that each process of a program may have, in bytes'
            cand --cgi-send 'A folder out of which programs may have files sent; may be given several times'
            cand --connections-max 'Connections held at once, on each core'
            cand --client-connections-max 'Connections of one client address, on all cores of an instance'
            cand --client-ipv6-prefix 'Leading bits of an IPv6 address that tell clients apart'
            cand --wait-max 'For connections to be accepted, in seconds or with a unit: ms, s, m, h'
            cand --request-line-bytes 'The longest request line, in bytes'
            cand --header-count 'The most header fields of a request'
            cand --header-bytes 'The longest request head, that is request line and header fields, in bytes'
            cand --body-bytes 'The longest request body, in bytes'
            cand --body-memory-bytes 'Memory for the bodies of requests to PHP and CGI programs, in bytes'
            cand --requests-per-connection 'Requests answered on one connection before it is closed'
            cand --ranges-max 'The most ranges of a range request'
            cand --listing-names 'The most names on one page of a listing'
            cand --header-timeout 'For a request head to arrive, in seconds or with a unit: ms, s, m, h'
            cand --body-timeout 'For a request body to arrive, in seconds or with a unit: ms, s, m, h'
            cand --keep-alive-timeout 'For the next request on a connection, in seconds or with a unit: ms, s, m, h'
            cand --write-timeout 'For a client to take any part of the answer, in seconds or with a unit: ms, s, m, h'
            cand --leave-timeout 'For balancers to notice that the server is about to stop, in seconds or with a unit: ms, s, m, h'
            cand --drain-timeout 'For open requests to finish when the server stops, in seconds or with a unit: ms, s, m, h'
            cand -c 'Take everything from a configuration file, and nothing from the command line'
            cand --config 'Take everything from a configuration file, and nothing from the command line'
            cand --no-listing 'Answer 403 for a folder without index.html instead of listing it'
            cand --sendfile 'Send larger files by sendfile(2)'
            cand --cgi-nph 'Let programs whose names begin with nph- write the whole answer themselves'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;check'= {
            cand -c 'The configuration file'
            cand --config 'The configuration file'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;status'= {
            cand --control 'The server''s control socket'
            cand --json 'Write JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;reload'= {
            cand --control 'The server''s control socket'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load'= {
            cand -c 'Users; without WORKLOAD connections, each with one request under way'
            cand --connections 'Users; without WORKLOAD connections, each with one request under way'
            cand --cores 'Which cpus to run on: all, a number of them, or a list'
            cand --io 'How the kernel is asked for input and output'
            cand --seed 'What random numbers are drawn from; the same seed gives the same users and arrivals'
            cand --pipeline 'Requests sent on a connection before the first answer is waited for; with --http2 on a stream each'
            cand --ca 'Root certificates of https servers, in place of the system''s: a PEM file'
            cand -H 'A header field of every request, such as "Accept: text/html"; may be repeated'
            cand --header 'A header field of every request, such as "Accept: text/html"; may be repeated'
            cand -X 'The method'
            cand --method 'The method'
            cand --body 'The content of every request; @FILE reads it from a file'
            cand --timeout 'For an answer to come, in seconds or with a unit: ms, s, m, h'
            cand -d 'The part of the run that counts, in seconds or with a unit: ms, s, m, h'
            cand --duration 'The part of the run that counts, in seconds or with a unit: ms, s, m, h'
            cand -n 'End after so many requests; with WORKLOAD, pages'
            cand --requests 'End after so many requests; with WORKLOAD, pages'
            cand --think 'How long users think between an answer and the next request'
            cand --rate 'Open loop: requests arrive by themselves, so many a second; with WORKLOAD, sessions do'
            cand --arrivals 'Open loop with the arrivals of a file: a time in seconds on each line'
            cand --compress 'Run so many times as fast: users think less and take bytes faster, logs are replayed faster'
            cand --ramp-up 'For users to begin, evenly, in seconds or with a unit: ms, s, m, h'
            cand --warm-up 'Before the part that counts, in seconds or with a unit: ms, s, m, h'
            cand --ramp-down 'After the part that counts, in seconds or with a unit: ms, s, m, h'
            cand --good 'A good page takes no longer, in seconds or with a unit: ms, s, m, h'
            cand --tolerable 'A tolerable page takes no longer, in seconds or with a unit: ms, s, m, h'
            cand --good-share 'Share of pages that must be good'
            cand --tolerable-share 'Share of pages that must be tolerable'
            cand --failed-share 'Share of pages that is too much to fail'
            cand --good-rate 'Bytes per second of a good download'
            cand --tolerable-rate 'Bytes per second of a tolerable download'
            cand --users-from 'Users that are tried first'
            cand --users-max 'Most users that are tried'
            cand --precision 'How near to each other users that hold it and users that do not must be'
            cand --confirm 'Runs by which the result is confirmed'
            cand --address 'A set of addresses to connect to instead of the URL''s: [NAME=]ADDR:PORT[,ADDR:PORT…]; may be repeated'
            cand --choice 'How a connection finds its set'
            cand --agents 'Have these agents make the load, each its part: NAME:PORT, separated by commas'
            cand --agents-wait 'For agents that are not there yet, in seconds or with a unit: ms, s, m, h'
            cand --json 'Write the whole result as JSON; - is standard output, in place of the summary'
            cand --html 'Write a page with plots, in one file; or to standard output: -'
            cand --csv 'Write the course of the run, an interval per line; or to standard output: -'
            cand --openmetrics 'Write the result in the OpenMetrics text format; or to standard output: -'
            cand --fail-if 'End with exit code 6 where the run passes this threshold, such as ''p99>200ms'' or ''failed>1%''; may be repeated'
            cand --no-keepalive 'A new connection for each request'
            cand --http2 'Speak HTTP/2: agreed on in the handshake with https, at once with http'
            cand --insecure 'Believe every certificate of an https server'
            cand --find-max 'Search the most users that hold the quality of service: run after run, with more and with fewer'
            cand -q 'No live line'
            cand --quiet 'No live line'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand agent 'Make a part of the load that `vermeil load --agents` divides, until SIGTERM or SIGINT'
            cand files 'Write the files that a workload asks for'
            cand backend 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
            cand report 'Show results that were kept as JSON, several side by side'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;load;agent'= {
            cand -l 'Where to listen for the coordinator; port 0 takes any free port'
            cand --listen 'Where to listen for the coordinator; port 0 takes any free port'
            cand --cores 'Which cpus to run on: all, a number of them, or a list'
            cand --io 'How the kernel is asked for input and output'
            cand --once 'End when the first coordinator is done or lost, as a job of a cluster has to'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load;files'= {
            cand --scale 'For so many users (support), or expected operations a second (specweb96)'
            cand --max-bytes 'The most that is written in directories, in bytes'
            cand --backend 'Where the PHP pages find their back end; the environment variable VERMEIL_LOAD_BACKEND overrides it'
            cand --static 'Pages as plain files instead of PHP'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load;backend'= {
            cand -l 'Where to listen; port 0 takes any free port'
            cand --listen 'Where to listen; port 0 takes any free port'
            cand --cores 'Which cpus to run on: all, a number of them, or a list'
            cand --io 'How the kernel is asked for input and output'
            cand --delay 'How long every answer takes: 2ms, exp:2ms, uniform:1ms:3ms, lognormal:2ms:1'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load;report'= {
            cand --html 'Write a page with plots of all of them, in one file'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load;help'= {
            cand agent 'Make a part of the load that `vermeil load --agents` divides, until SIGTERM or SIGINT'
            cand files 'Write the files that a workload asks for'
            cand backend 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
            cand report 'Show results that were kept as JSON, several side by side'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;load;help;agent'= {
        }
        &'vermeil;load;help;files'= {
        }
        &'vermeil;load;help;backend'= {
        }
        &'vermeil;load;help;report'= {
        }
        &'vermeil;load;help;help'= {
        }
        &'vermeil;topo'= {
            cand --from 'Draw the machine of an hwloc XML export instead; - reads standard input'
            cand -s 'Draw the machine that a text describes instead'
            cand --synthetic 'Draw the machine that a text describes instead'
            cand --cores 'Also say which cpus `vermeil serve --cores` would use, in the order it takes them: all, a number, or a list'
            cand --instances 'Into how many processes `vermeil serve --instances` would divide these cores: per-node, one, or a number'
            cand --plan 'Write as JSON which instances a server would have, instead of a drawing'
            cand --json 'Write JSON instead of a drawing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;steer'= {
            cand --cores 'The cpus of the server''s cores, as for `vermeil serve --cores`: all, a number, or a list'
            cand --nic 'A card to steer; may be repeated, but not with xdp and compare'
            cand --queues 'Whether the number of a card''s queues may change'
            cand --confirm 'With apply: take everything back unless `vermeil steer confirm` is said within this, in seconds or with a unit: ms, s, m, h'
            cand --port 'With verify: count only reads from sockets of this local port'
            cand --time 'With verify and compare: how long to measure, in seconds or with a unit: ms, s, m, h'
            cand --xdp 'With xdp and compare: where the program runs'
            cand --state 'The folder that holds what was before, until it is undone'
            cand --root 'With plan: a recorded machine instead of this one'
            cand --json 'Write JSON instead of text'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand run 'Simulate a workload on a machine'
            cand machines 'List the machines that ship, or print the description of one, to start your own from'
            cand workloads 'List the workloads that ship, or print the description of one, to start your own from'
            cand reproduce 'Run published experiments again: the documents'' figures, ours, the difference, what was fitted and what is predicted'
            cand swarm 'Draw machines, workloads, policies and faults from seeds, run them, and check that no rule of the scheduler is broken'
            cand calibrate 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events'
            cand parity 'Run the same programs under the same policies for real and simulated, and say whether both rank the policies alike'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;sim;run'= {
            cand -m 'The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml, a text in hwloc''s synthetic notation, or `here`, which is measured first'
            cand --machine 'The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml, a text in hwloc''s synthetic notation, or `here`, which is measured first'
            cand --costs 'Whose latencies, bandwidths and costs a machine from an export or a text has: a name, or FILE.toml'
            cand -p 'What moves colors: none, libasync, mely, placed:PLAN, trial, ncopy or adaptive'
            cand --policy 'What moves colors: none, libasync, mely, placed:PLAN, trial, ncopy or adaptive'
            cand --compare 'Run under several policies, separated by commas, and show them side by side; `all` is none, libasync, mely, ncopy, trial and adaptive'
            cand --seed 'What all chance comes from: equal seeds are equal runs'
            cand -t 'How much virtual time is counted, after the workload''s warm-up, in seconds or with a unit: ms, s, m, h'
            cand --time 'How much virtual time is counted, after the workload''s warm-up, in seconds or with a unit: ms, s, m, h'
            cand --spin 'How long an idle core goes on looking before it sleeps, in nanoseconds'
            cand --working-set 'Of a recording: what each color is taken to touch in every event, in bytes'
            cand --timeline 'Draw what ran where, as a picture'
            cand --trace 'Write what ran where, to be opened with ui.perfetto.dev'
            cand --show-from 'From when the picture and the trace show the run, in seconds or with a unit: ms, s, m, h'
            cand --show-time 'How much of the run the picture and the trace show, in seconds or with a unit: ms, s, m, h'
            cand --json 'Write JSON instead of text; of several policies an array'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;machines'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;workloads'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;reproduce'= {
            cand --quick 'Less of each, as the tests run it'
            cand --json 'Write JSON instead of text'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;swarm'= {
            cand --seeds 'How many seeds'
            cand --first 'The first of them'
            cand --seed 'Run this one alone, and say what it draws'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;calibrate'= {
            cand -o 'Where the description goes'
            cand --out 'Where the description goes'
            cand --quick 'Take a moment only, to see that it works: the numbers mean little'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;parity'= {
            cand -m 'This machine as `vermeil sim calibrate` described it'
            cand --machine 'This machine as `vermeil sim calibrate` described it'
            cand --rounds 'Real runs of each program under each policy'
            cand --quick 'Take a moment only, to see that it works: the numbers mean nothing, and it ends with 0'
            cand --json 'Write JSON instead of text'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;help'= {
            cand run 'Simulate a workload on a machine'
            cand machines 'List the machines that ship, or print the description of one, to start your own from'
            cand workloads 'List the workloads that ship, or print the description of one, to start your own from'
            cand reproduce 'Run published experiments again: the documents'' figures, ours, the difference, what was fitted and what is predicted'
            cand swarm 'Draw machines, workloads, policies and faults from seeds, run them, and check that no rule of the scheduler is broken'
            cand calibrate 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events'
            cand parity 'Run the same programs under the same policies for real and simulated, and say whether both rank the policies alike'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;sim;help;run'= {
        }
        &'vermeil;sim;help;machines'= {
        }
        &'vermeil;sim;help;workloads'= {
        }
        &'vermeil;sim;help;reproduce'= {
        }
        &'vermeil;sim;help;swarm'= {
        }
        &'vermeil;sim;help;calibrate'= {
        }
        &'vermeil;sim;help;parity'= {
        }
        &'vermeil;sim;help;help'= {
        }
        &'vermeil;instance'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;completions'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'vermeil;man'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'vermeil;help'= {
            cand serve 'Serve a folder'
            cand check 'Read a configuration and say what it would do, or all that is wrong with it'
            cand status 'Say what a server that runs is doing: cores and their load, connections, requests, caches, memory, logs, pools'
            cand reload 'Have a server that runs read its configuration again'
            cand load 'Load a server, and say whether the answer can be trusted'
            cand topo 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use'
            cand steer 'Bring each flow''s packets, its interrupts and its consumer to one core of the card''s memory node'
            cand sim 'Run the scheduler on machines you do not have: virtual cores, caches, memory nodes and links, under a virtual clock'
            cand instance 'Serve as one of several instances, for the supervisor that stands behind standard input'
            cand completions 'Write the completions of a shell to standard output'
            cand man 'Write a man page to standard output: `vermeil man serve | man -l -`'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;help;serve'= {
        }
        &'vermeil;help;check'= {
        }
        &'vermeil;help;status'= {
        }
        &'vermeil;help;reload'= {
        }
        &'vermeil;help;load'= {
            cand agent 'Make a part of the load that `vermeil load --agents` divides, until SIGTERM or SIGINT'
            cand files 'Write the files that a workload asks for'
            cand backend 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
            cand report 'Show results that were kept as JSON, several side by side'
        }
        &'vermeil;help;load;agent'= {
        }
        &'vermeil;help;load;files'= {
        }
        &'vermeil;help;load;backend'= {
        }
        &'vermeil;help;load;report'= {
        }
        &'vermeil;help;topo'= {
        }
        &'vermeil;help;steer'= {
        }
        &'vermeil;help;sim'= {
            cand run 'Simulate a workload on a machine'
            cand machines 'List the machines that ship, or print the description of one, to start your own from'
            cand workloads 'List the workloads that ship, or print the description of one, to start your own from'
            cand reproduce 'Run published experiments again: the documents'' figures, ours, the difference, what was fitted and what is predicted'
            cand swarm 'Draw machines, workloads, policies and faults from seeds, run them, and check that no rule of the scheduler is broken'
            cand calibrate 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events'
            cand parity 'Run the same programs under the same policies for real and simulated, and say whether both rank the policies alike'
        }
        &'vermeil;help;sim;run'= {
        }
        &'vermeil;help;sim;machines'= {
        }
        &'vermeil;help;sim;workloads'= {
        }
        &'vermeil;help;sim;reproduce'= {
        }
        &'vermeil;help;sim;swarm'= {
        }
        &'vermeil;help;sim;calibrate'= {
        }
        &'vermeil;help;sim;parity'= {
        }
        &'vermeil;help;instance'= {
        }
        &'vermeil;help;completions'= {
        }
        &'vermeil;help;man'= {
        }
        &'vermeil;help;help'= {
        }
    ]
    $completions[$command]
}
