
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'vermeil' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'vermeil'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'vermeil' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a folder')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Read a configuration and show its settings, or all its errors')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show the state of a running server: cores and their load, connections, requests, caches, memory, logs, pools')
            [CompletionResult]::new('reload', 'reload', [CompletionResultType]::ParameterValue, 'Make a running server read its configuration again')
            [CompletionResult]::new('load', 'load', [CompletionResultType]::ParameterValue, 'Load a server, and report whether the result can be trusted')
            [CompletionResult]::new('topo', 'topo', [CompletionResultType]::ParameterValue, 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use')
            [CompletionResult]::new('steer', 'steer', [CompletionResultType]::ParameterValue, 'Bring each flow''s packets, interrupts and consumer to a single core of the card''s memory node')
            [CompletionResult]::new('sim', 'sim', [CompletionResultType]::ParameterValue, 'Run the scheduler on machines that you do not have: virtual cores, caches, memory nodes and links, under a virtual clock')
            [CompletionResult]::new('profile', 'profile', [CompletionResultType]::ParameterValue, 'Find out where a process spends its time: sample stacks, read counters, report the functions that cost most')
            [CompletionResult]::new('scale', 'scale', [CompletionResultType]::ParameterValue, 'Run a program on several numbers of cpus or memory nodes and find out why it does not scale')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'Serve as an instance, for the supervisor at the other end of standard input')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Write the completions of a shell to standard output')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write a man page to standard output: `vermeil man serve | man -l -`')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'vermeil;serve' {
            [CompletionResult]::new('--take-over', '--take-over', [CompletionResultType]::ParameterName, 'Replace the running server without losing a connection: for an upgrade, or to change the cores')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Where to listen; may be given several times')
            [CompletionResult]::new('--listen', '--listen', [CompletionResultType]::ParameterName, 'Where to listen; may be given several times')
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'The cpus to run on: all, a number, or a list')
            [CompletionResult]::new('--instances', '--instances', [CompletionResultType]::ParameterName, 'The number of server processes (instances): per-node, one, or a number')
            [CompletionResult]::new('--balance', '--balance', [CompletionResultType]::ParameterName, 'How new connections are assigned to cores')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Whether a core takes connections from a core with more work')
            [CompletionResult]::new('--io', '--io', [CompletionResultType]::ParameterName, 'The kernel interface for input and output')
            [CompletionResult]::new('--busy-poll', '--busy-poll', [CompletionResultType]::ParameterName, 'Whether busy cores poll their network card')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Where the access log goes: - (standard output), a file, syslog, journald, or off')
            [CompletionResult]::new('--control', '--control', [CompletionResultType]::ParameterName, 'The control socket, for `vermeil status` and `vermeil reload`: a path, or off')
            [CompletionResult]::new('--agent', '--agent', [CompletionResultType]::ParameterName, 'The address that answers HAProxy''s agent checks, written as for --listen')
            [CompletionResult]::new('--trace', '--trace', [CompletionResultType]::ParameterName, 'Write the last events of each core to this file when the server ends, for `vermeil sim`')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The user, or USER:GROUP, to switch to after binding ports and opening the log and the control socket')
            [CompletionResult]::new('--follow-symlinks', '--follow-symlinks', [CompletionResultType]::ParameterName, 'The symbolic links below DIR that are followed')
            [CompletionResult]::new('--type', '--type', [CompletionResultType]::ParameterName, 'The media type of files with an extension, such as ts=text/x-typescript')
            [CompletionResult]::new('--cache-bytes', '--cache-bytes', [CompletionResultType]::ParameterName, 'Memory for file contents, all cores together, in bytes')
            [CompletionResult]::new('--cache-entries', '--cache-entries', [CompletionResultType]::ParameterName, 'Cached paths, all cores together')
            [CompletionResult]::new('--cache-file-bytes', '--cache-file-bytes', [CompletionResultType]::ParameterName, 'The largest file whose content is kept in memory, in bytes')
            [CompletionResult]::new('--tls-certificate', '--tls-certificate', [CompletionResultType]::ParameterName, 'Serve HTTPS with this certificate; may be given several times')
            [CompletionResult]::new('--tls-key', '--tls-key', [CompletionResultType]::ParameterName, 'The private key of the certificate, once for each certificate')
            [CompletionResult]::new('--listen-tls', '--listen-tls', [CompletionResultType]::ParameterName, 'Where to listen for HTTPS, written as for --listen; may be given several times')
            [CompletionResult]::new('--php', '--php', [CompletionResultType]::ParameterName, 'Let PHP answer files named *.php')
            [CompletionResult]::new('--php-children', '--php-children', [CompletionResultType]::ParameterName, 'Children of the pool, and connections to the pool at the same time')
            [CompletionResult]::new('--php-queue', '--php-queue', [CompletionResultType]::ParameterName, 'Requests that may wait for PHP')
            [CompletionResult]::new('--php-requests', '--php-requests', [CompletionResultType]::ParameterName, 'Requests after which a child of the server''s own pool is replaced')
            [CompletionResult]::new('--php-user', '--php-user', [CompletionResultType]::ParameterName, 'The user of the server''s own pool, if the superuser starts the server')
            [CompletionResult]::new('--php-send', '--php-send', [CompletionResultType]::ParameterName, 'A folder from which PHP may have files sent; may be given several times')
            [CompletionResult]::new('--cgi', '--cgi', [CompletionResultType]::ParameterName, 'Let programs answer: below a folder (/cgi-bin/), or all names with a suffix (.cgi); may be given several times')
            [CompletionResult]::new('--cgi-user', '--cgi-user', [CompletionResultType]::ParameterName, 'The user that programs run as, with the user''s groups')
            [CompletionResult]::new('--cgi-max', '--cgi-max', [CompletionResultType]::ParameterName, 'Programs that run at the same time')
            [CompletionResult]::new('--cgi-queue', '--cgi-queue', [CompletionResultType]::ParameterName, 'Requests that may wait for a program to end')
            [CompletionResult]::new('--cgi-timeout', '--cgi-timeout', [CompletionResultType]::ParameterName, 'How long a program may run, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--cgi-memory', '--cgi-memory', [CompletionResultType]::ParameterName, 'Address space that each process of a program may have, in bytes')
            [CompletionResult]::new('--cgi-send', '--cgi-send', [CompletionResultType]::ParameterName, 'A folder from which programs may have files sent; may be given several times')
            [CompletionResult]::new('--programs-queue-timeout', '--programs-queue-timeout', [CompletionResultType]::ParameterName, 'How long a request may wait for a PHP child or a CGI turn, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--programs-timeout', '--programs-timeout', [CompletionResultType]::ParameterName, 'How long a program may be silent, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--programs-body-bytes', '--programs-body-bytes', [CompletionResultType]::ParameterName, 'The longest request body for a program, in bytes')
            [CompletionResult]::new('--php-queue-timeout', '--php-queue-timeout', [CompletionResultType]::ParameterName, 'The former name of `--programs-queue-timeout`')
            [CompletionResult]::new('--php-timeout', '--php-timeout', [CompletionResultType]::ParameterName, 'The former name of `--programs-timeout`')
            [CompletionResult]::new('--php-body-bytes', '--php-body-bytes', [CompletionResultType]::ParameterName, 'The former name of `--programs-body-bytes`')
            [CompletionResult]::new('--connections-max', '--connections-max', [CompletionResultType]::ParameterName, 'Open connections of each core')
            [CompletionResult]::new('--client-connections-max', '--client-connections-max', [CompletionResultType]::ParameterName, 'Connections of a client address, on all cores of an instance')
            [CompletionResult]::new('--client-ipv6-prefix', '--client-ipv6-prefix', [CompletionResultType]::ParameterName, 'Leading bits of an IPv6 address that identify a client')
            [CompletionResult]::new('--wait-max', '--wait-max', [CompletionResultType]::ParameterName, 'For connections to be accepted, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--request-line-bytes', '--request-line-bytes', [CompletionResultType]::ParameterName, 'The longest request line, in bytes')
            [CompletionResult]::new('--header-count', '--header-count', [CompletionResultType]::ParameterName, 'The most header fields of a request')
            [CompletionResult]::new('--header-bytes', '--header-bytes', [CompletionResultType]::ParameterName, 'The longest request head, that is request line and header fields, in bytes')
            [CompletionResult]::new('--body-bytes', '--body-bytes', [CompletionResultType]::ParameterName, 'The longest request body, in bytes')
            [CompletionResult]::new('--body-memory-bytes', '--body-memory-bytes', [CompletionResultType]::ParameterName, 'Memory for the bodies of requests to PHP and CGI programs, in bytes')
            [CompletionResult]::new('--requests-per-connection', '--requests-per-connection', [CompletionResultType]::ParameterName, 'Requests on a connection before the server closes the connection')
            [CompletionResult]::new('--ranges-max', '--ranges-max', [CompletionResultType]::ParameterName, 'The most ranges of a range request')
            [CompletionResult]::new('--listing-names', '--listing-names', [CompletionResultType]::ParameterName, 'The most names on one page of a listing')
            [CompletionResult]::new('--header-timeout', '--header-timeout', [CompletionResultType]::ParameterName, 'For a request head to arrive, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--body-timeout', '--body-timeout', [CompletionResultType]::ParameterName, 'For a request body to arrive, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--keep-alive-timeout', '--keep-alive-timeout', [CompletionResultType]::ParameterName, 'For the next request on a connection, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--write-timeout', '--write-timeout', [CompletionResultType]::ParameterName, 'For a client to take any part of the answer, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--leave-timeout', '--leave-timeout', [CompletionResultType]::ParameterName, 'For balancers to react before the server stops, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--drain-timeout', '--drain-timeout', [CompletionResultType]::ParameterName, 'For open requests to finish when the server stops, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Read all settings from a configuration file, none from the command line')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Read all settings from a configuration file, none from the command line')
            [CompletionResult]::new('--no-listing', '--no-listing', [CompletionResultType]::ParameterName, 'Answer 403 for a folder without index.html instead of listing it')
            [CompletionResult]::new('--sendfile', '--sendfile', [CompletionResultType]::ParameterName, 'Send larger files by sendfile(2)')
            [CompletionResult]::new('--cgi-nph', '--cgi-nph', [CompletionResultType]::ParameterName, 'Let programs whose names begin with nph- write the whole answer themselves')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;check' {
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'The configuration file')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration file')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Say which host, route and file a GET request for this URL gets, and why')
            [CompletionResult]::new('--schema', '--schema', [CompletionResultType]::ParameterName, 'Print the JSON Schema of the configuration')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;status' {
            [CompletionResult]::new('--control', '--control', [CompletionResultType]::ParameterName, 'The server''s control socket')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON')
            [CompletionResult]::new('--metrics', '--metrics', [CompletionResultType]::ParameterName, 'Write metrics, in the OpenMetrics text format')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;reload' {
            [CompletionResult]::new('--control', '--control', [CompletionResultType]::ParameterName, 'The server''s control socket')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;load' {
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Users; without WORKLOAD, connections with one open request each')
            [CompletionResult]::new('--connections', '--connections', [CompletionResultType]::ParameterName, 'Users; without WORKLOAD, connections with one open request each')
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'The cpus to run on: all, a number, or a list')
            [CompletionResult]::new('--io', '--io', [CompletionResultType]::ParameterName, 'The kernel interface for input and output')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'The seed of all random numbers; the same seed gives the same users and arrivals')
            [CompletionResult]::new('--pipeline', '--pipeline', [CompletionResultType]::ParameterName, 'Requests sent on a connection before the first answer arrives; with --http2 each on a stream of its own')
            [CompletionResult]::new('--ca', '--ca', [CompletionResultType]::ParameterName, 'Root certificates of https servers, in place of the system''s: a PEM file')
            [CompletionResult]::new('-H', '-H ', [CompletionResultType]::ParameterName, 'A header field of every request, such as "Accept: text/html"; may be repeated')
            [CompletionResult]::new('--header', '--header', [CompletionResultType]::ParameterName, 'A header field of every request, such as "Accept: text/html"; may be repeated')
            [CompletionResult]::new('-X', '-X ', [CompletionResultType]::ParameterName, 'The method')
            [CompletionResult]::new('--method', '--method', [CompletionResultType]::ParameterName, 'The method')
            [CompletionResult]::new('--body', '--body', [CompletionResultType]::ParameterName, 'The content of every request; @FILE reads it from a file')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'For an answer to arrive, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'The part of the run that counts, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--duration', '--duration', [CompletionResultType]::ParameterName, 'The part of the run that counts, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'The number of requests after which the run ends; with WORKLOAD, pages')
            [CompletionResult]::new('--requests', '--requests', [CompletionResultType]::ParameterName, 'The number of requests after which the run ends; with WORKLOAD, pages')
            [CompletionResult]::new('--think', '--think', [CompletionResultType]::ParameterName, 'How long users think between an answer and the next request')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Open loop: requests arrive at this rate per second, independently of answers; with WORKLOAD, sessions arrive')
            [CompletionResult]::new('--arrivals', '--arrivals', [CompletionResultType]::ParameterName, 'Open loop with the arrivals of a file: a time in seconds on each line')
            [CompletionResult]::new('--compress', '--compress', [CompletionResultType]::ParameterName, 'Time compression: think times are divided by this factor, and download and replay rates are multiplied by this factor')
            [CompletionResult]::new('--ramp-up', '--ramp-up', [CompletionResultType]::ParameterName, 'The time over which users start, evenly spread, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--warm-up', '--warm-up', [CompletionResultType]::ParameterName, 'Before the part that counts, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--ramp-down', '--ramp-down', [CompletionResultType]::ParameterName, 'After the part that counts, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--good', '--good', [CompletionResultType]::ParameterName, 'A good page takes no longer, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--tolerable', '--tolerable', [CompletionResultType]::ParameterName, 'A tolerable page takes no longer, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--good-share', '--good-share', [CompletionResultType]::ParameterName, 'Share of pages that must be good')
            [CompletionResult]::new('--tolerable-share', '--tolerable-share', [CompletionResultType]::ParameterName, 'Share of pages that must be tolerable')
            [CompletionResult]::new('--failed-share', '--failed-share', [CompletionResultType]::ParameterName, 'Share of failed pages that is too high')
            [CompletionResult]::new('--good-rate', '--good-rate', [CompletionResultType]::ParameterName, 'Bytes per second of a good download')
            [CompletionResult]::new('--tolerable-rate', '--tolerable-rate', [CompletionResultType]::ParameterName, 'Bytes per second of a tolerable download')
            [CompletionResult]::new('--users-from', '--users-from', [CompletionResultType]::ParameterName, 'Users of the first run')
            [CompletionResult]::new('--users-max', '--users-max', [CompletionResultType]::ParameterName, 'Most users of a run')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'The largest difference between a number of users that holds the quality and a number that does not')
            [CompletionResult]::new('--confirm', '--confirm', [CompletionResultType]::ParameterName, 'Runs that confirm the result')
            [CompletionResult]::new('--address', '--address', [CompletionResultType]::ParameterName, 'A set of addresses that replaces the address of the URL: [NAME=]ADDR:PORT[,ADDR:PORT…]; may be repeated')
            [CompletionResult]::new('--choice', '--choice', [CompletionResultType]::ParameterName, 'How a set is chosen for a connection')
            [CompletionResult]::new('--agents', '--agents', [CompletionResultType]::ParameterName, 'The agents that make the load, each a part: NAME:PORT, separated by commas')
            [CompletionResult]::new('--agents-wait', '--agents-wait', [CompletionResultType]::ParameterName, 'How long to wait for agents to start, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write the whole result as JSON; - is standard output, in place of the summary')
            [CompletionResult]::new('--html', '--html', [CompletionResultType]::ParameterName, 'Write a page with plots, in a single file; - is standard output')
            [CompletionResult]::new('--csv', '--csv', [CompletionResultType]::ParameterName, 'Write the course of the run, an interval per line; - is standard output')
            [CompletionResult]::new('--openmetrics', '--openmetrics', [CompletionResultType]::ParameterName, 'Write the result in the OpenMetrics text format; - is standard output')
            [CompletionResult]::new('--fail-if', '--fail-if', [CompletionResultType]::ParameterName, 'End with exit code 6 if the run passes this threshold, for example ''p99>200ms'' or ''failed>1%''; may be repeated')
            [CompletionResult]::new('--no-keepalive', '--no-keepalive', [CompletionResultType]::ParameterName, 'A new connection for each request')
            [CompletionResult]::new('--http2', '--http2', [CompletionResultType]::ParameterName, 'Use HTTP/2: negotiated in the handshake with https, from the first byte with http')
            [CompletionResult]::new('--insecure', '--insecure', [CompletionResultType]::ParameterName, 'Accept every certificate of an https server')
            [CompletionResult]::new('--resume', '--resume', [CompletionResultType]::ParameterName, 'Resume TLS sessions of earlier connections, if the server allows that')
            [CompletionResult]::new('--find-max', '--find-max', [CompletionResultType]::ParameterName, 'Search the highest number of users that holds the quality of service, in runs with more and fewer users')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No live line')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No live line')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('agent', 'agent', [CompletionResultType]::ParameterValue, 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT')
            [CompletionResult]::new('files', 'files', [CompletionResultType]::ParameterValue, 'Write the files that a workload requests')
            [CompletionResult]::new('backend', 'backend', [CompletionResultType]::ParameterValue, 'Be the back end of dynamic pages, until SIGTERM or SIGINT')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Show results that were saved as JSON, several side by side')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'vermeil;load;agent' {
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'The address for the coordinator; port 0 takes any free port')
            [CompletionResult]::new('--listen', '--listen', [CompletionResultType]::ParameterName, 'The address for the coordinator; port 0 takes any free port')
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'The cpus to run on: all, a number, or a list')
            [CompletionResult]::new('--io', '--io', [CompletionResultType]::ParameterName, 'The kernel interface for input and output')
            [CompletionResult]::new('--once', '--once', [CompletionResultType]::ParameterName, 'End when the first coordinator is done or lost, for example in a cluster job')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;load;files' {
            [CompletionResult]::new('--scale', '--scale', [CompletionResultType]::ParameterName, 'The number of users (support), or of expected operations a second (specweb96)')
            [CompletionResult]::new('--max-bytes', '--max-bytes', [CompletionResultType]::ParameterName, 'The largest total size of the directories, in bytes')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'The address of the back end of the PHP pages; the environment variable VERMEIL_LOAD_BACKEND overrides the address')
            [CompletionResult]::new('--static', '--static', [CompletionResultType]::ParameterName, 'Pages as plain files instead of PHP')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;load;backend' {
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'The address to listen on; port 0 takes any free port')
            [CompletionResult]::new('--listen', '--listen', [CompletionResultType]::ParameterName, 'The address to listen on; port 0 takes any free port')
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'The cpus to run on: all, a number, or a list')
            [CompletionResult]::new('--io', '--io', [CompletionResultType]::ParameterName, 'The kernel interface for input and output')
            [CompletionResult]::new('--delay', '--delay', [CompletionResultType]::ParameterName, 'The delay of every answer: 2ms, exp:2ms, uniform:1ms:3ms, lognormal:2ms:1')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;load;report' {
            [CompletionResult]::new('--html', '--html', [CompletionResultType]::ParameterName, 'Write a page with plots of all records, in a single file; - is standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;load;help' {
            [CompletionResult]::new('agent', 'agent', [CompletionResultType]::ParameterValue, 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT')
            [CompletionResult]::new('files', 'files', [CompletionResultType]::ParameterValue, 'Write the files that a workload requests')
            [CompletionResult]::new('backend', 'backend', [CompletionResultType]::ParameterValue, 'Be the back end of dynamic pages, until SIGTERM or SIGINT')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Show results that were saved as JSON, several side by side')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'vermeil;load;help;agent' {
            break
        }
        'vermeil;load;help;files' {
            break
        }
        'vermeil;load;help;backend' {
            break
        }
        'vermeil;load;help;report' {
            break
        }
        'vermeil;load;help;help' {
            break
        }
        'vermeil;topo' {
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Draw the machine of an hwloc XML export instead; - reads standard input')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Draw the machine that a text describes instead')
            [CompletionResult]::new('--synthetic', '--synthetic', [CompletionResultType]::ParameterName, 'Draw the machine that a text describes instead')
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'Also print the cpus that `vermeil serve --cores` would use, in order: all, a number, or a list')
            [CompletionResult]::new('--instances', '--instances', [CompletionResultType]::ParameterName, 'The number of processes for these cores, as for `vermeil serve --instances`: per-node, one, or a number')
            [CompletionResult]::new('--plan', '--plan', [CompletionResultType]::ParameterName, 'Write the instances of a server as JSON instead of a drawing')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON instead of a drawing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;steer' {
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'With plan, apply, xdp and compare: the cpus of the server''s cores, as for `vermeil serve --cores`: all, a number, or a list')
            [CompletionResult]::new('--nic', '--nic', [CompletionResultType]::ParameterName, 'With plan, apply, xdp and compare: a card to steer; may be repeated, but not with xdp and compare')
            [CompletionResult]::new('--queues', '--queues', [CompletionResultType]::ParameterName, 'With plan, apply and compare: whether the number of a card''s queues may change')
            [CompletionResult]::new('--confirm', '--confirm', [CompletionResultType]::ParameterName, 'With apply: undo all changes unless `vermeil steer confirm` follows within this time, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'With verify: count only reads from sockets of this local port')
            [CompletionResult]::new('--time', '--time', [CompletionResultType]::ParameterName, 'With verify and compare: how long to measure, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--xdp', '--xdp', [CompletionResultType]::ParameterName, 'With xdp and compare: where the program runs')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'The folder with the saved old values, until an undo')
            [CompletionResult]::new('--root', '--root', [CompletionResultType]::ParameterName, 'With plan: a recorded machine instead of this one')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON instead of text')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Simulate a workload on a machine')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them')
            [CompletionResult]::new('machines', 'machines', [CompletionResultType]::ParameterValue, 'List the shipped machines, or print the description of a machine as a template')
            [CompletionResult]::new('workloads', 'workloads', [CompletionResultType]::ParameterValue, 'List the shipped workloads, or print the description of a workload as a template')
            [CompletionResult]::new('reproduce', 'reproduce', [CompletionResultType]::ParameterValue, 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted')
            [CompletionResult]::new('swarm', 'swarm', [CompletionResultType]::ParameterValue, 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler')
            [CompletionResult]::new('calibrate', 'calibrate', [CompletionResultType]::ParameterValue, 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events')
            [CompletionResult]::new('parity', 'parity', [CompletionResultType]::ParameterValue, 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'vermeil;sim;run' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml, a text in hwloc''s synthetic notation, or `here` for a measurement of this machine')
            [CompletionResult]::new('--machine', '--machine', [CompletionResultType]::ParameterName, 'The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml, a text in hwloc''s synthetic notation, or `here` for a measurement of this machine')
            [CompletionResult]::new('--costs', '--costs', [CompletionResultType]::ParameterName, 'The machine with the latencies, bandwidths and costs for an export or a text: a name, or FILE.toml')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'The policy that moves colors: none, libasync, mely, placed:PLAN, trial, ncopy, per-node or adaptive')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'The policy that moves colors: none, libasync, mely, placed:PLAN, trial, ncopy, per-node or adaptive')
            [CompletionResult]::new('--compare', '--compare', [CompletionResultType]::ParameterName, 'Run under several policies, separated by commas, and show the results side by side; `all` is every policy, with each named plan')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'The seed of all random numbers: equal seeds give equal runs')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'The measured virtual time, after the workload''s warm-up, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--time', '--time', [CompletionResultType]::ParameterName, 'The measured virtual time, after the workload''s warm-up, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--spin', '--spin', [CompletionResultType]::ParameterName, 'How long an idle core searches before the core sleeps, in nanoseconds')
            [CompletionResult]::new('--working-set', '--working-set', [CompletionResultType]::ParameterName, 'Of a recording: the memory that each event of a color is assumed to touch, in bytes')
            [CompletionResult]::new('--timeline', '--timeline', [CompletionResultType]::ParameterName, 'Draw the events of each core over time')
            [CompletionResult]::new('--trace', '--trace', [CompletionResultType]::ParameterName, 'Write the events of each core over time, for ui.perfetto.dev')
            [CompletionResult]::new('--show-from', '--show-from', [CompletionResultType]::ParameterName, 'The start of the picture and the trace, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--show-time', '--show-time', [CompletionResultType]::ParameterName, 'The length of the picture and the trace, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--annotated', '--annotated', [CompletionResultType]::ParameterName, 'Whether the handlers'' annotated costs are known: true or false')
            [CompletionResult]::new('--batch', '--batch', [CompletionResultType]::ParameterName, 'Maximum number of events of a color in a row')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON instead of text; an array for several policies')
            [CompletionResult]::new('--waits-for-locks', '--waits-for-locks', [CompletionResultType]::ParameterName, 'A thief waits for a taken lock')
            [CompletionResult]::new('--leaves-half', '--leaves-half', [CompletionResultType]::ParameterName, 'A thief leaves a color that holds half of the victim''s waiting events or more')
            [CompletionResult]::new('--colors-return', '--colors-return', [CompletionResultType]::ParameterName, 'An empty color returns to the core for which it was made, as in runtimes that hash colors to cores')
            [CompletionResult]::new('--instance-per-node', '--instance-per-node', [CompletionResultType]::ParameterName, 'One instance of the program per memory node: colors stay on the node that made them, under any policy')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim;show' {
            [CompletionResult]::new('--timeline', '--timeline', [CompletionResultType]::ParameterName, 'Draw the events of each core over time')
            [CompletionResult]::new('--trace', '--trace', [CompletionResultType]::ParameterName, 'Write the events of each core over time, for ui.perfetto.dev')
            [CompletionResult]::new('--show-from', '--show-from', [CompletionResultType]::ParameterName, 'The start of the picture and the trace, counted from the first event, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--show-time', '--show-time', [CompletionResultType]::ParameterName, 'The length of the picture and the trace, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim;machines' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim;workloads' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim;reproduce' {
            [CompletionResult]::new('--quick', '--quick', [CompletionResultType]::ParameterName, 'A shorter form of each experiment, as in the tests')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON instead of text')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim;swarm' {
            [CompletionResult]::new('--seeds', '--seeds', [CompletionResultType]::ParameterName, 'The number of seeds')
            [CompletionResult]::new('--first', '--first', [CompletionResultType]::ParameterName, 'The first seed')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Run this seed alone, and print the drawn case')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim;calibrate' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'The file for the description')
            [CompletionResult]::new('--out', '--out', [CompletionResultType]::ParameterName, 'The file for the description')
            [CompletionResult]::new('--quick', '--quick', [CompletionResultType]::ParameterName, 'A short trial run; the numbers mean little')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim;parity' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'The description of this machine from `vermeil sim calibrate`')
            [CompletionResult]::new('--machine', '--machine', [CompletionResultType]::ParameterName, 'The description of this machine from `vermeil sim calibrate`')
            [CompletionResult]::new('--rounds', '--rounds', [CompletionResultType]::ParameterName, 'Real runs of each program under each policy')
            [CompletionResult]::new('--quick', '--quick', [CompletionResultType]::ParameterName, 'A short trial run; the numbers mean nothing, and the exit code is 0')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON instead of text')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;sim;help' {
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Simulate a workload on a machine')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them')
            [CompletionResult]::new('machines', 'machines', [CompletionResultType]::ParameterValue, 'List the shipped machines, or print the description of a machine as a template')
            [CompletionResult]::new('workloads', 'workloads', [CompletionResultType]::ParameterValue, 'List the shipped workloads, or print the description of a workload as a template')
            [CompletionResult]::new('reproduce', 'reproduce', [CompletionResultType]::ParameterValue, 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted')
            [CompletionResult]::new('swarm', 'swarm', [CompletionResultType]::ParameterValue, 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler')
            [CompletionResult]::new('calibrate', 'calibrate', [CompletionResultType]::ParameterValue, 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events')
            [CompletionResult]::new('parity', 'parity', [CompletionResultType]::ParameterValue, 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'vermeil;sim;help;run' {
            break
        }
        'vermeil;sim;help;show' {
            break
        }
        'vermeil;sim;help;machines' {
            break
        }
        'vermeil;sim;help;workloads' {
            break
        }
        'vermeil;sim;help;reproduce' {
            break
        }
        'vermeil;sim;help;swarm' {
            break
        }
        'vermeil;sim;help;calibrate' {
            break
        }
        'vermeil;sim;help;parity' {
            break
        }
        'vermeil;sim;help;help' {
            break
        }
        'vermeil;profile' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('record', 'record', [CompletionResultType]::ParameterValue, 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool')
            [CompletionResult]::new('compare', 'compare', [CompletionResultType]::ParameterValue, 'Compare recordings: which functions cost more for each unit of work, and the possible gain')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'vermeil;profile;record' {
            [CompletionResult]::new('--pid', '--pid', [CompletionResultType]::ParameterName, 'The process to record, with its descendants')
            [CompletionResult]::new('--control', '--control', [CompletionResultType]::ParameterName, 'The control socket of a Vermeil server: record the processes of the server')
            [CompletionResult]::new('--hz', '--hz', [CompletionResultType]::ParameterName, 'Samples per second and cpu')
            [CompletionResult]::new('--duration', '--duration', [CompletionResultType]::ParameterName, 'How long to record, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--stacks', '--stacks', [CompletionResultType]::ParameterName, 'How the stacks of processes are walked')
            [CompletionResult]::new('--count', '--count', [CompletionResultType]::ParameterName, 'The set of hardware events that is counted beside the samples')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'The file of the recording')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'The file of the recording')
            [CompletionResult]::new('--waits', '--waits', [CompletionResultType]::ParameterName, 'Record also how long each thread waits, and where threads block')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;profile;report' {
            [CompletionResult]::new('--form', '--form', [CompletionResultType]::ParameterName, 'The form of the report')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'The file to write; `-` is standard output')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'The file to write; `-` is standard output')
            [CompletionResult]::new('--top', '--top', [CompletionResultType]::ParameterName, 'How many functions or callers a table lists')
            [CompletionResult]::new('--callers-of', '--callers-of', [CompletionResultType]::ParameterName, 'Show the callers of all functions with this text in the name')
            [CompletionResult]::new('--owner', '--owner', [CompletionResultType]::ParameterName, 'With --callers-of: the module whose nearest frame is responsible')
            [CompletionResult]::new('--outermost', '--outermost', [CompletionResultType]::ParameterName, 'Divide all samples by the outermost function with one of these texts in its name')
            [CompletionResult]::new('--window', '--window', [CompletionResultType]::ParameterName, 'Only this part of the recording, from its start: 10s..25s, 10s.. or ..25s')
            [CompletionResult]::new('--colors', '--colors', [CompletionResultType]::ParameterName, 'Divide all samples by the color whose event ran')
            [CompletionResult]::new('--waits', '--waits', [CompletionResultType]::ParameterName, 'Report waits instead of cpu time: where threads block, and for how long')
            [CompletionResult]::new('--inlined', '--inlined', [CompletionResultType]::ParameterName, 'Count functions that the compiler inlined as functions of their own')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;profile;compare' {
            [CompletionResult]::new('--work', '--work', [CompletionResultType]::ParameterName, 'The work done during each recording of the base and of the other side, such as requests')
            [CompletionResult]::new('--cpus', '--cpus', [CompletionResultType]::ParameterName, 'The cpus of the base and of the other side')
            [CompletionResult]::new('--form', '--form', [CompletionResultType]::ParameterName, 'The form of the comparison')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'The file to write; `-` is standard output')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'The file to write; `-` is standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;profile;import' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'The file of the recording')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'The file of the recording')
            [CompletionResult]::new('--kallsyms', '--kallsyms', [CompletionResultType]::ParameterName, 'A copy of /proc/kallsyms of the recorded machine')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;profile;help' {
            [CompletionResult]::new('record', 'record', [CompletionResultType]::ParameterValue, 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool')
            [CompletionResult]::new('compare', 'compare', [CompletionResultType]::ParameterValue, 'Compare recordings: which functions cost more for each unit of work, and the possible gain')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'vermeil;profile;help;record' {
            break
        }
        'vermeil;profile;help;report' {
            break
        }
        'vermeil;profile;help;compare' {
            break
        }
        'vermeil;profile;help;import' {
            break
        }
        'vermeil;profile;help;help' {
            break
        }
        'vermeil;scale' {
            [CompletionResult]::new('--cores', '--cores', [CompletionResultType]::ParameterName, 'Numbers of cpus, the base first; one number alone is recorded and not compared')
            [CompletionResult]::new('--nodes', '--nodes', [CompletionResultType]::ParameterName, 'Numbers of memory nodes instead, the base first; a node has all its cpus')
            [CompletionResult]::new('--reps', '--reps', [CompletionResultType]::ParameterName, 'Runs on each number of cpus or nodes')
            [CompletionResult]::new('--load', '--load', [CompletionResultType]::ParameterName, 'The load on a server, a command line; `load …` is vermeil''s own')
            [CompletionResult]::new('--ready', '--ready', [CompletionResultType]::ParameterName, 'The address at which the server is ready once it accepts connections')
            [CompletionResult]::new('--warm-up', '--warm-up', [CompletionResultType]::ParameterName, 'How long the load runs at least before a recording begins, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--settle-max', '--settle-max', [CompletionResultType]::ParameterName, 'How much longer the load may run until the work is steady, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--time', '--time', [CompletionResultType]::ParameterName, 'How long a recording under load takes, in seconds or with a unit: ms, s, m, h')
            [CompletionResult]::new('--work', '--work', [CompletionResultType]::ParameterName, 'The work in the output: a key of its JSON, one key divided by another, or the word before a number')
            [CompletionResult]::new('--hz', '--hz', [CompletionResultType]::ParameterName, 'Samples per second and cpu')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'The seed of the order of runs')
            [CompletionResult]::new('--folder', '--folder', [CompletionResultType]::ParameterName, 'The folder in which recordings are kept')
            [CompletionResult]::new('--form', '--form', [CompletionResultType]::ParameterName, 'The form of the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;instance' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'vermeil;completions' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'vermeil;man' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'vermeil;help' {
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a folder')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Read a configuration and show its settings, or all its errors')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show the state of a running server: cores and their load, connections, requests, caches, memory, logs, pools')
            [CompletionResult]::new('reload', 'reload', [CompletionResultType]::ParameterValue, 'Make a running server read its configuration again')
            [CompletionResult]::new('load', 'load', [CompletionResultType]::ParameterValue, 'Load a server, and report whether the result can be trusted')
            [CompletionResult]::new('topo', 'topo', [CompletionResultType]::ParameterValue, 'Draw the machine: memory nodes, caches, cores, and the cpus this process may use')
            [CompletionResult]::new('steer', 'steer', [CompletionResultType]::ParameterValue, 'Bring each flow''s packets, interrupts and consumer to a single core of the card''s memory node')
            [CompletionResult]::new('sim', 'sim', [CompletionResultType]::ParameterValue, 'Run the scheduler on machines that you do not have: virtual cores, caches, memory nodes and links, under a virtual clock')
            [CompletionResult]::new('profile', 'profile', [CompletionResultType]::ParameterValue, 'Find out where a process spends its time: sample stacks, read counters, report the functions that cost most')
            [CompletionResult]::new('scale', 'scale', [CompletionResultType]::ParameterValue, 'Run a program on several numbers of cpus or memory nodes and find out why it does not scale')
            [CompletionResult]::new('instance', 'instance', [CompletionResultType]::ParameterValue, 'Serve as an instance, for the supervisor at the other end of standard input')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Write the completions of a shell to standard output')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write a man page to standard output: `vermeil man serve | man -l -`')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'vermeil;help;serve' {
            break
        }
        'vermeil;help;check' {
            break
        }
        'vermeil;help;status' {
            break
        }
        'vermeil;help;reload' {
            break
        }
        'vermeil;help;load' {
            [CompletionResult]::new('agent', 'agent', [CompletionResultType]::ParameterValue, 'Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT')
            [CompletionResult]::new('files', 'files', [CompletionResultType]::ParameterValue, 'Write the files that a workload requests')
            [CompletionResult]::new('backend', 'backend', [CompletionResultType]::ParameterValue, 'Be the back end of dynamic pages, until SIGTERM or SIGINT')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Show results that were saved as JSON, several side by side')
            break
        }
        'vermeil;help;load;agent' {
            break
        }
        'vermeil;help;load;files' {
            break
        }
        'vermeil;help;load;backend' {
            break
        }
        'vermeil;help;load;report' {
            break
        }
        'vermeil;help;topo' {
            break
        }
        'vermeil;help;steer' {
            break
        }
        'vermeil;help;sim' {
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Simulate a workload on a machine')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show a recording as it ran, without simulation: the handlers, their times and waits, and which core ran them')
            [CompletionResult]::new('machines', 'machines', [CompletionResultType]::ParameterValue, 'List the shipped machines, or print the description of a machine as a template')
            [CompletionResult]::new('workloads', 'workloads', [CompletionResultType]::ParameterValue, 'List the shipped workloads, or print the description of a workload as a template')
            [CompletionResult]::new('reproduce', 'reproduce', [CompletionResultType]::ParameterValue, 'Run published experiments again: the published figures, the simulated figures, the difference, and whether a figure is fitted or predicted')
            [CompletionResult]::new('swarm', 'swarm', [CompletionResultType]::ParameterValue, 'Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of the scheduler')
            [CompletionResult]::new('calibrate', 'calibrate', [CompletionResultType]::ParameterValue, 'Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the runtime''s events')
            [CompletionResult]::new('parity', 'parity', [CompletionResultType]::ParameterValue, 'Run the same programs under the same policies on the real runtime and in the simulator, and report whether both rank the policies alike')
            break
        }
        'vermeil;help;sim;run' {
            break
        }
        'vermeil;help;sim;show' {
            break
        }
        'vermeil;help;sim;machines' {
            break
        }
        'vermeil;help;sim;workloads' {
            break
        }
        'vermeil;help;sim;reproduce' {
            break
        }
        'vermeil;help;sim;swarm' {
            break
        }
        'vermeil;help;sim;calibrate' {
            break
        }
        'vermeil;help;sim;parity' {
            break
        }
        'vermeil;help;profile' {
            [CompletionResult]::new('record', 'record', [CompletionResultType]::ParameterValue, 'Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report a recording: the functions that cost most, or the callers of a function, or stacks for another tool')
            [CompletionResult]::new('compare', 'compare', [CompletionResultType]::ParameterValue, 'Compare recordings: which functions cost more for each unit of work, and the possible gain')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Turn a file of `perf record` into a recording, so that machines without vermeil can be looked at')
            break
        }
        'vermeil;help;profile;record' {
            break
        }
        'vermeil;help;profile;report' {
            break
        }
        'vermeil;help;profile;compare' {
            break
        }
        'vermeil;help;profile;import' {
            break
        }
        'vermeil;help;scale' {
            break
        }
        'vermeil;help;instance' {
            break
        }
        'vermeil;help;completions' {
            break
        }
        'vermeil;help;man' {
            break
        }
        'vermeil;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
