//! The keys of `vermeil.toml`: every one with its kind, its default, its bounds and what it does.
//!
//! The only place where a key is defined: reading, hints and the reference page all come from here. Bounds are those of
//! the command line's options of the same name. Leaves out what the keys come to together (`resolve.rs`).

use super::{
    describe::{Kind, table},
    read::{At, FlagOr, Node, Reader, Setting},
    values::{FileMode, Listen, Size, Span},
};
use crate::{
    CLIENT_IPV6_PREFIX, CONNECTIONS_MAX, IoChoice, SITES_OPEN_MAX, Timeouts, WAIT_MAX,
    balance::Balance,
    balancers::LoadReport,
    busy_poll::BusyPoll,
    cgi,
    control::ControlTarget,
    files::{FollowSymlinks, LISTING_NAMES_MAX, SiteOptions, StoreOptions},
    gateway::{self, GatewayTimeouts},
    hosts::Unknown,
    log::{LogFormat, LogTarget},
    php,
};
use std::path::PathBuf;
use vermeil_http::limits;
use vermeil_io::Pages;
use vermeil_topology::{CoreSelection, InstanceSelection};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
const T: u64 = 1 << 40;

table! {
    /// The server as a whole.
    pub(super) struct Document {
        /// Which cpus to run on, one event loop each: `"all"`, a number of them, or a list such as `"0-3,8"`.
        cores: At<CoreSelection> = At::unwritten(CoreSelection::All),
        /// Into how many processes the server is divided: `"per-node"` one for each memory node that has cores of it, `"one"`, or a
        /// number. With more than one, a supervisor starts them, each with its own cores, memory of its nodes, caches and PHP pool;
        /// bounds are each one's.
        instances: InstanceSelection = InstanceSelection::PerNode,
        /// How new connections find their cores. `local`: the core that handles the packets; neighbours relieve one that is stuck.
        /// `load-aware` (takes CAP_BPF): the same, unless much more work waits there than elsewhere. `hash`, `fixed` and `round-robin`
        /// are for comparison. `auto`: the first of `load-aware`, `local` and `hash` that a self-test at start shows to work.
        balance: Balance = Balance::Auto,
        /// How the kernel is asked for input and output. `auto` takes io_uring where all of it that is needed works.
        io: IoChoice = IoChoice::Auto,
        /// Whether a core that has much to do asks its network card for packets instead of waiting for an interrupt: `off`, or `load`,
        /// from 1,000 requests a second on a core on, and until they are fewer than 250 for a second. Takes Linux 6.9, and connections
        /// of one queue of the card on each core.
        busy_poll: BusyPoll = BusyPoll::Off,
        /// Where the access log goes: `"-"` (standard output), a file, or `"off"`.
        log: LogTarget = LogTarget::Stdout,
        /// The form of its lines. `combined`: the combined format of NCSA and Apache. `vhost_combined`: the same behind `HOST:PORT`, as
        /// the client asked for them. `json`: one object per line. Without it: `combined` with one host, `vhost_combined` with several.
        log_format: Option<LogFormat> = None,
        /// The user, or `"USER:GROUP"`, that all processes of the server become once ports are bound, and the log and the control
        /// socket are opened. For a server that the superuser starts; without it, it stays the superuser, with a warning.
        user: Option<At<String>> = None,
        /// Where the control socket is, by which `vermeil status` and `vermeil reload` reach the server: a path, or `"off"`. Without
        /// it: a private folder of the user, so that the commands find it by themselves.
        control: ControlTarget = ControlTarget::Default,
        /// Where HAProxy's agent checks are answered: how much of its weight a balancer should give this server, and whether it is
        /// about to end. Without it: nowhere.
        agent: Option<At<Listen>> = None,
        /// Whether answers report how loaded the server is, in a field `endpoint-load-metrics` (ORCA, which Envoy and gRPC read).
        load_report: LoadReport = LoadReport::Off,
        /// Where to listen. Without one: 127.0.0.1, port 8080.
        listener: Vec<ListenerTable> = Vec::new(),
        /// Bounds of what clients may send.
        limits: LimitsTable = LimitsTable::unwritten().expect("every key has a default"),
        /// How long clients may take.
        timeouts: TimeoutsTable = TimeoutsTable::unwritten().expect("every key has a default"),
        /// What is kept in memory of the files served.
        cache: CacheTable = CacheTable::unwritten().expect("every key has a default"),
        /// The pages that the server's own large memory is on.
        memory: MemoryTable = MemoryTable::unwritten().expect("every key has a default"),
        /// What holds for all hosts together.
        hosts: HostsTable = HostsTable::unwritten().expect("every key has a default"),
        /// The PHP of all hosts with `php = true`.
        php: PhpTable = PhpTable::unwritten().expect("every key has a default"),
        /// What the programs of routes with `action = "cgi"` run as and within.
        cgi: CgiTable = CgiTable::unwritten().expect("every key has a default"),
        /// The virtual hosts, at least one.
        host: Vec<At<HostTable>> = Vec::new(),
    }
}

