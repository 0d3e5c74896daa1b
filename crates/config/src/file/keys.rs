//! The keys of `vermeil.toml`: the kind, the default, the bounds and the effect of each key.
//!
//! A key is defined here, in `compress_tables.rs`, `host_php_table.rs` or `log_files_table.rs`:
//! reading, hints and the reference page all come from the definition.
//! Bounds are the same as for the command-line options of the same name. Leaves out how the keys
//! combine (`resolve.rs`).

use super::{
    compress_tables::{CompressionTable, WrittenCompression},
    describe::ValueKind,
    host_php_table::HostPhpTable,
    log_files_table::LogFilesTable,
    read::{At, ConfigNode, ConfigReader, ConfigSetting, FieldValues, FlagOr, FreeTable, OneOrMore},
    tables::table,
    values::{FileMode, Listen, Size, Span},
};
use crate::options::{CONNECTIONS_MAX, HOSTS_SHOWN_MAX, SITES_OPEN_MAX, Timeouts, WAIT_MAX};
use std::{path::PathBuf, time::Duration};
use vermeil::IoChoice;
use vermeil_files::{FollowSymlinks, LISTING_NAMES_MAX, SiteOptions};
use vermeil_http::{limits, negotiate::Choice};
use vermeil_io::Pages;
use vermeil_log::{LogFormat, LogTarget};
use vermeil_routing::{access, clients::CLIENT_IPV6_PREFIX, hosts::Unknown};
use vermeil_settings::{
    Balance, BusyPoll, ControlTarget, LoadReport, MovePolicy, cgi,
    gateway::{self, GatewayTimeouts},
    php,
    tls::{ClientNeed, HANDSHAKES_MAX, HttpsUse, MinimumVersion, TlsPolicy},
};
use vermeil_topology::{CoreSelection, InstanceSelection};

const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
const T: u64 = 1 << 40;

table! {
    /// The server as a whole.
    pub(super) struct Document {
        /// The cpus to run on, one event loop each: `"all"`, a number of cpus, or a list, for
        /// example `"0-3,8"`.
        cores: At<CoreSelection> = At::unwritten(CoreSelection::All),
        /// The number of server processes: `"per-node"` (one process for each memory node with
        /// cores of the server), `"one"`, or a number. With more than one process, a supervisor
        /// starts the processes. Each process has its own cores, memory of its own nodes, its own
        /// caches and its own PHP pool. Bounds apply to each process.
        instances: InstanceSelection = InstanceSelection::PerNode,
        /// How new connections are assigned to cores. `local`: the core that handles the packets;
        /// neighbours relieve a core that is stuck. `load-aware` (needs CAP_BPF): the same, unless
        /// that core has much more waiting work than others. `hash`, `fixed` and `round-robin` are
        /// for comparison. `auto`: the first of `load-aware`, `local` and `hash` that passes a
        /// self-test at start.
        balance: Balance = Balance::Auto,
        /// Whether a core takes connections from a core with more work. `adaptive`: if the other
        /// core has much more work, measured over 10 ms. `per-node`: the same, within a memory
        /// node. `none`: a connection stays on its core. `libasync` and `mely` are for comparison,
        /// and `scatter`, which moves every connection at every request, is for tests.
        policy: MovePolicy = MovePolicy::Adaptive,
        /// The kernel interface for input and output. `auto` uses io_uring if every needed
        /// operation works.
        io: IoChoice = IoChoice::Auto,
        /// Whether busy cores poll their network card instead of waiting for an interrupt: `off`,
        /// or `load`. With `load`, a core polls from 1,000 requests a second on, until the core has
        /// fewer than 250 for a second. Needs Linux 6.9, and the connections of a core must come
        /// from a single queue of the card.
        busy_poll: BusyPoll = BusyPoll::Off,
        /// Where the access log goes: `"-"` (standard output), a file, `"syslog"`, `"journald"`, or
        /// `"off"`. `"syslog:/PATH"` and `"journald:/PATH"` name another socket. Records wait while
        /// the daemon is away, and are dropped and counted when there are too many.
        log: LogTarget = LogTarget::Stdout,
        /// The format of log lines. `combined`: the combined format of NCSA and Apache.
        /// `vhost_combined`: the same after `HOST:PORT`, as the client requested. `json`: one
        /// object per line. Any other text is a line with fields in braces, for example
        /// `"{client} {host} \"{request}\" {status} {duration_s}"`. The fields: `time`, `client`,
        /// `host`, `user` (the name that came with a password, where `access` asks for one),
        /// `request`, `status`, `body_bytes`, `referer`, `user_agent`, `request_id` (the
        /// name of the request in notices, and `UNIQUE_ID` for programs), `duration_s` (from the
        /// complete head to the end of the answer), `program_s` (the part of PHP or CGI), `end`
        /// (`complete`, or `aborted` if the client left or the answer was cut). A missing value is
        /// `-`. Without the key: `combined` with one host, `vhost_combined` with several, and
        /// `combined` for the logs of hosts.
        log_format: Option<LogFormat> = None,
        /// The files of access logs: their rotation, and how many are open. Example:
        /// `log_files = { rotate_every = "24h", kept = 14 }`.
        log_files: At<LogFilesTable> = At::unwritten(LogFilesTable::unwritten().expect("every key has a default")),
        /// The user, or `"USER:GROUP"`, that all processes of the server switch to after binding
        /// ports and opening the log and the control socket. For a server that the superuser
        /// starts. Without the key, the server stays the superuser, with a warning.
        user: Option<At<String>> = None,
        /// The control socket, for `vermeil status` and `vermeil reload`: a path, or `"off"`.
        /// Without the key: a private folder of the user, so the commands find the socket without
        /// an option.
        control: ControlTarget = ControlTarget::Default,
        /// The address that answers HAProxy's agent checks: the share of its weight that the
        /// balancer should give this server, and whether the server is about to end. Without the
        /// key: nowhere.
        agent: Option<At<Listen>> = None,
        /// Whether answers report the load of the server in a field `endpoint-load-metrics` (ORCA,
        /// which Envoy and gRPC read).
        load_report: LoadReport = LoadReport::Off,
        /// Where to listen. Without a listener: 127.0.0.1, port 8080.
        listener: Vec<ListenerTable> = Vec::new(),
        /// The proxies in front of the server that are believed.
        proxies: Option<At<ProxiesTable>> = None,
        /// HTTPS: the versions and bounds for all hosts and listeners.
        tls: TlsTable = TlsTable::unwritten().expect("every key has a default"),
        /// Bounds on requests and clients.
        limits: LimitsTable = LimitsTable::unwritten().expect("every key has a default"),
        /// Timeouts for clients.
        timeouts: TimeoutsTable = TimeoutsTable::unwritten().expect("every key has a default"),
        /// The memory cache of served files.
        cache: CacheTable = CacheTable::unwritten().expect("every key has a default"),
        /// The bounds of compressed answers.
        compression: CompressionTable = CompressionTable::unwritten().expect("every key has a default"),
        /// The memory pages for the server's own large buffers.
        memory: MemoryTable = MemoryTable::unwritten().expect("every key has a default"),
        /// Settings for all hosts together.
        hosts: HostsTable = HostsTable::unwritten().expect("every key has a default"),
        /// The limits of all programs: PHP and CGI.
        programs: ProgramsTable = ProgramsTable::unwritten().expect("every key has a default"),
        /// The PHP of all hosts with `php = true`.
        php: PhpTable = PhpTable::unwritten().expect("every key has a default"),
        /// The user and the bounds of the programs of routes with `action = "cgi"`.
        cgi: CgiTable = CgiTable::unwritten().expect("every key has a default"),
        /// Files of further hosts: a path, a pattern, or a list of both, for example
        /// `"sites/*.toml"`. `*`, `?` and `[…]` match as in a shell. The files have `[[host]]`
        /// tables only, and are read in the order of their names. All relative paths begin at the
        /// folder of the main file.
        include: OneOrMore<String> = OneOrMore(Vec::new()),
        /// Whether the server leaves out the hosts of an included file that has problems, and says
        /// so at the start, at a reload and in `vermeil check`. A missing folder is such a problem
        /// for the default host, for a host with CGI programs, and in `send`; another host without
        /// its folder answers 404. Otherwise one problem refuses the whole configuration.
        skip_unfit_includes: bool = false,
        /// The virtual hosts, at least one.
        host: Vec<At<HostTable>> = Vec::new(),
    }
}

