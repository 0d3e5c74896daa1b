
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
            cand check 'Read a configuration and show its settings, or all its errors'
            cand status 'Show the state of a running server: cores and their load, connections, requests, caches, memory, logs, pools'
            cand reload 'Make a running server read its configuration again'
            cand load 'Load a server, and report whether the result can be trusted'
            cand topo 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use'
            cand steer 'Bring each flow''s packets, interrupts and consumer to a single core of the card''s memory node'
            cand sim 'Run the scheduler on machines that you do not have: virtual cores, caches, memory nodes and links, under a virtual clock'
            cand profile 'Find out where a process spends its time: sample stacks, read counters, report the functions that cost most'
            cand scale 'Run a program on several numbers of cpus or memory nodes and find out why it does not scale'
            cand instance 'Serve as an instance, for the supervisor at the other end of standard input'
            cand completions 'Write the completions of a shell to standard output'
            cand man 'Write a man page to standard output: `vermeil man serve | man -l -`'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;serve'= {
            cand --take-over 'Replace the running server without losing a connection: for an upgrade, or to change the cores'
            cand -l 'Where to listen; may be given several times'
            cand --listen 'Where to listen; may be given several times'
            cand --cores 'The cpus to run on: all, a number, or a list'
            cand --instances 'The number of server processes (instances): per-node, one, or a number'
            cand --balance 'How new connections are assigned to cores'
            cand --policy 'Whether a core takes connections from a core with more work'
            cand --io 'The kernel interface for input and output'
            cand --busy-poll 'Whether busy cores poll their network card'
            cand --log 'Where the access log goes: - (standard output), a file, syslog, journald, or off'
            cand --control 'The control socket, for `vermeil status` and `vermeil reload`: a path, or off'
            cand --agent 'The address that answers HAProxy''s agent checks, written as for --listen'
            cand --trace 'Write the last events of each core to this file when the server ends, for `vermeil sim`'
            cand --user 'The user, or USER:GROUP, to switch to after binding ports and opening the log and the control socket'
            cand --follow-symlinks 'The symbolic links below DIR that are followed'
            cand --type 'The media type of files with an extension, such as ts=text/x-typescript'
            cand --cache-bytes 'Memory for file contents, all cores together, in bytes'
            cand --cache-entries 'Cached paths, all cores together'
            cand --cache-file-bytes 'The largest file whose content is kept in memory, in bytes'
            cand --tls-certificate 'Serve HTTPS with this certificate; may be given several times'
            cand --tls-key 'The private key of the certificate, once for each certificate'
            cand --listen-tls 'Where to listen for HTTPS, written as for --listen; may be given several times'
            cand --php 'Let PHP answer files named *.php'
            cand --php-children 'Children of the pool, and connections to the pool at the same time'
            cand --php-queue 'Requests that may wait for PHP'
            cand --php-requests 'Requests after which a child of the server''s own pool is replaced'
            cand --php-user 'The user of the server''s own pool, if the superuser starts the server'
            cand --php-send 'A folder from which PHP may have files sent; may be given several times'
            cand --cgi 'Let programs answer: below a folder (/cgi-bin/), or all names with a suffix (.cgi); may be given several times'
            cand --cgi-user 'The user that programs run as, with the user''s groups'
            cand --cgi-max 'Programs that run at the same time'
            cand --cgi-queue 'Requests that may wait for a program to end'
            cand --cgi-timeout 'How long a program may run, in seconds or with a unit: ms, s, m, h'
            cand --cgi-memory 'Address space that each process of a program may have, in bytes'
            cand --cgi-send 'A folder from which programs may have files sent; may be given several times'
            cand --programs-queue-timeout 'How long a request may wait for a PHP child or a CGI turn, in seconds or with a unit: ms, s, m, h'
            cand --programs-timeout 'How long a program may be silent, in seconds or with a unit: ms, s, m, h'
            cand --programs-body-bytes 'The longest request body for a program, in bytes'
            cand --php-queue-timeout 'The former name of `--programs-queue-timeout`'
            cand --php-timeout 'The former name of `--programs-timeout`'
            cand --php-body-bytes 'The former name of `--programs-body-bytes`'
            cand --connections-max 'Open connections of each core'
            cand --client-connections-max 'Connections of a client address, on all cores of an instance'
            cand --client-ipv6-prefix 'Leading bits of an IPv6 address that identify a client'
            cand --wait-max 'For connections to be accepted, in seconds or with a unit: ms, s, m, h'
            cand --request-line-bytes 'The longest request line, in bytes'
            cand --header-count 'The most header fields of a request'
            cand --header-bytes 'The longest request head, that is request line and header fields, in bytes'
            cand --body-bytes 'The longest request body, in bytes'
            cand --body-memory-bytes 'Memory for the bodies of requests to PHP and CGI programs, in bytes'
            cand --requests-per-connection 'Requests on a connection before the server closes the connection'
            cand --ranges-max 'The most ranges of a range request'
            cand --listing-names 'The most names on one page of a listing'
            cand --header-timeout 'For a request head to arrive, in seconds or with a unit: ms, s, m, h'
            cand --body-timeout 'For a request body to arrive, in seconds or with a unit: ms, s, m, h'
            cand --keep-alive-timeout 'For the next request on a connection, in seconds or with a unit: ms, s, m, h'
            cand --write-timeout 'For a client to take any part of the answer, in seconds or with a unit: ms, s, m, h'
            cand --leave-timeout 'For balancers to react before the server stops, in seconds or with a unit: ms, s, m, h'
            cand --drain-timeout 'For open requests to finish when the server stops, in seconds or with a unit: ms, s, m, h'
            cand -c 'Read all settings from a configuration file, none from the command line'
            cand --config 'Read all settings from a configuration file, none from the command line'
            cand --no-listing 'Answer 403 for a folder without index.html instead of listing it'
            cand --sendfile 'Send larger files by sendfile(2)'
            cand --cgi-nph 'Let programs whose names begin with nph- write the whole answer themselves'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;check'= {
            cand -c 'The configuration file'
            cand --config 'The configuration file'
            cand --explain 'Say which host, route and file a GET request for this URL gets, and why'
            cand --schema 'Print the JSON Schema of the configuration'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;status'= {
            cand --control 'The server''s control socket'
            cand --json 'Write JSON'
            cand --metrics 'Write metrics, in the OpenMetrics text format'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;reload'= {
            cand --control 'The server''s control socket'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load'= {
            cand -c 'Users; without WORKLOAD, connections with one open request each'
            cand --connections 'Users; without WORKLOAD, connections with one open request each'
            cand --cores 'The cpus to run on: all, a number, or a list'
            cand --io 'The kernel interface for input and output'
            cand --seed 'The seed of all random numbers; the same seed gives the same users and arrivals'
            cand --pipeline 'Requests sent on a connection before the first answer arrives; with --http2 each on a stream of its own'
            cand --ca 'Root certificates of https servers, in place of the system''s: a PEM file'
            cand -H 'A header field of every request, such as "Accept: text/html"; may be repeated'
            cand --header 'A header field of every request, such as "Accept: text/html"; may be repeated'
            cand -X 'The method'
            cand --method 'The method'
            cand --body 'The content of every request; @FILE reads it from a file'
            cand --timeout 'For an answer to arrive, in seconds or with a unit: ms, s, m, h'
            cand -d 'The part of the run that counts, in seconds or with a unit: ms, s, m, h'
            cand --duration 'The part of the run that counts, in seconds or with a unit: ms, s, m, h'
            cand -n 'The number of requests after which the run ends; with WORKLOAD, pages'
            cand --requests 'The number of requests after which the run ends; with WORKLOAD, pages'
            cand --think 'How long users think between an answer and the next request'
            cand --rate 'Open loop: requests arrive at this rate per second, independently of answers; with WORKLOAD, sessions arrive'
            cand --arrivals 'Open loop with the arrivals of a file: a time in seconds on each line'
            cand --compress 'Time compression: think times are divided by this factor, and download and replay rates are multiplied by this factor'
            cand --ramp-up 'The time over which users start, evenly spread, in seconds or with a unit: ms, s, m, h'
            cand --warm-up 'Before the part that counts, in seconds or with a unit: ms, s, m, h'
            cand --ramp-down 'After the part that counts, in seconds or with a unit: ms, s, m, h'
            cand --good 'A good page takes no longer, in seconds or with a unit: ms, s, m, h'
            cand --tolerable 'A tolerable page takes no longer, in seconds or with a unit: ms, s, m, h'
            cand --good-share 'Share of pages that must be good'
            cand --tolerable-share 'Share of pages that must be tolerable'
            cand --failed-share 'Share of failed pages that is too high'
            cand --good-rate 'Bytes per second of a good download'
            cand --tolerable-rate 'Bytes per second of a tolerable download'
            cand --users-from 'Users of the first run'
            cand --users-max 'Most users of a run'
            cand --precision 'The largest difference between a number of users that holds the quality and a number that does not'
            cand --confirm 'Runs that confirm the result'
            cand --address 'A set of addresses that replaces the address of the URL: [NAME=]ADDR:PORT[,ADDR:PORT…]; may be repeated'
            cand --choice 'How a set is chosen for a connection'
            cand --agents 'The agents that make the load, each a part: NAME:PORT, separated by commas'
            cand --agents-wait 'How long to wait for agents to start, in seconds or with a unit: ms, s, m, h'
            cand --json 'Write the whole result as JSON; - is standard output, in place of the summary'
            cand --html 'Write a page with plots, in a single file; - is standard output'
            cand --csv 'Write the course of the run, an interval per line; - is standard output'
            cand --openmetrics 'Write the result in the OpenMetrics text format; - is standard output'
            cand --fail-if 'End with exit code 6 if the run passes this threshold, for example ''p99>200ms'' or ''failed>1%''; may be repeated'
            cand --no-keepalive 'A new connection for each request'
            cand --http2 'Use HTTP/2: negotiated in the handshake with https, from the first byte with http'
            cand --insecure 'Accept every certificate of an https server'
            cand --resume 'Resume TLS sessions of earlier connections, if the server allows that'
            cand --find-max 'Search the highest number of users that holds the quality of service, in runs with more and fewer users'
            cand -q 'No live line'
            cand --quiet 'No live line'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand agent 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT'
            cand files 'Write the files that a workload requests'
            cand backend 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
            cand report 'Show results that were saved as JSON, several side by side'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;load;agent'= {
            cand -l 'The address for the coordinator; port 0 takes any free port'
            cand --listen 'The address for the coordinator; port 0 takes any free port'
            cand --cores 'The cpus to run on: all, a number, or a list'
            cand --io 'The kernel interface for input and output'
            cand --once 'End when the first coordinator is done or lost, for example in a cluster job'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load;files'= {
            cand --scale 'The number of users (support), or of expected operations a second (specweb96)'
            cand --max-bytes 'The largest total size of the directories, in bytes'
            cand --backend 'The address of the back end of the PHP pages; the environment variable VERMEIL_LOAD_BACKEND overrides the address'
            cand --static 'Pages as plain files instead of PHP'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load;backend'= {
            cand -l 'The address to listen on; port 0 takes any free port'
            cand --listen 'The address to listen on; port 0 takes any free port'
            cand --cores 'The cpus to run on: all, a number, or a list'
            cand --io 'The kernel interface for input and output'
            cand --delay 'The delay of every answer: 2ms, exp:2ms, uniform:1ms:3ms, lognormal:2ms:1'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load;report'= {
            cand --html 'Write a page with plots of all records, in a single file; - is standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;load;help'= {
            cand agent 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT'
            cand files 'Write the files that a workload requests'
            cand backend 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
            cand report 'Show results that were saved as JSON, several side by side'
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
            cand --cores 'Also print the cpus that `vermeil serve --cores` would use, in order: all, a number, or a list'
            cand --instances 'The number of processes for these cores, as for `vermeil serve --instances`: per-node, one, or a number'
            cand --plan 'Write the instances of a server as JSON instead of a drawing'
            cand --json 'Write JSON instead of a drawing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;steer'= {
            cand --cores 'With plan, apply, xdp and compare: the cpus of the server''s cores, as for `vermeil serve --cores`: all, a number, or a list'
            cand --nic 'With plan, apply, xdp and compare: a card to steer; may be repeated, but not with xdp and compare'
            cand --queues 'With plan, apply and compare: whether the number of a card''s queues may change'
            cand --confirm 'With apply: undo all changes unless `vermeil steer confirm` follows within this time, in seconds or with a unit: ms, s, m, h'
            cand --port 'With verify: count only reads from sockets of this local port'
            cand --time 'With verify and compare: how long to measure, in seconds or with a unit: ms, s, m, h'
            cand --xdp 'With xdp and compare: where the program runs'
            cand --state 'The folder with the saved old values, until an undo'
            cand --root 'With plan: a recorded machine instead of this one'
            cand --json 'Write JSON instead of text'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand run 'Simulate a workload on a machine'
            cand show 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them'
            cand machines 'List the shipped machines, or print the description of a machine as a template'
            cand workloads 'List the shipped workloads, or print the description of a workload as a template'
            cand reproduce 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted'
            cand swarm 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler'
            cand calibrate 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events'
            cand parity 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;sim;run'= {
            cand -m 'The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml, a text in hwloc''s synthetic notation, or `here` for a measurement of this machine'
            cand --machine 'The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml, a text in hwloc''s synthetic notation, or `here` for a measurement of this machine'
            cand --costs 'The machine with the latencies, bandwidths and costs for an export or a text: a name, or FILE.toml'
            cand -p 'The policy that moves colors: none, libasync, mely, placed:PLAN, trial, ncopy, per-node or adaptive'
            cand --policy 'The policy that moves colors: none, libasync, mely, placed:PLAN, trial, ncopy, per-node or adaptive'
            cand --compare 'Run under several policies, separated by commas, and show the results side by side; `all` is every policy, with each named plan'
            cand --seed 'The seed of all random numbers: equal seeds give equal runs'
            cand -t 'The measured virtual time, after the workload''s warm-up, in seconds or with a unit: ms, s, m, h'
            cand --time 'The measured virtual time, after the workload''s warm-up, in seconds or with a unit: ms, s, m, h'
            cand --spin 'How long an idle core searches before the core sleeps, in nanoseconds'
            cand --working-set 'Of a recording: the memory that each event of a color is assumed to touch, in bytes'
            cand --timeline 'Draw the events of each core over time'
            cand --trace 'Write the events of each core over time, for ui.perfetto.dev'
            cand --show-from 'The start of the picture and the trace, in seconds or with a unit: ms, s, m, h'
            cand --show-time 'The length of the picture and the trace, in seconds or with a unit: ms, s, m, h'
            cand --annotated 'Whether the handlers'' annotated costs are known: true or false'
            cand --batch 'Maximum number of events of a color in a row'
            cand --json 'Write JSON instead of text; an array for several policies'
            cand --waits-for-locks 'A thief waits for a taken lock'
            cand --leaves-half 'A thief leaves a color that holds half of the victim''s waiting events or more'
            cand --colors-return 'An empty color returns to the core for which it was made, as in runtimes that hash colors to cores'
            cand --instance-per-node 'One instance of the program per memory node: colors stay on the node that made them, under any policy'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;show'= {
            cand --timeline 'Draw the events of each core over time'
            cand --trace 'Write the events of each core over time, for ui.perfetto.dev'
            cand --show-from 'The start of the picture and the trace, counted from the first event, in seconds or with a unit: ms, s, m, h'
            cand --show-time 'The length of the picture and the trace, in seconds or with a unit: ms, s, m, h'
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
            cand --quick 'A shorter form of each experiment, as in the tests'
            cand --json 'Write JSON instead of text'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;swarm'= {
            cand --seeds 'The number of seeds'
            cand --first 'The first seed'
            cand --seed 'Run this seed alone, and print the drawn case'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;calibrate'= {
            cand -o 'The file for the description'
            cand --out 'The file for the description'
            cand --quick 'A short trial run; the numbers mean little'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;parity'= {
            cand -m 'The description of this machine from `vermeil sim calibrate`'
            cand --machine 'The description of this machine from `vermeil sim calibrate`'
            cand --rounds 'Real runs of each program under each policy'
            cand --quick 'A short trial run; the numbers mean nothing, and the exit code is 0'
            cand --json 'Write JSON instead of text'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;sim;help'= {
            cand run 'Simulate a workload on a machine'
            cand show 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them'
            cand machines 'List the shipped machines, or print the description of a machine as a template'
            cand workloads 'List the shipped workloads, or print the description of a workload as a template'
            cand reproduce 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted'
            cand swarm 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler'
            cand calibrate 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events'
            cand parity 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;sim;help;run'= {
        }
        &'vermeil;sim;help;show'= {
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
        &'vermeil;profile'= {
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand record 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time'
            cand report 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool'
            cand compare 'Compare recordings: which functions cost more for each unit of work, and the possible gain'
            cand import 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;profile;record'= {
            cand --pid 'The process to record, with its descendants'
            cand --control 'The control socket of a Vermeil server: record the processes of the server'
            cand --hz 'Samples per second and cpu'
            cand --duration 'How long to record, in seconds or with a unit: ms, s, m, h'
            cand --stacks 'How the stacks of processes are walked'
            cand --count 'The set of hardware events that is counted beside the samples'
            cand -o 'The file of the recording'
            cand --output 'The file of the recording'
            cand --waits 'Record also how long each thread waits, and where threads block'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;profile;report'= {
            cand --form 'The form of the report'
            cand -o 'The file to write; `-` is standard output'
            cand --output 'The file to write; `-` is standard output'
            cand --top 'How many functions or callers a table lists'
            cand --callers-of 'Show the callers of all functions with this text in the name'
            cand --owner 'With --callers-of: the module whose nearest frame is responsible'
            cand --outermost 'Divide all samples by the outermost function with one of these texts in its name'
            cand --window 'Only this part of the recording, from its start: 10s..25s, 10s.. or ..25s'
            cand --colors 'Divide all samples by the color whose event ran'
            cand --waits 'Report waits instead of cpu time: where threads block, and for how long'
            cand --inlined 'Count functions that the compiler inlined as functions of their own'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;profile;compare'= {
            cand --work 'The work done during each recording of the base and of the other side, such as requests'
            cand --cpus 'The cpus of the base and of the other side'
            cand --form 'The form of the comparison'
            cand -o 'The file to write; `-` is standard output'
            cand --output 'The file to write; `-` is standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;profile;import'= {
            cand -o 'The file of the recording'
            cand --output 'The file of the recording'
            cand --kallsyms 'A copy of /proc/kallsyms of the recorded machine'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'vermeil;profile;help'= {
            cand record 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time'
            cand report 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool'
            cand compare 'Compare recordings: which functions cost more for each unit of work, and the possible gain'
            cand import 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'vermeil;profile;help;record'= {
        }
        &'vermeil;profile;help;report'= {
        }
        &'vermeil;profile;help;compare'= {
        }
        &'vermeil;profile;help;import'= {
        }
        &'vermeil;profile;help;help'= {
        }
        &'vermeil;scale'= {
            cand --cores 'Numbers of cpus, the base first; one number alone is recorded and not compared'
            cand --nodes 'Numbers of memory nodes instead, the base first; a node has all its cpus'
            cand --reps 'Runs on each number of cpus or nodes'
            cand --load 'The load on a server, a command line; `load …` is vermeil''s own'
            cand --ready 'The address at which the server is ready once it accepts connections'
            cand --warm-up 'How long the load runs at least before a recording begins, in seconds or with a unit: ms, s, m, h'
            cand --settle-max 'How much longer the load may run until the work is steady, in seconds or with a unit: ms, s, m, h'
            cand --time 'How long a recording under load takes, in seconds or with a unit: ms, s, m, h'
            cand --work 'The work in the output: a key of its JSON, one key divided by another, or the word before a number'
            cand --hz 'Samples per second and cpu'
            cand --seed 'The seed of the order of runs'
            cand --folder 'The folder in which recordings are kept'
            cand --form 'The form of the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
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
            cand check 'Read a configuration and show its settings, or all its errors'
            cand status 'Show the state of a running server: cores and their load, connections, requests, caches, memory, logs, pools'
            cand reload 'Make a running server read its configuration again'
            cand load 'Load a server, and report whether the result can be trusted'
            cand topo 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use'
            cand steer 'Bring each flow''s packets, interrupts and consumer to a single core of the card''s memory node'
            cand sim 'Run the scheduler on machines that you do not have: virtual cores, caches, memory nodes and links, under a virtual clock'
            cand profile 'Find out where a process spends its time: sample stacks, read counters, report the functions that cost most'
            cand scale 'Run a program on several numbers of cpus or memory nodes and find out why it does not scale'
            cand instance 'Serve as an instance, for the supervisor at the other end of standard input'
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
            cand agent 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT'
            cand files 'Write the files that a workload requests'
            cand backend 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
            cand report 'Show results that were saved as JSON, several side by side'
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
            cand show 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them'
            cand machines 'List the shipped machines, or print the description of a machine as a template'
            cand workloads 'List the shipped workloads, or print the description of a workload as a template'
            cand reproduce 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted'
            cand swarm 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler'
            cand calibrate 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events'
            cand parity 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike'
        }
        &'vermeil;help;sim;run'= {
        }
        &'vermeil;help;sim;show'= {
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
        &'vermeil;help;profile'= {
            cand record 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time'
            cand report 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool'
            cand compare 'Compare recordings: which functions cost more for each unit of work, and the possible gain'
            cand import 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at'
        }
        &'vermeil;help;profile;record'= {
        }
        &'vermeil;help;profile;report'= {
        }
        &'vermeil;help;profile;compare'= {
        }
        &'vermeil;help;profile;import'= {
        }
        &'vermeil;help;scale'= {
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