table! {
    /// An address to listen on. May be written several times.
    pub(super) struct ListenerTable {
        /// `"PORT"` is a port of 127.0.0.1, `":PORT"` a port of all interfaces (IPv4 and IPv6); `"ADDRESS:PORT"`,
        /// `"[IPV6]:PORT"` and `"NAME:PORT"` are what they say. Port 0 takes any free port.
        /// `"unix:PATH"` is a unix socket, for a proxy on the same machine; a relative path begins at
        /// the folder of this file. A socket that an ended server left behind is replaced.
        address: At<Listen>,
        /// The mode of a unix socket's file, in octal digits: the users with the right to write may
        /// connect. Without it: `"0666"`, all users of the machine.
        mode: Option<At<FileMode>> = None,
    }
}

table! {
    /// What one client may send, and how many clients there are.
    pub(super) struct LimitsTable {
        /// Connections held at once, on each core. Beyond it those are closed for new ones whose
        /// clients hold a place and nothing else: first between two requests, then without a byte
        /// sent for 100 ms, then after the last answer, then half heads, half bodies and answers
        /// that are not read, each after a second without progress. Without any, new ones wait in
        /// the kernel's queue.
        connections_max: u64 = CONNECTIONS_MAX as u64; from 1, to 10_000_000,
        /// Connections of one client address, on all cores of an instance. Beyond it: 503, and the
        /// connection is closed. Without it: no bound, because many clients may share the address
        /// of a proxy.
        client_connections_max: Option<u64> = None; from 1, to 10_000_000,
        /// Leading bits of an IPv6 address that tell clients apart: 64 is the network of one
        /// customer, 128 each address.
        client_ipv6_prefix: u64 = u64::from(CLIENT_IPV6_PREFIX); from 16, to 128,
        /// How long connections may wait to be accepted. If more arrive than can be served, so few are let wait that it takes no
        /// longer, and those that did wait twice as long are refused with 503 where that costs much less than serving them.
        wait_max: Span = WAIT_MAX.into(),
        /// The longest request line, in bytes; not more than `header_bytes`. Beyond it: 414.
        request_line_bytes: At<Size> = At::unwritten(Size::bytes(limits::REQUEST_LINE_BYTES as u64)); from 128, to M,
        /// The most header fields of a request. Beyond it: 431.
        header_count: u64 = limits::HEADER_COUNT as u64; from 1, to 10_000,
        /// The longest request head, that is request line and header fields, in bytes. Beyond it: 431.
        header_bytes: Size = Size::bytes(limits::HEADER_BYTES as u64); from 256, to 16 * M,
        /// The longest request body, in bytes. Beyond it: 413.
        body_bytes: Size = Size::bytes(limits::BODY_BYTES); from 0, to T,
        /// Memory for the bodies of requests to PHP and CGI programs, in bytes, all requests of an
        /// instance together. Beyond it bodies are spooled to files, however short.
        body_memory_bytes: Size = Size::bytes(gateway::CONTENT_MEMORY_BYTES_MAX); from 0, to T,
        /// Requests answered on one connection before it is closed; 1 is no keep-alive.
        requests_per_connection: u64 = u64::from(limits::REQUESTS_PER_CONNECTION); from 1, to u64::from(u32::MAX),
        /// The most ranges of a range request; beyond it the whole file is sent.
        ranges_max: u64 = limits::RANGES_MAX as u64; from 0, to 1000,
        /// The most names on one page of a listing. More are on further pages, to which each page has links.
        listing_names: u64 = LISTING_NAMES_MAX as u64; from 1, to 1 << 20,
    }
}