table! {
    /// An address to listen on. May be written several times.
    pub(super) struct ListenerTable {
        /// `"PORT"` is a port of 127.0.0.1, `":PORT"` a port of all interfaces (IPv4 and IPv6).
        /// `"ADDRESS:PORT"`, `"[IPV6]:PORT"` and `"NAME:PORT"` name an address. Port 0 takes any
        /// free port. `"unix:PATH"` is a unix socket, for a proxy on the same machine; a relative
        /// path begins at the folder of this file. The server replaces a socket that an ended
        /// server left behind.
        address: At<Listen>,
        /// The mode of a unix socket's file, in octal digits: users with the right to write may
        /// connect. Without the key: `"0666"`, all users of the machine. The file belongs to the
        /// server's `user` and the group of `user`; without `user`, to the user that starts the
        /// server. So with `"0660"` and `user = "www-data"`, members of the group www-data may
        /// connect.
        mode: Option<At<FileMode>> = None,
        /// Whether each connection begins with a header of the PROXY protocol, version 1 or 2. The
        /// header names the client: for the log, for programs, and for rules about clients. The
        /// server closes connections without a header, and connections that come from no network
        /// of `from` in `[proxies]`. With `tls = true`, the handshake follows the header.
        proxy_protocol: At<bool> = At::unwritten(false),
        /// Whether clients speak HTTPS at this address, with the certificates of the hosts. A
        /// request without TLS gets 400.
        tls: bool = false,
    }
}

table! {
    /// The proxies in front of the server. The server believes what they say about clients: the
    /// address (log, `REMOTE_ADDR`, rules about clients) and the scheme (`HTTPS`). Without this
    /// table, the client is the other end of the connection. For example `from = ["127.0.0.1"]`
    /// believes a proxy on the same machine.
    pub(super) struct ProxiesTable {
        /// The proxies, by address or network: `["10.0.0.0/8", "::1"]`; `"unix"` stands for the
        /// proxies that come through unix sockets. Other clients are not believed. If a proxy names
        /// another proxy of these networks as its client, the server believes that proxy too.
        from: Option<At<Vec<At<String>>>> = None,
        /// The fields that name the client. `x-forwarded`: `X-Forwarded-For` and
        /// `X-Forwarded-Proto`. `forwarded`: `Forwarded` (RFC 7239). `none`: no field, for proxies
        /// that speak the PROXY protocol only. Choose the fields that every proxy of `from` sets,
        /// because a proxy passes on other fields as the client sent them.
        fields: At<ForwardedWord> = At::unwritten(ForwardedWord::XForwarded),
    }
}

table! {
    /// HTTPS. A listener with `tls = true` and a host with a `certificate` turn HTTPS on.
    pub(super) struct TlsTable {
        /// The oldest version of TLS that clients may speak. `"1.2"` lets in the clients since
        /// 2013, `"1.3"` the clients since 2018.
        minimum: MinimumVersion = MinimumVersion::Tls12,
        /// The most hosts whose certificates are in memory, about 6 KB each. At the bound, the
        /// server drops the certificates that were unused for the longest time, and loads them
        /// again when a client asks.
        hosts_max: u64 = TlsPolicy::HOSTS_MAX as u64; from 1, to 1 << 24,
        /// The most handshakes of an instance that wait for a core. At the bound, the server closes
        /// new connections, because their clients would wait too long.
        handshakes_max: u64 = HANDSHAKES_MAX as u64; from 1, to 1_000_000,
    }
}

