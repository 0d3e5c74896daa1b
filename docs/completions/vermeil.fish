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
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "check" -d 'Read a configuration and say what it would do, or all that is wrong with it'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "status" -d 'Say what a server that runs is doing: cores and their load, connections, requests, caches, memory, logs, pools'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "reload" -d 'Have a server that runs read its configuration again'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "load" -d 'Load a server, and say whether the answer can be trusted'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "topo" -d 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "steer" -d 'Bring each flow\'s packets, its interrupts and its consumer to one core of the card\'s memory node'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "sim" -d 'Run the scheduler on machines you do not have: virtual cores, caches, memory nodes and links, under a virtual clock'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "instance" -d 'Serve as one of several instances, for the supervisor that stands behind standard input'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "completions" -d 'Write the completions of a shell to standard output'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "man" -d 'Write a man page to standard output: `vermeil man serve | man -l -`'
complete -c vermeil -n "__fish_vermeil_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l take-over -d 'Take over from the server that runs, without losing a connection: to upgrade it, or to change its cores' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -s l -l listen -d 'Where to listen; may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cores -d 'Which cpus to run on: all, a number of them, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l instances -d 'Into how many processes to divide the server: per-node, one, or a number' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l balance -d 'How new connections find their cores' -r -f -a "auto\t'The first of load-aware, local and hash that a self-test at start shows to work here'
local\t'The core that handles the packets; neighbours relieve a core that is stuck'
load-aware\t'As local, unless much more work waits there than elsewhere; takes CAP_BPF'
hash\t'The kernel\'s choice by addresses, for comparison'
fixed\t'One core for all connections of an address, for comparison; takes CAP_BPF'
round-robin\t'One core after the other, for comparison; takes CAP_BPF'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l io -d 'How the kernel is asked for input and output' -r -f -a "auto\t'io_uring where all of it that is needed works, else epoll; the start says which and why'
uring\t'io_uring, or refuse to start'
epoll\t'epoll, which works everywhere'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l busy-poll -d 'Whether cores poll their network card while they have much to do' -r -f -a "off\t'Never'
load\t'While they have much to do'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l log -d 'Where the access log goes: - (standard output), a file, or off' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l control -d 'Where the control socket is, by which status and reload reach the server: a path, or off' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l agent -d 'Where HAProxy\'s agent checks are answered, as for --listen' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l trace -d 'Leave a recording of each core\'s last events in this file when the server ends, for `vermeil sim`' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l user -d 'The user, or USER:GROUP, to become once ports are bound, and the log and the control socket are opened' -r -f -a "(__fish_complete_users)"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l follow-symlinks -d 'Which symbolic links below DIR are followed' -r -f -a "within\t'Relative ones that stay below DIR at every step'
all\t'All of them, wherever they lead: whoever can make a link in DIR can publish any file the server may read'
none\t'None'"
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l type -d 'The media type of files with an extension, such as ts=text/x-typescript' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cache-bytes -d 'Memory for file contents, all cores together, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cache-entries -d 'Paths remembered, all cores together' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cache-file-bytes -d 'The largest file whose content is kept in memory, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php -d 'Have files named *.php answered by PHP' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-children -d 'Children of the pool, and connections open to it at once' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-queue -d 'Requests that may wait for PHP' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-queue-timeout -d 'How long a request may wait for PHP to be free, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-timeout -d 'How long PHP may be silent, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-requests -d 'Requests after which a child of our own pool is replaced' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-body-bytes -d 'The longest request body for PHP, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-user -d 'The user that our own pool runs as, when the server is started by the superuser' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l php-send -d 'A folder out of which PHP may have files sent; may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi -d 'Have programs answer: below a folder (/cgi-bin/), or wherever a name ends so (.cgi); may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-user -d 'The user that programs run as, with its groups' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-max -d 'Programs that run at once' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-queue -d 'Requests that may wait for a program to end' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-timeout -d 'How long a program may run, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-memory -d 'Address space that each process of a program may have, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-send -d 'A folder out of which programs may have files sent; may be given several times' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l connections-max -d 'Connections held at once, on each core' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l client-connections-max -d 'Connections of one client address, on all cores of an instance' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l client-ipv6-prefix -d 'Leading bits of an IPv6 address that tell clients apart' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l wait-max -d 'For connections to be accepted, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l request-line-bytes -d 'The longest request line, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l header-count -d 'The most header fields of a request' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l header-bytes -d 'The longest request head, that is request line and header fields, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l body-bytes -d 'The longest request body, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l body-memory-bytes -d 'Memory for the bodies of requests to PHP and CGI programs, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l requests-per-connection -d 'Requests answered on one connection before it is closed' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l ranges-max -d 'The most ranges of a range request' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l listing-names -d 'The most names on one page of a listing' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l header-timeout -d 'For a request head to arrive, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l body-timeout -d 'For a request body to arrive, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l keep-alive-timeout -d 'For the next request on a connection, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l write-timeout -d 'For a client to take any part of the answer, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l leave-timeout -d 'For balancers to notice that the server is about to stop, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l drain-timeout -d 'For open requests to finish when the server stops, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -s c -l config -d 'Take everything from a configuration file, and nothing from the command line' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l no-listing -d 'Answer 403 for a folder without index.html instead of listing it'
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l sendfile -d 'Send larger files by sendfile(2)'
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -l cgi-nph -d 'Let programs whose names begin with nph- write the whole answer themselves'
complete -c vermeil -n "__fish_vermeil_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand check" -s c -l config -d 'The configuration file' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand status" -l control -d 'The server\'s control socket' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand status" -l json -d 'Write JSON'
complete -c vermeil -n "__fish_vermeil_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand reload" -l control -d 'The server\'s control socket' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s c -l connections -d 'Users; without WORKLOAD connections, each with one request under way' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l cores -d 'Which cpus to run on: all, a number of them, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l io -d 'How the kernel is asked for input and output' -r -f -a "auto\t'io_uring where all of it that is needed works, else epoll'
uring\t'io_uring, or refuse to start'
epoll\t'epoll, which works everywhere'"
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l seed -d 'What random numbers are drawn from; the same seed gives the same users and arrivals' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l pipeline -d 'Requests sent on a connection before the first answer is waited for; with --http2 on a stream each' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l ca -d 'Root certificates of https servers, in place of the system\'s: a PEM file' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s H -l header -d 'A header field of every request, such as "Accept: text/html"; may be repeated' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s X -l method -d 'The method' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l body -d 'The content of every request; @FILE reads it from a file' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l timeout -d 'For an answer to come, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s d -l duration -d 'The part of the run that counts, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s n -l requests -d 'End after so many requests; with WORKLOAD, pages' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l think -d 'How long users think between an answer and the next request' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l rate -d 'Open loop: requests arrive by themselves, so many a second; with WORKLOAD, sessions do' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l arrivals -d 'Open loop with the arrivals of a file: a time in seconds on each line' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l compress -d 'Run so many times as fast: users think less and take bytes faster, logs are replayed faster' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l ramp-up -d 'For users to begin, evenly, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l warm-up -d 'Before the part that counts, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l ramp-down -d 'After the part that counts, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l good -d 'A good page takes no longer, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l tolerable -d 'A tolerable page takes no longer, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l good-share -d 'Share of pages that must be good' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l tolerable-share -d 'Share of pages that must be tolerable' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l failed-share -d 'Share of pages that is too much to fail' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l good-rate -d 'Bytes per second of a good download' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l tolerable-rate -d 'Bytes per second of a tolerable download' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l users-from -d 'Users that are tried first' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l users-max -d 'Most users that are tried' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l precision -d 'How near to each other users that hold it and users that do not must be' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l confirm -d 'Runs by which the result is confirmed' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l address -d 'A set of addresses to connect to instead of the URL\'s: [NAME=]ADDR:PORT[,ADDR:PORT…]; may be repeated' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l choice -d 'How a connection finds its set' -r -f -a "fixed\t'A user keeps to one set'
round-robin\t'Connections take turns'
least-pending\t'The set with the fewest requests of this injector under way'"
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l agents -d 'Have these agents make the load, each its part: NAME:PORT, separated by commas' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l agents-wait -d 'For agents that are not there yet, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l json -d 'Write the whole result as JSON; - is standard output, in place of the summary' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l html -d 'Write a page with plots, in one file; or to standard output: -' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l csv -d 'Write the course of the run, an interval per line; or to standard output: -' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l openmetrics -d 'Write the result in the OpenMetrics text format; or to standard output: -' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l fail-if -d 'End with exit code 6 where the run passes this threshold, such as \'p99>200ms\' or \'failed>1%\'; may be repeated' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l no-keepalive -d 'A new connection for each request'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l http2 -d 'Speak HTTP/2: agreed on in the handshake with https, at once with http'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l insecure -d 'Believe every certificate of an https server'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -l find-max -d 'Search the most users that hold the quality of service: run after run, with more and with fewer'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s q -l quiet -d 'No live line'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "agent" -d 'Make a part of the load that `vermeil load --agents` divides, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "files" -d 'Write the files that a workload asks for'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "backend" -d 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "report" -d 'Show results that were kept as JSON, several side by side'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and not __fish_seen_subcommand_from agent files backend report help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -s l -l listen -d 'Where to listen for the coordinator; port 0 takes any free port' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -l cores -d 'Which cpus to run on: all, a number of them, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -l io -d 'How the kernel is asked for input and output' -r -f -a "auto\t'io_uring where all of it that is needed works, else epoll'
uring\t'io_uring, or refuse to start'
epoll\t'epoll, which works everywhere'"
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -l once -d 'End when the first coordinator is done or lost, as a job of a cluster has to'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from agent" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -l scale -d 'For so many users (support), or expected operations a second (specweb96)' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -l max-bytes -d 'The most that is written in directories, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -l backend -d 'Where the PHP pages find their back end; the environment variable VERMEIL_LOAD_BACKEND overrides it' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -l static -d 'Pages as plain files instead of PHP'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from files" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -s l -l listen -d 'Where to listen; port 0 takes any free port' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -l cores -d 'Which cpus to run on: all, a number of them, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -l io -d 'How the kernel is asked for input and output' -r -f -a "auto\t'io_uring where all of it that is needed works, else epoll'
uring\t'io_uring, or refuse to start'
epoll\t'epoll, which works everywhere'"
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -l delay -d 'How long every answer takes: 2ms, exp:2ms, uniform:1ms:3ms, lognormal:2ms:1' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from backend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from report" -l html -d 'Write a page with plots of all of them, in one file' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "agent" -d 'Make a part of the load that `vermeil load --agents` divides, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "files" -d 'Write the files that a workload asks for'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "backend" -d 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "report" -d 'Show results that were kept as JSON, several side by side'
complete -c vermeil -n "__fish_vermeil_using_subcommand load; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l from -d 'Draw the machine of an hwloc XML export instead; - reads standard input' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -s s -l synthetic -d 'Draw the machine that a text describes instead' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l cores -d 'Also say which cpus `vermeil serve --cores` would use, in the order it takes them: all, a number, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l instances -d 'Into how many processes `vermeil serve --instances` would divide these cores: per-node, one, or a number' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l plan -d 'Write as JSON which instances a server would have, instead of a drawing'
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -l json -d 'Write JSON instead of a drawing'
complete -c vermeil -n "__fish_vermeil_using_subcommand topo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l cores -d 'The cpus of the server\'s cores, as for `vermeil serve --cores`: all, a number, or a list' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l nic -d 'A card to steer; may be repeated, but not with xdp and compare' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l queues -d 'Whether the number of a card\'s queues may change' -r -f -a "fit\t'One for each core, as far as the card has them; the link goes down for a moment'
keep\t'As many as there are'"
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l confirm -d 'With apply: take everything back unless `vermeil steer confirm` is said within this, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l port -d 'With verify: count only reads from sockets of this local port' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l time -d 'With verify and compare: how long to measure, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l xdp -d 'With xdp and compare: where the program runs' -r -f -a "auto\t'In the driver where it can and its packets are whole (not veth), else in the stack'
native\t'In the driver, or not at all'
generic\t'In the stack, before anything else; with every driver'"
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l state -d 'The folder that holds what was before, until it is undone' -r -f -a "(__fish_complete_directories)"
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l root -d 'With plan: a recorded machine instead of this one' -r -f -a "(__fish_complete_directories)"
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -l json -d 'Write JSON instead of text'
complete -c vermeil -n "__fish_vermeil_using_subcommand steer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -f -a "run" -d 'Simulate a workload on a machine'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -f -a "machines" -d 'List the machines that ship, or print the description of one, to start your own from'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -f -a "workloads" -d 'List the workloads that ship, or print the description of one, to start your own from'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -f -a "reproduce" -d 'Run published experiments again: the documents\' figures, ours, the difference, what was fitted and what is predicted'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -f -a "swarm" -d 'Draw machines, workloads, policies and faults from seeds, run them, and check that no rule of the scheduler is broken'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -f -a "calibrate" -d 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime\'s events'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -f -a "parity" -d 'Run the same programs under the same policies for real and simulated, and say whether both rank the policies alike'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and not __fish_seen_subcommand_from run machines workloads reproduce swarm calibrate parity help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -s m -l machine -d 'The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml, a text in hwloc\'s synthetic notation, or `here`, which is measured first' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l costs -d 'Whose latencies, bandwidths and costs a machine from an export or a text has: a name, or FILE.toml' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -s p -l policy -d 'What moves colors: none, libasync, mely, placed:PLAN, trial, ncopy or adaptive' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l compare -d 'Run under several policies, separated by commas, and show them side by side; `all` is none, libasync, mely, ncopy, trial and adaptive' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l seed -d 'What all chance comes from: equal seeds are equal runs' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -s t -l time -d 'How much virtual time is counted, after the workload\'s warm-up, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l spin -d 'How long an idle core goes on looking before it sleeps, in nanoseconds' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l working-set -d 'Of a recording: what each color is taken to touch in every event, in bytes' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l timeline -d 'Draw what ran where, as a picture' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l trace -d 'Write what ran where, to be opened with ui.perfetto.dev' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l show-from -d 'From when the picture and the trace show the run, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l show-time -d 'How much of the run the picture and the trace show, in seconds or with a unit: ms, s, m, h' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -l json -d 'Write JSON instead of text; of several policies an array'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from machines" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from workloads" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from reproduce" -l quick -d 'Less of each, as the tests run it'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from reproduce" -l json -d 'Write JSON instead of text'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from reproduce" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from swarm" -l seeds -d 'How many seeds' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from swarm" -l first -d 'The first of them' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from swarm" -l seed -d 'Run this one alone, and say what it draws' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from swarm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from calibrate" -s o -l out -d 'Where the description goes' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from calibrate" -l quick -d 'Take a moment only, to see that it works: the numbers mean little'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from calibrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -s m -l machine -d 'This machine as `vermeil sim calibrate` described it' -r -F
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -l rounds -d 'Real runs of each program under each policy' -r
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -l quick -d 'Take a moment only, to see that it works: the numbers mean nothing, and it ends with 0'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -l json -d 'Write JSON instead of text'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from parity" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "run" -d 'Simulate a workload on a machine'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "machines" -d 'List the machines that ship, or print the description of one, to start your own from'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "workloads" -d 'List the workloads that ship, or print the description of one, to start your own from'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "reproduce" -d 'Run published experiments again: the documents\' figures, ours, the difference, what was fitted and what is predicted'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "swarm" -d 'Draw machines, workloads, policies and faults from seeds, run them, and check that no rule of the scheduler is broken'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "calibrate" -d 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime\'s events'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "parity" -d 'Run the same programs under the same policies for real and simulated, and say whether both rank the policies alike'
complete -c vermeil -n "__fish_vermeil_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand instance" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c vermeil -n "__fish_vermeil_using_subcommand completions" -s h -l help -d 'Print help'
complete -c vermeil -n "__fish_vermeil_using_subcommand man" -s h -l help -d 'Print help'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "serve" -d 'Serve a folder'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "check" -d 'Read a configuration and say what it would do, or all that is wrong with it'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "status" -d 'Say what a server that runs is doing: cores and their load, connections, requests, caches, memory, logs, pools'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "reload" -d 'Have a server that runs read its configuration again'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "load" -d 'Load a server, and say whether the answer can be trusted'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "topo" -d 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "steer" -d 'Bring each flow\'s packets, its interrupts and its consumer to one core of the card\'s memory node'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "sim" -d 'Run the scheduler on machines you do not have: virtual cores, caches, memory nodes and links, under a virtual clock'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "instance" -d 'Serve as one of several instances, for the supervisor that stands behind standard input'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "completions" -d 'Write the completions of a shell to standard output'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "man" -d 'Write a man page to standard output: `vermeil man serve | man -l -`'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and not __fish_seen_subcommand_from serve check status reload load topo steer sim instance completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from load" -f -a "agent" -d 'Make a part of the load that `vermeil load --agents` divides, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from load" -f -a "files" -d 'Write the files that a workload asks for'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from load" -f -a "backend" -d 'Be the back end of dynamic pages, until SIGTERM or SIGINT'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from load" -f -a "report" -d 'Show results that were kept as JSON, several side by side'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "run" -d 'Simulate a workload on a machine'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "machines" -d 'List the machines that ship, or print the description of one, to start your own from'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "workloads" -d 'List the workloads that ship, or print the description of one, to start your own from'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "reproduce" -d 'Run published experiments again: the documents\' figures, ours, the difference, what was fitted and what is predicted'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "swarm" -d 'Draw machines, workloads, policies and faults from seeds, run them, and check that no rule of the scheduler is broken'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "calibrate" -d 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime\'s events'
complete -c vermeil -n "__fish_vermeil_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "parity" -d 'Run the same programs under the same policies for real and simulated, and say whether both rank the policies alike'