table! {
    /// How long a client may take.
    pub(super) struct TimeoutsTable {
        /// From a connection's start, or the first byte of a later request, to the end of the head. Then: 408.
        header: Span = Timeouts::default().header.into(),
        /// From the end of the head to the end of the body. Then the connection is closed. A body for a program has this time
        /// for the next bytes each time, and in all a second more for every 500 bytes that have come. Then: 408.
        body: Span = Timeouts::default().body.into(),
        /// From the end of an answer to the next request. Then the connection is closed.
        keep_alive: Span = Timeouts::default().keep_alive.into(),
        /// Without the client taking a byte of the answer. Then the connection is cut.
        write: Span = Timeouts::default().write.into(),
        /// From the first signal to stop to the moment when the server stops accepting: time for balancers to notice that it is
        /// not ready any more. Without it: none.
        leave: Option<Span> = None,
        /// From then to the moment when what is left is cut.
        drain: Span = Timeouts::default().drain.into(),
    }
}

table! {
    /// What is kept in memory of the files of all hosts, all cores together.
    pub(super) struct CacheTable {
        /// Memory for file contents, in bytes. At the bound the contents least used go; 0 keeps none.
        bytes: Size = Size::bytes(256 * M); from 0, to T,
        /// Paths remembered, about 1 KB each. At the bound the least used go.
        entries: u64 = StoreOptions::default().entries_max as u64; from 1, to 1 << 24,
        /// The largest file whose content is kept, in bytes; not more than `bytes`. Larger ones are read from the kernel's
        /// page cache.
        file_bytes: At<Size> = At::unwritten(Size::bytes(64 * K)); from 0, to G,
        /// Whether larger files are sent by sendfile(2). That takes less processor time, but a file that a program writes in place,
        /// truncates or maps while a client takes it may arrive whole and mixed. Without it each part is read, the file is looked at
        /// again, and the connection is cut if the file has changed.
        sendfile: bool = false,
    }
}

table! {
    /// The server's own large memory: the contents of files that it keeps. It is on the nodes of its instance.
    pub(super) struct MemoryTable {
        /// `small` leaves it to the allocator. `huge` takes reserved huge pages (`vm.nr_hugepages`), all at the start; `transparent`
        /// those that the kernel finds; `auto` reserved ones if enough are free, else transparent ones. What was got is said at the start.
        pages: Pages = Pages::Small,
    }
}

table! {
    /// What holds for all hosts together.
    pub(super) struct HostsTable {
        /// What a request for a name that no host has gets: `default` the default host, `refuse` 421.
        unknown: Unknown = Unknown::Default,
        /// Folders of hosts that are open at once. Each is opened by the first request for it; at the bound those that were not
        /// used for the longest time are closed.
        open_max: u64 = SITES_OPEN_MAX as u64; from 1, to 1 << 20,
    }
}

table! {
    /// A virtual host: the names it answers to, and what is served there. May be written several times, in any number:
    /// finding one takes the same time among a hundred thousand.
    pub(super) struct HostTable {
        /// Its names, in any case, without port: `"example.org"`, or `"*.example.org"` for all names below one. An exact name
        /// goes before a wildcard, a longer wildcard before a shorter one. The default host needs none.
        names: Vec<At<String>> = Vec::new(),
        /// Whether it gets the requests for names that no host has. Without such a host the first one does.
        default: At<bool> = At::unwritten(false),
        /// The listeners that it answers at, by their addresses as written in `[[listener]]`.
        /// Without it: all. A request for one of its names at another listener is a request for a
        /// name that no host has. The listener's own default host is the host without a name that
        /// is bound to it; else the default host, if that answers there; else the first host that
        /// is bound to it.
        listen: Option<At<Vec<At<Listen>>>> = None,
        /// The folder whose files are served; relative to the folder of this file. Nothing outside of it can be reached.
        /// Without it every path that no route takes is 404.
        root: Option<At<PathBuf>> = None,
        /// The pages a folder answers with, the first that exists. A page that is a program runs; a program that nothing runs is
        /// refused here.
        index: Vec<At<String>> = SiteOptions::default().index_names.into_iter().map(At::unwritten).collect(),
        /// Whether a folder without such a page is listed, instead of answering 403.
        listing: bool = true,
        /// Media types by extension, each as `"EXTENSION=TYPE"`, such as `"ts=text/x-typescript"`. They come before the known ones.
        types: Vec<At<String>> = Vec::new(),
        /// Which symbolic links below the folder are followed: `within` relative ones that stay below it at every step,
        /// `all` wherever they lead, `none`.
        follow_symlinks: FollowSymlinks = FollowSymlinks::Within,
        /// Whether files named `*.php`, in any case of letters, are answered by PHP, and folders without an index page by their
        /// `index.php`: `true` by the server's (see `[php]`), a table by a pool of its own. Without it such files get 403, because the
        /// text of a program is never sent.
        php: FlagOr<HostPhpTable> = FlagOr::Flag(false),
        /// What the host's CGI programs run as and within, where it is not as for all (see `[cgi]`).
        cgi: Option<HostCgiTable> = None,
        /// What other than files is served where. The first that matches counts; what none matches is a file.
        route: Vec<At<RouteTable>> = Vec::new(),
    }
}