table! {
    /// Bounds on the requests of a client, and on the number of clients.
    pub(super) struct LimitsTable {
        /// The most open connections of each core. At the bound, the server closes connections that
        /// make no progress in favour of new connections. The order is: idle between two requests;
        /// without a byte sent for 100 ms; after the last answer; half heads; half bodies; answers
        /// that the client does not read. The last three states count after a second without
        /// progress. If no connection qualifies, new connections wait in the kernel's queue.
        connections_max: u64 = CONNECTIONS_MAX as u64; from 1, to 10_000_000,
        /// The most connections of a client address, on all cores of an instance. Beyond the bound:
        /// 503, and the connection is closed. Without the key: no bound, because many clients may
        /// share the address of a proxy. The PROXY protocol names the client of a connection; the
        /// fields of `[proxies]` do not count here.
        client_connections_max: Option<u64> = None; from 1, to 10_000_000,
        /// The number of leading bits of an IPv6 address that identify a client: 64 is the network
        /// of a customer, 128 a single address.
        client_ipv6_prefix: u64 = u64::from(CLIENT_IPV6_PREFIX); from 16, to 128,
        /// The clients whose requests are counted for rates (`access`), 16 bytes of memory each.
        /// When there are more clients, those with the fewest recent requests are forgotten.
        rated_clients_max: u64 = access::BUCKETS as u64; from 512, to 1 << 26,
        /// The longest time that a connection may wait to be accepted. Under overload, the server
        /// keeps the queue short enough for this time. Connections that waited twice as long are
        /// refused with 503, if a refusal costs much less than an answer.
        wait_max: Span = WAIT_MAX.into(),
        /// The longest request line, in bytes; not more than `header_bytes`. Beyond the bound: 414.
        request_line_bytes: At<Size> = At::unwritten(Size::bytes(limits::REQUEST_LINE_BYTES as u64)); from 128, to M,
        /// The most header fields of a request. Beyond the bound: 431.
        header_count: u64 = limits::HEADER_COUNT as u64; from 1, to 10_000,
        /// The longest request head (request line and header fields), in bytes. Beyond the bound:
        /// 431.
        header_bytes: Size = Size::bytes(limits::HEADER_BYTES as u64); from 256, to 16 * M,
        /// The longest request body, in bytes. Beyond the bound: 413.
        body_bytes: Size = Size::bytes(limits::BODY_BYTES); from 0, to T,
        /// Memory for request bodies to PHP and CGI programs, in bytes, for all requests of an
        /// instance together. Beyond the bound, the server spools bodies to files, however short.
        body_memory_bytes: Size = Size::bytes(gateway::CONTENT_MEMORY_BYTES_MAX); from 0, to T,
        /// Requests per connection before the server closes the connection; 1 turns keep-alive off.
        requests_per_connection: u64 = u64::from(limits::REQUESTS_PER_CONNECTION); from 1, to u64::from(u32::MAX),
        /// The most ranges of a range request. Beyond the bound, the server sends the whole file.
        ranges_max: u64 = limits::RANGES_MAX as u64; from 0, to 1000,
        /// The most names on a page of a listing. Further names are on further pages, with links on
        /// each page.
        listing_names: u64 = LISTING_NAMES_MAX as u64; from 1, to 1 << 20,
    }
}

table! {
    /// Timeouts for a client.
    pub(super) struct TimeoutsTable {
        /// From the start of the connection, or the first byte of a later request, to the end of
        /// the head. Then: 408.
        header: Span = Timeouts::default().header.into(),
        /// From the end of the head to the end of the body. Then the connection is closed. For a
        /// body to a program, this time applies to each wait for further bytes, and the whole body
        /// may take a second more for every 500 bytes received. Then: 408.
        body: Span = Timeouts::default().body.into(),
        /// From the end of an answer to the next request. Then the connection is closed.
        keep_alive: Span = Timeouts::default().keep_alive.into(),
        /// The longest time in which the client takes no byte of the answer. Then the connection is
        /// cut.
        write: Span = Timeouts::default().write.into(),
        /// From the first signal to stop until the server stops accepting: time for balancers to
        /// see that the server is not ready any more. Without the key: none.
        leave: Option<Span> = None,
        /// From that moment until the server cuts the remaining connections.
        drain: Span = Timeouts::default().drain.into(),
    }
}

table! {
    /// The memory cache of the files of all hosts, for all cores together.
    pub(super) struct CacheTable {
        /// Memory for file contents, in bytes. At the bound the server evicts the least used
        /// contents; 0 turns the cache off. Without the key: a 200th of the memory that the server
        /// may use, at least 64M.
        bytes: Option<Size> = None; from 0, to T,
        /// Cached paths, about 1 KB each. At the bound the server evicts the least used paths.
        /// Without the key: a 400th of the memory that the server may use, at least 32M, so at
        /// least 32768 paths.
        entries: Option<u64> = None; from 1, to 1 << 24,
        /// The largest cached file, in bytes; not more than `bytes`. Larger files are read from the
        /// kernel's page cache. A file above 64K is copied into a sealed memory file once it is
        /// asked for four times within a second; the kernel sends the copy without copying again.
        file_bytes: At<Size> = At::unwritten(Size::bytes(4 * M)); from 0, to G,
        /// Whether larger files are sent by sendfile(2), which takes less processor time. But if a
        /// program writes in place, truncates or maps the file during the transfer, the client may
        /// get a complete answer with mixed content. With `false`, the server reads each part,
        /// checks the file again, and cuts the connection if the file has changed.
        sendfile: bool = false,
    }
}

