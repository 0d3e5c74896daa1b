# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_vermeil_global_optspecs
    string join \n h/help V/version
end

function __fish_vermeil_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_vermeil_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_vermeil_using_subcommand
    set -l cmd (__fish_vermeil_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c vermeil -n "__fish_vermeil_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_needs_command" -s V -l version -d 'Print version'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "serve" -d 'Serve a folder'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "check" -d 'Read a configuration and show its settings, or all its errors'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "status" -d 'Show the state of a running server: cores and their load, connections, requests, caches, memory, logs, pools'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "reload" -d 'Make a running server read its configuration again'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "load" -d 'Load a server, and report whether the result can be trusted'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "topo" -d 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "steer" -d 'Bring each flow\'s packets, interrupts and consumer to a single core of the card\'s memory node'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "sim" -d 'Run the scheduler on machines that you do not have: virtual cores, caches, memory nodes and links, under a virtual clock'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "profile" -d 'Find out where a process spends its time: sample stacks, read counters, report the functions that cost most'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "scale" -d 'Run a program on several numbers of cpus or memory nodes and find out why it does not scale'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "instance" -d 'Serve as an instance, for the supervisor at the other end of standard input'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "completions" -d 'Write the completions of a shell to standard output'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "man" -d 'Write a man page to standard output: `vermeil man serve | man -l -`'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l take-over -d 'Replace the running server without losing a connection: for an upgrade, or to change the cores' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -s l -l listen -d 'Where to listen; may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cores -d 'The cpus to run on: all, a number, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l instances -d 'The number of server processes (instances): per-node, one, or a number' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l balance -d 'How new connections are assigned to cores' -r -f -a "auto\t'The first of load-aware, local and hash that passes a self-test at start'
local\t'The core that handles the packets; neighbours relieve a core that is stuck'
load-aware\t'As local, unless that core has much more waiting work than others; needs CAP_BPF'
hash\t'The kernel\'s choice by addresses, for comparison'
fixed\t'One core for all connections of a client address, for comparison; needs CAP_BPF'
round-robin\t'The cores in turn, for comparison; needs CAP_BPF'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l policy -d 'Whether a core takes connections from a core with more work' -r -f -a "adaptive\t'If the other core has much more work, measured over 10 ms'
per-node\t'As adaptive, within a memory node'
none\t'Never; a connection stays on its core'
libasync\t'As Libasync-SMP, for comparison'
mely\t'As Mely, for comparison'
scatter\t'At every request, for tests'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l io -d 'The kernel interface for input and output' -r -f -a "auto\t'io_uring if every needed operation works, else epoll; the start message says which and why'
uring\t'io_uring, or refuse to start'
epoll\t'epoll, which works everywhere'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l busy-poll -d 'Whether busy cores poll their network card' -r -f -a "off\t'Never'
load\t'While the core is busy'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l log -d 'Where the access log goes: - (standard output), a file, syslog, journald, or off' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l control -d 'The control socket, for `vermeil status` and `vermeil reload`: a path, or off' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l agent -d 'The address that answers HAProxy\'s agent checks, written as for --listen' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l trace -d 'Write the last events of each core to this file when the server ends, for `vermeil sim`' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l user -d 'The user, or USER:GROUP, to switch to after binding ports and opening the log and the control socket' -r -f -a "(__fish_complete_users)"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l follow-symlinks -d 'The symbolic links below DIR that are followed' -r -f -a "within\t'Relative links that stay below DIR at every step'
all\t'All links; a user that can create a link in DIR can publish every file that the server may read'
none\t'None'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l type -d 'The media type of files with an extension, such as ts=text/x-typescript' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cache-bytes -d 'Memory for file contents, all cores together, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cache-entries -d 'Cached paths, all cores together' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cache-file-bytes -d 'The largest file whose content is kept in memory, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l tls-certificate -d 'Serve HTTPS with this certificate; may be given several times' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l tls-key -d 'The private key of the certificate, once for each certificate' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l listen-tls -d 'Where to listen for HTTPS, written as for --listen; may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php -d 'Let PHP answer files named *.php' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-children -d 'Children of the pool, and connections to the pool at the same time' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-queue -d 'Requests that may wait for PHP' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-requests -d 'Requests after which a child of the server\'s own pool is replaced' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-user -d 'The user of the server\'s own pool, if the superuser starts the server' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-send -d 'A folder from which PHP may have files sent; may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi -d 'Let programs answer: below a folder (/cgi-bin/), or all names with a suffix (.cgi); may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-user -d 'The user that programs run as, with the user\'s groups' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-max -d 'Programs that run at the same time' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-queue -d 'Requests that may wait for a program to end' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-timeout -d 'How long a program may run, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-memory -d 'Address space that each process of a program may have, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-send -d 'A folder from which programs may have files sent; may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l programs-queue-timeout -d 'How long a request may wait for a PHP child or a CGI turn, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l programs-timeout -d 'How long a program may be silent, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l programs-body-bytes -d 'The longest request body for a program, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-queue-timeout -d 'The former name of `--programs-queue-timeout`' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-timeout -d 'The former name of `--programs-timeout`' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-body-bytes -d 'The former name of `--programs-body-bytes`' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l connections-max -d 'Open connections of each core' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l client-connections-max -d 'Connections of a client address, on all cores of an instance' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l client-ipv6-prefix -d 'Leading bits of an IPv6 address that identify a client' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l wait-max -d 'For connections to be accepted, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l request-line-bytes -d 'The longest request line, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l header-count -d 'The most header fields of a request' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l header-bytes -d 'The longest request head, that is request line and header fields, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l body-bytes -d 'The longest request body, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l body-memory-bytes -d 'Memory for the bodies of requests to PHP and CGI programs, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l requests-per-connection -d 'Requests on a connection before the server closes the connection' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l ranges-max -d 'The most ranges of a range request' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l listing-names -d 'The most names on one page of a listing' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l header-timeout -d 'For a request head to arrive, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l body-timeout -d 'For a request body to arrive, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l keep-alive-timeout -d 'For the next request on a connection, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l write-timeout -d 'For a client to take any part of the answer, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l leave-timeout -d 'For balancers to react before the server stops, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l drain-timeout -d 'For open requests to finish when the server stops, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -s c -l config -d 'Read all settings from a configuration file, none from the command line' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l no-listing -d 'Answer 403 for a folder without index.html instead of listing it'
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l sendfile -d 'Send larger files by sendfile(2)'
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-nph -d 'Let programs whose names begin with nph- write the whole answer themselves'
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand check" -s c -l config -d 'The configuration file' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand check" -l explain -d 'Say which host, route and file a GET request for this URL gets, and why' -r -f
complete -c vermeil -n "__fish_vermeil_using_subcommand check" -l schema -d 'Print the JSON Schema of the configuration'
complete -c vermeil -n "__fish_vermeil_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand status" -l control -d 'The server\'s control socket' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand status" -l json -d 'Write JSON'
complete -c vermeil -n "__fish_vermeil_using_subcommand status" -l metrics -d 'Write metrics, in the OpenMetrics text format'
complete -c vermeil -n "__fish_vermeil_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand reload" -l control -d 'The server\'s control socket' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s c -l connections -d 'Users; without WORKLOAD, connections with one open request each' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l cores -d 'The cpus to run on: all, a number, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l io -d 'The kernel interface for input and output' -r -f -a "auto\t'io_uring if every needed operation works, else epoll'
uring\t'io_uring, or refuse to start'
epoll\t'epoll, which works everywhere'"
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l seed -d 'The seed of all random numbers; the same seed gives the same users and arrivals' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l pipeline -d 'Requests sent on a connection before the first answer arrives; with --http2 each on a stream of its own' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l ca -d 'Root certificates of https servers, in place of the system\'s: a PEM file' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s H -l header -d 'A header field of every request, such as "Accept: text/html"; may be repeated' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s X -l method -d 'The method' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l body -d 'The content of every request; @FILE reads it from a file' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l timeout -d 'For an answer to arrive, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s d -l duration -d 'The part of the run that counts, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s n -l requests -d 'The number of requests after which the run ends; with WORKLOAD, pages' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l think -d 'How long users think between an answer and the next request' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l rate -d 'Open loop: requests arrive at this rate per second, independently of answers; with WORKLOAD, sessions arrive' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l arrivals -d 'Open loop with the arrivals of a file: a time in seconds on each line' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l compress -d 'Time compression: think times are divided by this factor, and download and replay rates are multiplied by this factor' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l ramp-up -d 'The time over which users start, evenly spread, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l warm-up -d 'Before the part that counts, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l ramp-down -d 'After the part that counts, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l good -d 'A good page takes no longer, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l tolerable -d 'A tolerable page takes no longer, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l good-share -d 'Share of pages that must be good' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l tolerable-share -d 'Share of pages that must be tolerable' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l failed-share -d 'Share of failed pages that is too high' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l good-rate -d 'Bytes per second of a good download' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l tolerable-rate -d 'Bytes per second of a tolerable download' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l users-from -d 'Users of the first run' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l users-max -d 'Most users of a run' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l precision -d 'The largest difference between a number of users that holds the quality and a number that does not' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l confirm -d 'Runs that confirm the result' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l address -d 'A set of addresses that replaces the address of the URL: [NAME=]ADDR:PORT[,ADDR:PORT…]; may be repeated' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l choice -d 'How a set is chosen for a connection' -r -f -a "fixed\t'Each user always uses the same set'
round-robin\t'Connections use the sets in turn'
least-pending\t'The set with the fewest open requests of this injector'"
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l agents -d 'The agents that make the load, each a part: NAME:PORT, separated by commas' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l agents-wait -d 'How long to wait for agents to start, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l json -d 'Write the whole result as JSON; - is standard output, in place of the summary' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l html -d 'Write a page with plots, in a single file; - is standard output' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l csv -d 'Write the course of the run, an interval per line; - is standard output' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l openmetrics -d 'Write the result in the OpenMetrics text format; - is standard output' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l fail-if -d 'End with exit code 6 if the run passes this threshold, for example \'p99>200ms\' or \'failed>1%\'; may be repeated' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l no-keepalive -d 'A new connection for each request'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l http2 -d 'Use HTTP/2: negotiated in the handshake with https, from the first byte with http'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l insecure -d 'Accept every certificate of an https server'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l resume -d 'Resume TLS sessions of earlier connections, if the server allows that'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l find-max -d 'Search the highest number of users that holds the quality of service, in runs with more and fewer users'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s q -l quiet -d 'No live line'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "agent" -d 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "files" -d 'Write the files that a workload requests'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "backend" -d 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "report" -d 'Show results that were saved as JSON, several side by side'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -s l -l listen -d 'The address for the coordinator; port 0 takes any free port' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -l cores -d 'The cpus to run on: all, a number, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -l io -d 'The kernel interface for input and output' -r -f -a "auto\t'io_uring if every needed operation works, else epoll'
uring\t'io_uring, or refuse to start'
epoll\t'epoll, which works everywhere'"
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -l once -d 'End when the first coordinator is done or lost, for example in a cluster job'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -l scale -d 'The number of users (support), or of expected operations a second (specweb96)' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -l max-bytes -d 'The largest total size of the directories, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -l backend -d 'The address of the back end of the PHP pages; the environment variable VERMEIL_LOAD_BACKEND overrides the address' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -l static -d 'Pages as plain files instead of PHP'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -s l -l listen -d 'The address to listen on; port 0 takes any free port' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -l cores -d 'The cpus to run on: all, a number, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -l io -d 'The kernel interface for input and output' -r -f -a "auto\t'io_uring if every needed operation works, else epoll'
uring\t'io_uring, or refuse to start'
epoll\t'epoll, which works everywhere'"
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -l delay -d 'The delay of every answer: 2ms, exp:2ms, uniform:1ms:3ms, lognormal:2ms:1' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from report" -l html -d 'Write a page with plots of all records, in a single file; - is standard output' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "agent" -d 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "files" -d 'Write the files that a workload requests'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "backend" -d 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "report" -d 'Show results that were saved as JSON, several side by side'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l from -d 'Draw the machine of an hwloc XML export instead; - reads standard input' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -s s -l synthetic -d 'Draw the machine that a text describes instead' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l cores -d 'Also print the cpus that `vermeil serve --cores` would use, in order: all, a number, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l instances -d 'The number of processes for these cores, as for `vermeil serve --instances`: per-node, one, or a number' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l plan -d 'Write the instances of a server as JSON instead of a drawing'
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l json -d 'Write JSON instead of a drawing'
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l cores -d 'With plan, apply, xdp and compare: the cpus of the server\'s cores, as for `vermeil serve --cores`: all, a number, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l nic -d 'With plan, apply, xdp and compare: a card to steer; may be repeated, but not with xdp and compare' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l queues -d 'With plan, apply and compare: whether the number of a card\'s queues may change' -r -f -a "fit\t'A queue for each core, up to the number that the card supports; the link goes down for a moment'
keep\t'Keep the present number'"
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l confirm -d 'With apply: undo all changes unless `vermeil steer confirm` follows within this time, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l port -d 'With verify: count only reads from sockets of this local port' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l time -d 'With verify and compare: how long to measure, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l xdp -d 'With xdp and compare: where the program runs' -r -f -a "auto\t'In the driver if supported, and if packets arrive undamaged (not veth), else in the stack'
native\t'In the driver, or refuse to start'
generic\t'In the stack, before all other processing; works with every driver'"
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l state -d 'The folder with the saved old values, until an undo' -r -f -a "(__fish_complete_directories)"
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l root -d 'With plan: a recorded machine instead of this one' -r -f -a "(__fish_complete_directories)"
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l json -d 'Write JSON instead of text'
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "run" -d 'Simulate a workload on a machine'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "show" -d 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "machines" -d 'List the shipped machines, or print the description of a machine as a template'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "workloads" -d 'List the shipped workloads, or print the description of a workload as a template'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "reproduce" -d 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "swarm" -d 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "calibrate" -d 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime\'s events'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "parity" -d 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run show machines workloads reproduce swarm calibrate parity help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -s m -l machine -d 'The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml, a text in hwloc\'s synthetic notation, or `here` for a measurement of this machine' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l costs -d 'The machine with the latencies, bandwidths and costs for an export or a text: a name, or FILE.toml' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -s p -l policy -d 'The policy that moves colors: none, libasync, mely, placed:PLAN, trial, ncopy, per-node or adaptive' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l compare -d 'Run under several policies, separated by commas, and show the results side by side; `all` is every policy, with each named plan' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l seed -d 'The seed of all random numbers: equal seeds give equal runs' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -s t -l time -d 'The measured virtual time, after the workload\'s warm-up, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l spin -d 'How long an idle core searches before the core sleeps, in nanoseconds' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l working-set -d 'Of a recording: the memory that each event of a color is assumed to touch, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l timeline -d 'Draw the events of each core over time' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l trace -d 'Write the events of each core over time, for ui.perfetto.dev' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l show-from -d 'The start of the picture and the trace, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l show-time -d 'The length of the picture and the trace, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l annotated -d 'Whether the handlers\' annotated costs are known: true or false' -r -f -a "true\t''
false\t''"
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l batch -d 'Maximum number of events of a color in a row' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l json -d 'Write JSON instead of text; an array for several policies'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l waits-for-locks -d 'A thief waits for a taken lock'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l leaves-half -d 'A thief leaves a color that holds half of the victim\'s waiting events or more'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l colors-return -d 'An empty color returns to the core for which it was made, as in runtimes that hash colors to cores'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l instance-per-node -d 'One instance of the program per memory node: colors stay on the node that made them, under any policy'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from show" -l timeline -d 'Draw the events of each core over time' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from show" -l trace -d 'Write the events of each core over time, for ui.perfetto.dev' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from show" -l show-from -d 'The start of the picture and the trace, counted from the first event, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from show" -l show-time -d 'The length of the picture and the trace, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from machines" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from workloads" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from reproduce" -l quick -d 'A shorter form of each experiment, as in the tests'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from reproduce" -l json -d 'Write JSON instead of text'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from reproduce" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from swarm" -l seeds -d 'The number of seeds' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from swarm" -l first -d 'The first seed' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from swarm" -l seed -d 'Run this seed alone, and print the drawn case' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from swarm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from calibrate" -s o -l out -d 'The file for the description' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from calibrate" -l quick -d 'A short trial run; the numbers mean little'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from calibrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -s m -l machine -d 'The description of this machine from `vermeil sim calibrate`' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -l rounds -d 'Real runs of each program under each policy' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -l quick -d 'A short trial run; the numbers mean nothing, and the exit code is 0'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -l json -d 'Write JSON instead of text'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "run" -d 'Simulate a workload on a machine'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "machines" -d 'List the shipped machines, or print the description of a machine as a template'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "workloads" -d 'List the shipped workloads, or print the description of a workload as a template'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "reproduce" -d 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "swarm" -d 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "calibrate" -d 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime\'s events'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "parity" -d 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and not __fish_seen_subcommand_from record report compare import help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and not __fish_seen_subcommand_from record report compare import help" -f -a "record" -d 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and not __fish_seen_subcommand_from record report compare import help" -f -a "report" -d 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and not __fish_seen_subcommand_from record report compare import help" -f -a "compare" -d 'Compare recordings: which functions cost more for each unit of work, and the possible gain'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and not __fish_seen_subcommand_from record report compare import help" -f -a "import" -d 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and not __fish_seen_subcommand_from record report compare import help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -l pid -d 'The process to record, with its descendants' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -l control -d 'The control socket of a Vermeil server: record the processes of the server' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -l hz -d 'Samples per second and cpu' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -l duration -d 'How long to record, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -l stacks -d 'How the stacks of processes are walked' -r -f -a "tables\t'With the unwind tables of files, from a copy of at most 16 KiB of the stack'
frames\t'Along frame pointers; cheaper, but code without frame pointers loses its callers'"
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -l count -d 'The set of hardware events that is counted beside the samples' -r -f -a "ipc\t'Cycles and instructions'
cache\t'Accesses and misses of the last cache'
tlb\t'Misses of the translation caches'
remote\t'Accesses to memory of other nodes'"
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -s o -l output -d 'The file of the recording' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -l waits -d 'Record also how long each thread waits, and where threads block'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l form -d 'The form of the report' -r -f -a "text\t'Tables for people'
json\t'All functions and counters for programs'
html\t'One HTML file with a flame graph, without network'
folded\t'Folded stacks, for flame graph tools'
pprof\t'A compressed protocol buffer, for `pprof`'
firefox\t'JSON for profiler.firefox.com'
csv\t'Counters over time, a line for each moment'"
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -s o -l output -d 'The file to write; `-` is standard output' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l top -d 'How many functions or callers a table lists' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l callers-of -d 'Show the callers of all functions with this text in the name' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l owner -d 'With --callers-of: the module whose nearest frame is responsible' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l outermost -d 'Divide all samples by the outermost function with one of these texts in its name' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l window -d 'Only this part of the recording, from its start: 10s..25s, 10s.. or ..25s' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l colors -d 'Divide all samples by the color whose event ran'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l waits -d 'Report waits instead of cpu time: where threads block, and for how long'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -l inlined -d 'Count functions that the compiler inlined as functions of their own'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from compare" -l work -d 'The work done during each recording of the base and of the other side, such as requests' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from compare" -l cpus -d 'The cpus of the base and of the other side' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from compare" -l form -d 'The form of the comparison' -r -f -a "text\t'Text for people'
json\t'All functions and ratios for programs'
html\t'One HTML file with a flame graph of the excess, without network'"
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from compare" -s o -l output -d 'The file to write; `-` is standard output' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from import" -s o -l output -d 'The file of the recording' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from import" -l kallsyms -d 'A copy of /proc/kallsyms of the recorded machine' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from help" -f -a "record" -d 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from help" -f -a "report" -d 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from help" -f -a "compare" -d 'Compare recordings: which functions cost more for each unit of work, and the possible gain'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from help" -f -a "import" -d 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at'
complete -c vermeil -n "__fish_vermeil_using_subcommand profile; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l cores -d 'Numbers of cpus, the base first; one number alone is recorded and not compared' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l nodes -d 'Numbers of memory nodes instead, the base first; a node has all its cpus' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l reps -d 'Runs on each number of cpus or nodes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l load -d 'The load on a server, a command line; `load …` is vermeil\'s own' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l ready -d 'The address at which the server is ready once it accepts connections' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l warm-up -d 'How long the load runs at least before a recording begins, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l settle-max -d 'How much longer the load may run until the work is steady, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l time -d 'How long a recording under load takes, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l work -d 'The work in the output: a key of its JSON, one key divided by another, or the word before a number' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l hz -d 'Samples per second and cpu' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l seed -d 'The seed of the order of runs' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l folder -d 'The folder in which recordings are kept' -r -f -a "(__fish_complete_directories)"
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -l form -d 'The form of the result' -r -f -a "text\t'Text for people'
json\t'All runs and comparisons for programs'
html\t'One HTML file, without network'"
complete -c vermeil -n "__fish_vermeil_using_subcommand scale" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand instance" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand completions" -s h -l help -d 'Print help'
complete -c vermeil -n "__fish_vermeil_using_subcommand man" -s h -l help -d 'Print help'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "serve" -d 'Serve a folder'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "check" -d 'Read a configuration and show its settings, or all its errors'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "status" -d 'Show the state of a running server: cores and their load, connections, requests, caches, memory, logs, pools'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "reload" -d 'Make a running server read its configuration again'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "load" -d 'Load a server, and report whether the result can be trusted'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "topo" -d 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "steer" -d 'Bring each flow\'s packets, interrupts and consumer to a single core of the card\'s memory node'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "sim" -d 'Run the scheduler on machines that you do not have: virtual cores, caches, memory nodes and links, under a virtual clock'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "profile" -d 'Find out where a process spends its time: sample stacks, read counters, report the functions that cost most'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "scale" -d 'Run a program on several numbers of cpus or memory nodes and find out why it does not scale'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "instance" -d 'Serve as an instance, for the supervisor at the other end of standard input'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "completions" -d 'Write the completions of a shell to standard output'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "man" -d 'Write a man page to standard output: `vermeil man serve | man -l -`'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim profile scale instance completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from load" -f -a "agent" -d 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from load" -f -a "files" -d 'Write the files that a workload requests'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from load" -f -a "backend" -d 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from load" -f -a "report" -d 'Show results that were saved as JSON, several side by side'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "run" -d 'Simulate a workload on a machine'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "show" -d 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "machines" -d 'List the shipped machines, or print the description of a machine as a template'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "workloads" -d 'List the shipped workloads, or print the description of a workload as a template'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "reproduce" -d 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "swarm" -d 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "calibrate" -d 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime\'s events'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "parity" -d 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from profile" -f -a "record" -d 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from profile" -f -a "report" -d 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from profile" -f -a "compare" -d 'Compare recordings: which functions cost more for each unit of work, and the possible gain'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from profile" -f -a "import" -d 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at'