table! {
    /// What is served for a part of a host's paths, chosen by `prefix`, `suffix` or both. Paths are compared decoded, and
    /// without dot segments and empty segments.
    pub(super) struct RouteTable {
        /// How the path begins, in whole segments: `"/old"` is `/old` and all below it, not `/older`.
        prefix: Option<At<String>> = None,
        /// How a segment of the path ends, in any case of letters: `".php"` is `/a.php`, `/a.PHP` and `/a.php/more`.
        suffix: Option<At<String>> = None,
        /// The clients that the route is for, by address or network: `["10.0.0.0/8", "::1"]`. `"unix"`
        /// stands for the clients of unix sockets, which have no address and are in no network.
        /// Without it: all clients. Others get 404, as for a path that is not there, whatever
        /// routes follow. The client is the other end of the connection, so behind a proxy every
        /// client has the address of the proxy.
        from: Option<At<Vec<At<String>>>> = None,
        /// What is done: `files` serves files after all, `redirect` sends the client elsewhere,
        /// `cgi` runs the program that the path names below the host's folder (see `[cgi]`),
        /// `status` tells what `vermeil status` does, with several instances what the one that
        /// answers knows, for the query `json` as JSON, to all clients unless `from` says
        /// otherwise, `ready` is 200 until the server is told to stop and 503 from then on.
        action: ActionWord,
        /// Of `redirect`: where to, a path or an address. `{host}`, `{path}`, `{rest}` (of the path, behind the prefix, and with
        /// the slash between them unless one stands before it) and `{query}` (with its question mark, if there is one) stand
        /// for those of the request, `{host}` with its port if there is one; for a client that names no host, in HTTP/1.0, `{host}` is the first of `names` that is no wildcard.
        /// `prefix = "/"` and `to = "https://new.example{rest}{query}"` move a whole host.
        to: Option<At<String>> = None,
        /// Of `redirect`: the status, one of 301, 302, 303, 307, 308. Without it: 301.
        code: Option<At<u64>> = None,
    }
}