table! {
    /// The server's own large memory: the cached contents of files. The memory is on the nodes of
    /// its instance.
    pub(super) struct MemoryTable {
        /// `small` uses the allocator. `huge` takes reserved huge pages (`vm.nr_hugepages`), all at
        /// the start. `transparent` takes huge pages that the kernel finds. `auto` takes reserved
        /// pages if enough are free, else transparent pages. The start message reports the result.
        pages: Pages = Pages::Small,
    }
}

table! {
    /// Settings for all hosts together.
    pub(super) struct HostsTable {
        /// The answer to a request for a name that no host has: `default` the default host,
        /// `refuse` 421.
        unknown: Unknown = Unknown::Default,
        /// The most open folders of hosts. The first request for a host opens its folder. At the
        /// bound the server closes the folders that were unused for the longest time.
        open_max: u64 = SITES_OPEN_MAX as u64; from 1, to 1 << 20,
        /// The most hosts with counts of their own in the status and in the metrics: those with the
        /// most requests since the start. The other hosts are counted together. Each such host
        /// adds three series to a monitor.
        counted_max: u64 = HOSTS_SHOWN_MAX as u64; from 0, to 1000,
    }
}

table! {
    /// A virtual host: its names, and the files and programs served there. May be written several
    /// times. The lookup of a host takes the same time among a hundred thousand hosts.
    pub(super) struct HostTable {
        /// The names of the host, in any case of letters, without port: `"example.org"`, or
        /// `"*.example.org"` for all names below `example.org`. An exact name takes precedence over
        /// a wildcard, a longer wildcard over a shorter one. The default host needs no name.
        names: Vec<At<String>> = Vec::new(),
        /// Whether this host answers requests for names that no host has. If no host sets this key,
        /// the first host does.
        default: At<bool> = At::unwritten(false),
        /// The listeners of the host, by their addresses as written in `[[listener]]`. Without the
        /// key: all listeners. A request for a name of this host at another listener is a request
        /// for a name that no host has. Each listener has a default host: the host without a name
        /// that is bound to the listener; else the default host, if that host answers there; else
        /// the first host that is bound to the listener.
        listen: Option<At<Vec<At<Listen>>>> = None,
        /// The folder of served files; relative to the folder of this file. Clients cannot reach
        /// files outside the folder. Without the key, every path without a route is 404.
        root: Option<At<PathBuf>> = None,
        /// The certificate of the host, for listeners with `tls = true`: a PEM file that begins
        /// with the certificate of the host, followed by the certificates of its issuers
        /// (`fullchain.pem` of certbot and acme.sh); relative to the folder of this file. The
        /// server loads the file when a client first asks for the host, and loads a changed file
        /// within two seconds. A list names several certificates, for example with keys of
        /// different kinds; a client gets the first that the client supports. A host without a
        /// certificate answers with the certificate of the default host.
        certificate: Option<At<OneOrMore<PathBuf>>> = None,
        /// The private key of the certificate, a PEM file that not every user of the machine may
        /// read. With several certificates: a list of keys in the same order. Without the key: the
        /// private key is in the file of the certificate.
        key: Option<At<OneOrMore<PathBuf>>> = None,
        /// The stapled answer of the issuer about revocation (OCSP): a file in DER, as certbot and
        /// `openssl ocsp -respout` write. With several certificates: a list in the same order. The
        /// server sends the file as it is, so renew the file before its `Next Update`.
        staple: Option<At<OneOrMore<PathBuf>>> = None,
        /// The issuers of the certificates of clients, a PEM file that not every user of the
        /// machine may write. With the key, the server asks each client for a certificate, and a
        /// request over a connection for another host gets 421.
        client_issuers: Option<At<PathBuf>> = None,
        /// Whether clients need a certificate. `required`: a client without a certificate is
        /// refused in the handshake, and a request without TLS gets 403. `optional`: programs see
        /// in `SSL_CLIENT_VERIFY` whether there is a certificate. Without the key: `required`.
        client_certificate: Option<At<ClientNeed>> = None,
        /// Whether requests of the host must use HTTPS. `optional`: HTTP and HTTPS serve the same.
        /// `redirect`: a request over HTTP is redirected to HTTPS, except below
        /// `/.well-known/acme-challenge/`, where issuers of certificates look. `only`: also tells
        /// browsers to use HTTPS alone for a year (`Strict-Transport-Security`).
        https: At<HttpsUse> = At::unwritten(HttpsUse::Optional),
        /// The access log of this host: a file, or `"off"`; relative to the folder of this file.
        /// Several hosts may have the same file. The format is `log_format`, or `combined` without
        /// that key. Requests that no host answers are in the log of the server. Without the key:
        /// the log of the server. Example: `"/var/log/vermeil/example.org.log"`.
        log: Option<At<LogTarget>> = None,
        /// The index pages of a folder; the first existing page is the answer. If the page is a
        /// program, the program runs. The configuration is refused if no route runs the program.
        index: Vec<At<String>> = SiteOptions::default().index_names.into_iter().map(At::unwritten).collect(),
        /// The paths that the server looks up for a request, in this order. The first path with a
        /// file, a program or a folder gives the answer. The first path is always `"{path}"`, the
        /// path of the request. `["{path}", "/index.php"]` makes a program the front controller of
        /// an application. `["{path}", "{path}.html"]` gives pages short addresses. The program
        /// gets the address of the request in `REQUEST_URI`. Without the key: `["{path}"]`.
        r#try: Vec<At<String>> = Vec::new(),
        /// Whether the server lists a folder without an index page, instead of answering 403.
        listing: bool = true,
        /// Media types by extension, each as `"EXTENSION=TYPE"`, for example
        /// `"ts=text/x-typescript"`. They take precedence over the built-in types.
        types: Vec<At<String>> = Vec::new(),
        /// `Cache-Control` of files by media type: `"text/css"`, `"image/*"`, or `"*"` for all. The
        /// first match counts. Applies to files that are found (200, 206, 304), not to programs.
        /// Example: `{ "text/html" = "no-cache", "*" = "max-age=86400" }`.
        cache_control: FreeTable<String> = FreeTable::NONE,
        /// Whether files have entity tags (`ETag`). `Last-Modified` stays.
        etag: bool = true,
        /// Fields of the answers of this host, as `{ NAME = "VALUE" }`. A list gives several lines,
        /// `false` removes the field. The answer has exactly these values, whether a file, a
        /// program or an error page answers. `Cache-Control` and `Expires` apply to answers below
        /// 400 only, `Content-Type` to answers with content below 300, but not to several ranges.
        /// The server refuses fields of the connection and the framing, and values with a line end.
        /// Answers of programs named `nph-` stay as they are. Example:
        /// `{ X-Content-Type-Options = "nosniff", Server = false }`.
        headers: FreeTable<FieldValues> = FreeTable::NONE,
        /// Fields that the answers of this host get beside the fields of the same name that they
        /// have. Example: `{ Link = "</style.css>; rel=preload; as=style" }`.
        add_headers: FreeTable<FieldValues> = FreeTable::NONE,
        /// Whether the server compresses answers: `true`, or a table (see `[host.compress]`).
        /// Without the key, no answer is compressed.
        compress: WrittenCompression = None,
        /// Pages of errors, as `{ STATUS = "PATH" }`: a status, `4xx` or `5xx`, and the path of a
        /// file of this host. The first match counts. Without a page, the server writes a short
        /// page; for 404, the file `404.html` at the top of the folder, if there is one. Example:
        /// `{ 404 = "/404.html", 5xx = "/trouble.html" }`.
        error_pages: FreeTable<String> = FreeTable::NONE,
        /// Whether these pages also replace the errors that programs answer. Errors of programs
        /// that fail or are late have the pages in any case.
        error_pages_of_programs: At<bool> = At::unwritten(false),
        /// The symbolic links below the folder that are followed: `within` relative links that stay
        /// below the folder at every step, `all` every link, `none` no link.
        follow_symlinks: FollowSymlinks = FollowSymlinks::Within,
        /// Whether PHP answers for files named `*.php`, in any case of letters, and `index.php` for
        /// folders without an index page. `true`: the PHP of the server (see `[php]`). A table: a
        /// pool for this host. Otherwise such files get 403, because the server never sends the
        /// text of a program.
        php: FlagOr<HostPhpTable> = FlagOr::Flag(false),
        /// The user and the bounds of this host's CGI programs, where they differ from `[cgi]`.
        cgi: Option<HostCgiTable> = None,
        /// The clients of the host: networks, users with passwords, rates.
        access: Option<At<AccessTable>> = None,
        /// Paths that are not served as files. The first matching route counts; a path without a
        /// matching route is a file.
        route: Vec<At<RouteTable>> = Vec::new(),
    }
}