table! {
    /// PHP over FastCGI.
    pub(super) struct PhpTable {
        /// Where it is: `"auto"`, a pool of our own, of the php-fpm or php-cgi that is found; the path of one; or a pool that runs
        /// already, `"unix:PATH"` or `"ADDRESS:PORT"`.
        source: At<String> = At::unwritten("auto".to_owned()),
        /// Children of the pool, and connections open to it at once: 1 to 10000. Without it: 4 for each core.
        children: Option<At<u64>> = None,
        /// Connections to a pool that runs already which are kept between requests, for a quarter of a second: each holds a child that
        /// others may need. Without it: a quarter of `children`; 0 keeps none.
        kept_max: Option<u64> = None; from 0, to 10_000,
        /// Requests that may wait for a child. Beyond it: 503.
        queue_max: u64 = php::QUEUE_MAX as u64; from 0, to 1_000_000,
        /// How long a request may wait for a child, or for a CGI program's turn. Then: 503.
        queue_timeout: Span = GatewayTimeouts::default().queue.into(),
        /// How long PHP, or a CGI program, may be silent. Then: 504, or the answer is cut.
        timeout: Span = GatewayTimeouts::default().answer.into(),
        /// Requests after which a child of our own pool is replaced; 0: never.
        requests_per_child: u64 = u64::from(php::REQUESTS_PER_CHILD); from 0, to u64::from(u32::MAX),
        /// The longest request body for PHP and CGI programs, in bytes. Beyond it: 413.
        body_bytes: Size = Size::bytes(gateway::CONTENT_BYTES); from 0, to T,
        /// The folder for request bodies above 64 KiB, of PHP and CGI; relative to the folder of this file. The files in it have no
        /// name. Without it: `TMPDIR`, or `/var/tmp`. A change takes a restart.
        spool_folder: Option<PathBuf> = None,
        /// Bytes of such bodies that are on the disk at once, of all requests together. Beyond it: 503. A change takes a restart.
        spool_bytes: Size = Size::bytes(gateway::SPOOL_BYTES); from 0, to 1 << 50,
        /// The user that our own pool runs as, when the server is started by the superuser. Without it: www-data, or nobody.
        user: Option<At<String>> = None,
        /// Whether our own pool is kept from gaining privileges by executing other programs. Most mail programs need `false`, because
        /// `mail()` starts a set-group-ID helper.
        no_new_privileges: bool = true,
        /// Folders out of which PHP may have files sent: with `X-Sendfile` and a file's absolute path, and if written
        /// `"PREFIX=FOLDER"`, such as `"/files=/srv/files"`, with `X-Accel-Redirect` and a path that begins so. Relative to the folder of
        /// this file. For hosts with `php = true`; those with a pool of their own name theirs.
        send: Vec<At<String>> = Vec::new(),
        /// Pools of hosts that run at once. When another is wanted, the one that was idle for the longest time is stopped; while
        /// none is idle its requests wait. Of no meaning for `php = true`.
        pools_max: u64 = php::POOLS_MAX as u64; from 1, to 100_000,
    }
}

table! {
    /// A PHP pool of its own for a host, as a user of its own. It is started by the first request for it and stopped when nobody
    /// has used it for a time. Hosts whose tables are equal share one. The rest is as in `[php]`; if `source` there is a pool that
    /// runs already, the php-cgi that is found is used here.
    pub(super) struct HostPhpTable {
        /// The user, or `"USER:GROUP"`, that it runs as. Takes a server that the superuser starts. Without it: as the server's.
        user: Option<At<String>> = None,
        /// Its children, and connections open to it at once.
        children: u64 = php::HOST_CHILDREN as u64; from 1, to 10_000,
        /// How long it is kept without a request. Then it is stopped, and started again by the next one.
        idle_stop: Span = php::IDLE_STOP.into(),
        /// Whether it is kept from gaining privileges by executing other programs, as in `[php]`. `mail()` needs `false` with most mail
        /// programs.
        no_new_privileges: bool = true,
        /// Requests that may wait for a child, or for the pool to be started. Beyond it: 503.
        queue_max: u64 = php::QUEUE_MAX as u64; from 0, to 1_000_000,
        /// Folders out of which it may have files sent, as in `[php]`; those of `[php]` are not among them.
        send: Vec<At<String>> = Vec::new(),
        /// Requests after which a child is replaced; 0: never.
        requests_per_child: u64 = u64::from(php::REQUESTS_PER_CHILD); from 0, to u64::from(u32::MAX),
    }
}

table! {
    /// CGI programs, started for one request each.
    pub(super) struct CgiTable {
        /// The user that programs run as, with its groups, but not the superuser. Without it: whoever started the server, unless that
        /// was the superuser: then a user must be named. If it is another than the server's, a reload may bring programs of any user.
        user: Option<At<String>> = None,
        /// Programs that run at once, of all hosts. Requests beyond that wait for one to end.
        running_max: u64 = cgi::RUNNING_MAX as u64; from 1, to 100_000,
        /// Programs that run at once, of one host.
        host_running_max: u64 = cgi::HOST_RUNNING_MAX as u64; from 1, to 100_000,
        /// Requests of one host that may wait. Beyond it: 503.
        host_waiting_max: u64 = cgi::HOST_WAITING_MAX as u64; from 0, to 1_000_000,
        /// How long a program may run. Then it and all it started are killed: 504, or the answer is cut. How long it may be silent, and
        /// requests may wait for their turn, is said by `timeout` and `queue_timeout` in `[php]`.
        timeout: Span = cgi::TIME_LIMIT.into(),
        /// Address space that each process of a program may have, in bytes, from 1M. Without it: no bound.
        memory: Option<At<Size>> = None,
        /// Whether programs whose names begin with `nph-` write the whole answer themselves.
        nph: bool = false,
        /// Folders out of which programs may have files sent, as in `[php]`.
        send: Vec<At<String>> = Vec::new(),
    }
}