table! {
    /// An action for a part of a host's paths, chosen by `path`, `prefix`, `suffix` and `pattern`,
    /// and by conditions. All that are written must match. Paths are compared after decoding, and
    /// without dot segments and empty segments.
    pub(super) struct RouteTable {
        /// The whole path: `"/"` or `"/robots.txt"`. Example: `path = "/favicon.ico"`.
        path: Option<At<String>> = None,
        /// The start of the path, in whole segments: `"/old"` matches `/old` and all paths below,
        /// not `/older`.
        prefix: Option<At<String>> = None,
        /// The end of a segment of the path, in any case of letters: `".php"` matches `/a.php`,
        /// `/a.PHP` and `/a.php/more`.
        suffix: Option<At<String>> = None,
        /// A regular expression that is found in the path, with `^` and `$` for its ends and `(?i)`
        /// for any case of letters. At most 1000 bytes. Its groups stand in `to` as `{1}` to `{9}`.
        /// Example: `"^/user/([0-9]+)$"`.
        pattern: Option<At<String>> = None,
        /// The methods of the route; `GET` includes `HEAD`. Other requests go to later routes.
        /// Example: `["POST", "PUT"]`.
        methods: Vec<At<String>> = Vec::new(),
        /// Conditions on fields of the request: `"NAME"`, `"!NAME"`, `"NAME=VALUE"`,
        /// `"NAME!=VALUE"`, `"NAME~PATTERN"` or `"NAME!~PATTERN"`. All must hold. Other requests go
        /// to later routes. Example: `["User-Agent~(?i)bot"]`.
        fields: Vec<At<String>> = Vec::new(),
        /// Conditions on parameters of the query, as with `fields`. Example: `["page=2",
        /// "!debug"]`.
        query: Vec<At<String>> = Vec::new(),
        /// The clients of the route, as with `from`; other clients go to later routes. Example:
        /// `["10.0.0.0/8"]`.
        clients: Option<At<Vec<At<String>>>> = None,
        /// Of `files`: another folder. The path in the folder is the path behind `prefix`. Programs
        /// do not run there. Relative to the folder of this file. Example: `prefix = "/docs"` and
        /// `root = "/usr/share/doc"`.
        root: Option<At<PathBuf>> = None,
        /// Of `files`: the paths to look up, as with `try` of the host, for paths of this route.
        r#try: Option<At<Vec<At<String>>>> = None,
        /// The clients that may use the route, by address or network: `["10.0.0.0/8", "::1"]`.
        /// `"unix"` stands for the clients of unix sockets, which have no address and are in no
        /// network. Without the key: all clients. Other clients get 404, as for a missing path,
        /// whatever routes follow. The client is the other end of the connection, or the client
        /// that a proxy of `[proxies]` names.
        from: Option<At<Vec<At<String>>>> = None,
        /// The action. `files` serves files after all. `redirect` sends the client to another
        /// address. `rewrite` answers as for the path in `to`, and tries later routes only;
        /// programs find the first address in `REQUEST_URI`. `answer` sends the text in `body`.
        /// `deny` refuses. `cgi` runs the program that the path names below the host's folder (see
        /// `[cgi]`). `status` reports the output of `vermeil status` (JSON with the query `json`)
        /// to all clients, unless `from` limits the clients. `metrics` gives the same numbers to a
        /// monitor, in the OpenMetrics text format. With several instances, both cover the
        /// answering instance. `ready` is 200 until the server is told to stop, and 503 from then
        /// on.
        action: ActionWord,
        /// For `redirect` and `rewrite`: the target, a path or an address; for `rewrite` a path.
        /// `{scheme}`, `{host}`, `{name}`, `{path}`, `{rest}` and `{query}` stand for the parts of
        /// the request, `{1}` to `{9}` for the groups of `pattern`. `{scheme}` is `http` or
        /// `https`, also as a believed proxy says. `{host}` includes the port, if the request has a
        /// port; `{name}` is the host without it. `{rest}` is the path after the prefix, with the
        /// slash between both unless a slash stands before `{rest}`. `{query}` includes the
        /// question mark, if the request has a query.
        /// For an HTTP/1.0 client that names no host, `{host}` is the first of `names` that is not
        /// a wildcard. `prefix = "/"` and `to = "https://new.example{rest}{query}"` move a whole
        /// host.
        to: Option<At<String>> = None,
        /// The status. For `redirect`: one of 301, 302, 303, 307, 308; without the key 301. For
        /// `answer`: without the key 200. For `deny`: an error; without the key 403.
        code: Option<At<u64>> = None,
        /// For `answer`: the text. Example: `body = "User-agent: *"`.
        body: Option<At<String>> = None,
        /// For `answer`: the media type of the text. Without the key: `text/plain; charset=utf-8`.
        content_type: Option<At<String>> = None,
        /// Fields of the answers of this route, as with `headers` of the host. The fields of the
        /// host apply too, unless this table has the same name. Example: `{ Content-Disposition =
        /// "attachment" }`.
        headers: FreeTable<FieldValues> = FreeTable::NONE,
        /// Fields that the answers of this route get beside their own, as with `add_headers` of the
        /// host.
        add_headers: FreeTable<FieldValues> = FreeTable::NONE,
        /// Of `files` and `cgi`: whether answers are compressed. Without the key: as for the host.
        /// Example: `compress = false` for a path whose answers have secrets.
        compress: WrittenCompression = None,
        /// The clients of the route. Keys that are not set are those of the host.
        access: Option<At<AccessTable>> = None,
    }
}

table! {
    /// The clients that a host or a route lets in. The checks come in the order of the keys. The
    /// rules of a path are those of the route that answers, and of the host for keys that this
    /// route does not set. `[host.route.access]` stands below its `[[host.route]]`.
    pub(super) struct AccessTable {
        /// The clients that are let in, by address or network, as in `from` of a route: for example
        /// `["10.0.0.0/8", "::1"]`. Without the key: all clients. Other clients get 403.
        allow: Option<At<Vec<At<String>>>> = None,
        /// Clients that are not let in, although `allow` has them: for example `["10.1.0.0/16"]`.
        deny: Option<At<Vec<At<String>>>> = None,
        /// How often a client may ask.
        rate: Option<At<RateKeys>> = None,
        /// How many requests of a client may be in progress at once.
        in_progress: Option<At<ProgressKeys>> = None,
        /// The file of the users and their passwords, as `htpasswd -B` (bcrypt), `htpasswd -5`
        /// (SHA-crypt) or Argon2 makes it: for example `"users.htpasswd"`. Clients get 401 until
        /// they send name and password (basic authentication, RFC 7617), which need TLS. Programs
        /// get `REMOTE_USER` and `AUTH_TYPE`, and no `Authorization`. A change of the file takes
        /// effect with a reload. `"off"`, on a route, lets in clients without a password. Relative
        /// to the folder of this file.
        users: Option<At<PathBuf>> = None,
        /// The name that browsers show when they ask for the password: for example `"Members"`.
        realm: Option<At<String>> = None,
    }
}

table! {
    /// How often a client may ask, for example `rate = { requests = 10, per = "1s", burst = 20 }`.
    /// Requests beyond the burst get 429 with `Retry-After`.
    pub(super) struct RateKeys {
        /// The requests in the time `per`.
        requests: u64; from 1, to 1_000_000,
        /// The time.
        per: Span = Duration::from_secs(1).into(),
        /// Requests beyond the rate that are accepted.
        burst: u64 = 0; from 0, to 1_000_000,
        /// The last requests of the burst wait until they keep to the rate; this is their number.
        /// The first ones are answered at once.
        delayed: At<u64> = At::unwritten(0),
        /// The requests that count together. `"client"`: those of a client address
        /// (`client_ipv6_prefix` of IPv6). `"all"`: all requests. `"field:NAME"`: those with the
        /// same value of the field NAME, for example `"field:X-Api-Key"`; requests without the
        /// field count by client.
        by: At<String> = At::unwritten("client".to_owned()),
    }
}

table! {
    /// How many requests of a client may be in progress at once, for example `in_progress = {
    /// requests = 10 }`. A request is in progress until the client has its whole answer.
    pub(super) struct ProgressKeys {
        /// The requests in progress. Further requests are refused with `Retry-After`. Each instance
        /// of the server counts for itself.
        requests: u64; from 1, to 1_000_000,
        /// The requests that count together, as with `rate`.
        by: At<String> = At::unwritten("client".to_owned()),
        /// The status of a refused request: 503 or 429.
        code: At<u64> = At::unwritten(503),
    }
}