table! {
    /// What the CGI programs of one host run as and within. What is not written is as in `[cgi]`.
    pub(super) struct HostCgiTable {
        /// The user, or `"USER:GROUP"`, with its groups. Takes a server that the superuser starts.
        user: Option<At<String>> = None,
        /// The folder that programs run in, below the host's; `"."` is the host's itself. Without it: each in its own.
        directory: Option<At<PathBuf>> = None,
        /// Variables for the environment, each as `"NAME=value"`. Those that tell a program about its request are the server's.
        environment: Vec<At<String>> = Vec::new(),
        /// How long a program may run. Then it and all it started are killed: 504, or the answer is cut.
        timeout: Option<Span> = None,
        /// Address space that each process of a program may have, in bytes, from 1M.
        memory: Option<At<Size>> = None,
        /// Processor time that each process of a program may take; counted in whole seconds.
        cpu_time: Option<Span> = None,
        /// The largest file that a program may write, in bytes.
        file_bytes: Option<Size> = None,
        /// Descriptors that each process of a program may have. Without it: 1024.
        descriptors: Option<u64> = None; from 8, to 1 << 20,
        /// Processes that their user may have, whoever started them.
        processes: Option<u64> = None; from 1, to 1 << 22,
        /// Whether programs are kept from gaining privileges by executing others, such as `sudo` or `sendmail`.
        no_new_privileges: bool = true,
        /// Folders out of which programs may have files sent, as in `[php]`; `[]` is none.
        send: Option<Vec<At<String>>> = None,
        /// The cgroup that programs are born in.
        cgroup: Option<CgroupTable> = None,
        /// What programs reach of the file system. Without it: what their user may.
        landlock: Option<LandlockTable> = None,
    }
}

table! {
    /// A cgroup (version 2), for all programs of a host together. It is made when the first is started; the folder that it is in
    /// must be there, with the controllers that the bounds need in its `cgroup.subtree_control`. Takes a server that the superuser
    /// starts, or to whose user the folder was given. Bounds are written into one that is there already, too; what is not
    /// named here stays as it is there. Hosts with the same folder have the same bounds.
    pub(super) struct CgroupTable {
        /// Its folder, such as `"/sys/fs/cgroup/vermeil/example.org"`.
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
    /// What programs of a host reach of the file system, by Landlock: the host's folder, read only, and what is named here. All else
    /// is refused to them, whoever they run as. A kernel without Landlock runs no such program.
    pub(super) struct LandlockTable {
        /// Files and folders, with all below, that are read and executed. What is not there is passed over.
        read: Vec<PathBuf> = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/dev"].map(PathBuf::from).to_vec(),
        /// Files and folders, with all below, that are written too.
        write: Vec<PathBuf> = vec![PathBuf::from("/dev/null")],
    }
}

/// The actions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActionWord {
    Files,
    Cgi,
    Redirect,
    Status,
    Ready,
}

/// What is one of several words.
macro_rules! words {
    ($($type:ty: $($word:literal => $meaning:path),+;)+) => {$(
        impl Setting for $type {
            fn kind() -> Kind {
                Kind::Words(vec![$($word),+])
            }

            fn read(node: &Node<'_>, reader: &mut Reader) -> Option<Self> {
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
    BusyPoll: "off" => BusyPoll::Off, "load" => BusyPoll::Load;
    FollowSymlinks: "within" => FollowSymlinks::Within, "all" => FollowSymlinks::All, "none" => FollowSymlinks::None;
    Unknown: "default" => Unknown::Default, "refuse" => Unknown::Refuse;
    ActionWord: "files" => ActionWord::Files, "cgi" => ActionWord::Cgi, "redirect" => ActionWord::Redirect,
        "status" => ActionWord::Status, "ready" => ActionWord::Ready;
    Pages: "auto" => Pages::Auto, "huge" => Pages::Huge, "transparent" => Pages::Transparent, "small" => Pages::Small;
    LogFormat: "combined" => LogFormat::Combined, "vhost_combined" => LogFormat::VhostCombined, "json" => LogFormat::Json;
    LoadReport: "off" => LoadReport::Off, "text" => LoadReport::Text, "json" => LoadReport::Json;
}