table! {
    /// Limits of all programs: PHP and CGI.
    pub(super) struct ProgramsTable {
        /// The longest wait of a request for a PHP child, or for the turn of its CGI program. Then:
        /// 503.
        queue_timeout: Span = GatewayTimeouts::default().queue.into(),
        /// The longest silence of a program: no byte of the answer comes, and no byte of the
        /// request is taken. Then: 504, or the answer is cut.
        timeout: Span = GatewayTimeouts::default().answer.into(),
        /// The longest request body for programs, in bytes. Beyond the bound: 413.
        body_bytes: Size = Size::bytes(gateway::CONTENT_BYTES); from 0, to T,
        /// The folder for request bodies above 64 KiB; relative to the folder of this file. The
        /// files in the folder have no name. Without the key: `TMPDIR`, or `/var/tmp`. A change
        /// needs a restart.
        spool_folder: Option<PathBuf> = None,
        /// The most bytes of spooled bodies on the disk, for all requests together. Beyond the
        /// bound: 503. A change needs a restart.
        spool_bytes: Size = Size::bytes(gateway::SPOOL_BYTES); from 0, to 1 << 50,
    }
}

table! {
    /// PHP over FastCGI.
    pub(super) struct PhpTable {
        /// The PHP to use: `"auto"`, a pool of our own with the php-fpm or php-cgi that is found;
        /// the path of a php-fpm or php-cgi; or a pool that runs already, `"unix:PATH"`,
        /// `"ADDRESS:PORT"` or `"NAME:PORT"`. The server uses the first address of a name that
        /// accepts a connection.
        source: At<String> = At::unwritten("auto".to_owned()),
        /// Children of the pool, and the most open connections to the pool: 1 to 10000. Without the
        /// key: 4 for each core.
        children: Option<At<u64>> = None,
        /// Connections to a pool that runs already which stay open between requests, for a quarter
        /// of a second. Each connection holds a child that other users of the pool may need.
        /// Without the key: a quarter of `children`; 0 keeps none.
        kept_max: Option<u64> = None; from 0, to 10_000,
        /// Requests that may wait for a child. Beyond the bound: 503.
        queue_max: u64 = php::QUEUE_MAX as u64; from 0, to 1_000_000,
        /// Requests after which a child of our own pool is replaced; 0: never.
        requests_per_child: u64 = u64::from(php::REQUESTS_PER_CHILD); from 0, to u64::from(u32::MAX),
        /// The user of our own pool, if the superuser starts the server. Without the key:
        /// `www-data`, or `nobody`.
        user: Option<At<String>> = None,
        /// Whether the processes of our own pool cannot gain privileges by executing other
        /// programs. Most mail programs need `false`, because `mail()` starts a set-group-ID
        /// helper.
        no_new_privileges: bool = true,
        /// Folders from which PHP may let the server send files: with `X-Sendfile` and the absolute
        /// path of a file. For a folder written as `"PREFIX=FOLDER"`, for example
        /// `"/files=/srv/files"`, also with `X-Accel-Redirect` and a path that begins with the
        /// prefix. Relative to the folder of this file. For hosts with `php = true`; hosts with a
        /// pool of their own list their folders there.
        send: Vec<At<String>> = Vec::new(),
        /// The most running pools of hosts. At the bound, the server stops the pool that was idle
        /// for the longest time to start another. While no pool is idle, the requests of the other
        /// pool wait. Does not affect `php = true`.
        pools_max: u64 = php::POOLS_MAX as u64; from 1, to 100_000,
    }
}

table! {
    /// CGI programs, started for one request each.
    pub(super) struct CgiTable {
        /// The user of the programs, with its groups, but not the superuser or `user`. Without the
        /// key: the server's user, with all its rights; refused for the superuser, and beside other
        /// programs or PHP of another user. With the key, a reload may add programs of any user.
        user: Option<At<String>> = None,
        /// The most running programs of all hosts. Further requests wait for a program to end.
        running_max: u64 = cgi::RUNNING_MAX as u64; from 1, to 100_000,
        /// The most running programs of a host.
        host_running_max: u64 = cgi::HOST_RUNNING_MAX as u64; from 1, to 100_000,
        /// The most waiting requests of a host. Beyond the bound: 503.
        host_waiting_max: u64 = cgi::HOST_WAITING_MAX as u64; from 0, to 1_000_000,
        /// The longest run time of a program. Then the server kills the program and its process
        /// group: 504, or the answer is cut. `timeout` and `queue_timeout` in `[programs]` bound
        /// the silence of a program and the wait of a request.
        timeout: Span = cgi::TIME_LIMIT.into(),
        /// The most address space of each process of a program, in bytes, from 1M. Without the key:
        /// no bound.
        memory: Option<At<Size>> = None,
        /// Whether programs whose names begin with `nph-` write the whole answer themselves.
        nph: bool = false,
        /// Folders from which programs may let the server send files, as in `[php]`.
        send: Vec<At<String>> = Vec::new(),
    }
}

table! {
    /// The user and the bounds of the CGI programs of a host. Missing keys are as in `[cgi]`.
    pub(super) struct HostCgiTable {
        /// The user, or `"USER:GROUP"`, with its groups. Needs a server that the superuser starts.
        user: Option<At<String>> = None,
        /// The working directory of programs, below the host's folder; `"."` is the host's folder.
        /// Without the key: the folder of the program.
        directory: Option<At<PathBuf>> = None,
        /// Environment variables, as `{ NAME = "value" }`. The server sets the variables that
        /// describe the request.
        environment: FreeTable<String> = FreeTable::NONE,
        /// The longest run time of a program. Then the server kills the program and its process
        /// group: 504, or the answer is cut.
        timeout: Option<Span> = None,
        /// The most address space of each process of a program, in bytes, from 1M.
        memory: Option<At<Size>> = None,
        /// The most processor time of each process of a program, counted in whole seconds.
        cpu_time: Option<Span> = None,
        /// The largest file that a program may write, in bytes.
        file_bytes: Option<Size> = None,
        /// The most open descriptors of each process of a program. Without the key: 1024.
        descriptors: Option<u64> = None; from 8, to 1 << 20,
        /// The most processes of the programs' user, including processes that other programs
        /// started.
        processes: Option<u64> = None; from 1, to 1 << 22,
        /// Whether programs cannot gain privileges by executing other programs, for example `sudo`
        /// or `sendmail`.
        no_new_privileges: bool = true,
        /// Folders from which programs may let the server send files, as in `[php]`; `[]` allows
        /// none.
        send: Option<Vec<At<String>>> = None,
        /// The cgroup in which programs start.
        cgroup: Option<CgroupTable> = None,
        /// The part of the file system that programs can access. Without the key: every file that
        /// their user may access.
        landlock: Option<LandlockTable> = None,
    }
}

table! {
    /// A cgroup (version 2), for all programs of a host together. The start of the first program
    /// creates the cgroup. The parent folder must exist, with the needed controllers in its
    /// `cgroup.subtree_control`. Needs a server that the superuser starts, or whose user owns the
    /// folder. The server also writes the bounds into an existing cgroup; settings without a key
    /// here stay unchanged. Hosts with the same folder have the same bounds.
    pub(super) struct CgroupTable {
        /// The folder of the cgroup, for example `"/sys/fs/cgroup/vermeil/example.org"`.
        folder: At<PathBuf>,
        /// Memory, in bytes, from 1M (`memory.max`).
        memory: Option<At<Size>> = None,
        /// Processor time, in hundredths of a cpu (`cpu.max`).
        cpu_percent: Option<u64> = None; from 1, to 1_000_000,
        /// Processes and threads (`pids.max`).
        processes: Option<u64> = None,
    }
}

table! {
    /// The part of the file system that programs of a host can access, by Landlock: the host's
    /// folder, read only, and the paths named here. Landlock refuses all other paths, for every
    /// user. Without Landlock in the kernel, such a program does not run.
    pub(super) struct LandlockTable {
        /// Files and folders, with all below, that programs may read and execute. Missing paths are
        /// skipped.
        read: Vec<PathBuf> = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/dev"].map(PathBuf::from).to_vec(),
        /// Files and folders, with all below, that programs may also write.
        write: Vec<PathBuf> = vec![PathBuf::from("/dev/null")],
    }
}

/// The actions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActionWord {
    Files,
    Cgi,
    Redirect,
    Rewrite,
    Answer,
    Deny,
    Status,
    Metrics,
    Ready,
}

/// The fields of proxies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForwardedWord {
    XForwarded,
    Forwarded,
    None,
}

/// Implements reading for a value that is one of several words.
macro_rules! words {
    ($($type:ty: $($word:literal => $meaning:path),+;)+) => {$(
        impl ConfigSetting for $type {
            fn kind() -> ValueKind {
                ValueKind::Words(vec![$($word),+])
            }

            fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
                reader.word(node, &[$(($word, $meaning)),+])
            }

            fn shown(&self) -> Option<String> {
                [$(($word, $meaning)),+].iter().find(|(_, meaning)| meaning == self).map(|(word, _)| format!("\"{word}\""))
            }
        }
    )+};
}

words! {
    Balance: "auto" => Balance::Auto, "local" => Balance::Local, "hash" => Balance::Hash,
        "load-aware" => Balance::LoadAware, "fixed" => Balance::Fixed, "round-robin" => Balance::RoundRobin;
    IoChoice: "auto" => IoChoice::Auto, "uring" => IoChoice::Uring, "epoll" => IoChoice::Epoll;
    MovePolicy: "adaptive" => MovePolicy::Adaptive, "per-node" => MovePolicy::PerNode,
        "none" => MovePolicy::None, "libasync" => MovePolicy::Libasync, "mely" => MovePolicy::Mely,
        "scatter" => MovePolicy::Scatter;
    BusyPoll: "off" => BusyPoll::Off, "load" => BusyPoll::Load;
    FollowSymlinks: "within" => FollowSymlinks::Within, "all" => FollowSymlinks::All, "none" => FollowSymlinks::None;
    Unknown: "default" => Unknown::Default, "refuse" => Unknown::Refuse;
    ActionWord: "files" => ActionWord::Files, "cgi" => ActionWord::Cgi, "redirect" => ActionWord::Redirect,
        "rewrite" => ActionWord::Rewrite, "answer" => ActionWord::Answer, "deny" => ActionWord::Deny,
        "status" => ActionWord::Status, "metrics" => ActionWord::Metrics, "ready" => ActionWord::Ready;
    ForwardedWord: "x-forwarded" => ForwardedWord::XForwarded, "forwarded" => ForwardedWord::Forwarded,
        "none" => ForwardedWord::None;
    Choice: "zstd" => Choice::Zstd, "br" => Choice::Br, "gzip" => Choice::Gzip;
    Pages: "auto" => Pages::Auto, "huge" => Pages::Huge, "transparent" => Pages::Transparent, "small" => Pages::Small;
    MinimumVersion: "1.2" => MinimumVersion::Tls12, "1.3" => MinimumVersion::Tls13;
    ClientNeed: "required" => ClientNeed::Required, "optional" => ClientNeed::Optional;
    HttpsUse: "optional" => HttpsUse::Optional, "redirect" => HttpsUse::Redirect, "only" => HttpsUse::Only;
    LoadReport: "off" => LoadReport::Off, "text" => LoadReport::Text, "json" => LoadReport::Json;
}
