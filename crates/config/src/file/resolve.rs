//! From the document to the options of the server: looks up names, chooses cpus, refuses
//! contradictions.
//!
//! Leaves out the bounds of a single key (`keys.rs`). Tested in `tests.rs`.

use super::{
    access::Guards,
    answers::{self, WrittenFields},
    collisions::{HostCollision, UniqueValue},
    compress, host_cgi, host_php,
    keys::{ActionWord, Document, HostCgiTable, HostTable, LimitsTable, RouteTable, TimeoutsTable},
    logs::{self, HostLogKeys},
    networks::networks,
    places::{HostPlaces, KeyPlaces},
    problems::{Problem, Problems},
    programs, proxies,
    read::{At, narrow},
    routes,
    sources::ConfigText,
    surroundings::Surroundings,
    tls::{self, HostTlsKeys},
    values::{Listen, Size, Span},
};
use crate::options::{ServeOptions, Timeouts, cpus_of, store_here};
use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};
use vermeil_address::ListenAddr;
use vermeil_files::{
    FileTags, LargeFiles, Listing, SiteOptions, StoreOptions, TypeOf, UnfitType, ends_with, has_program_name,
};
use vermeil_http::ConnectionLimits;
use vermeil_routing::{
    clients::ClientBound,
    hosts::{
        Action, AnswerRules, Asked, Candidate, Guard, HostId, HostName, Hosts, HostsBuilder, Route, Rules,
        RunBy, Taken, Unknown,
    },
};
use vermeil_settings::{
    BalancerOptions, ControlTarget, RequestedPlacement, TakeOver, User,
    cgi::{Cgroup, HostPrograms},
    gateway::GatewayOptions,
    php,
    tls::HttpsUse,
};
use vermeil_spawn::UserError;
use vermeil_topology::Instance;

fn no_host(document: &Document) -> &'static str {
    if document.include.0.is_empty() {
        "there is no host; write [[host]] and below it root = \"FOLDER\""
    } else {
        "there is no host, and none in the files of include; write [[host]] and below it root = \"FOLDER\""
    }
}

/// The result of resolving a text.
pub(super) struct ResolvedText {
    pub(super) options: ServeOptions,
    pub(super) places: KeyPlaces,
    /// In no order.
    pub(super) collisions: Vec<HostCollision>,
}

/// The options that `document` and `hosts`, read from `text`, ask for; `None` without a host. Adds
/// all problems but the collisions to `problems`.
pub(super) fn resolve(
    document: Document,
    mut hosts: HostsMade,
    text: &ConfigText,
    around: &Surroundings,
    problems: &mut Vec<Problem>,
) -> Option<ResolvedText> {
    let mut found = Problems::default();
    let Listeners { addrs: listen, announced, secure } = listen(&document, hosts.folder, around, &mut found);
    let (placement, instances) = instances(&document, around, &mut found);
    // Defaults follow the cores and instances that will serve.
    let serving = around.serving(&instances);
    let (cores, count) = (cpus_of(serving).len(), Instance::count_of(serving));
    refuse_contradictions(&document, count, &mut found);
    let (folder, cgi_users) = (hosts.folder, hosts.cgi_users.clone());
    hosts.builder.trust(proxies::trusted(&document, announced, &mut found));
    let addresses = Addresses { all: &listen, secure: &secure };
    let host_logs = std::mem::take(&mut hosts.logs);
    let FoundHosts { hosts, places, collisions } =
        hosts.finish(document.hosts.unknown, text, &addresses, around, &mut found);
    let places = KeyPlaces { hosts: places, php_source: document.php.source.at.clone() };
    if hosts.is_none() && problems.is_empty() {
        found.push(&(text.main().len()..text.main().len()), "host", no_host(&document));
    }
    let balancers = balancers(&document, around, &mut found);
    let user = user(&document, &mut found);
    let gateway = gateway(&document, folder, &mut found);
    let cgi = programs::cgi(&document.cgi, &mut found);
    let shared_php = programs::php(&document.php, cores, around, &mut found);
    programs::refuse_server_user(user.as_ref(), &document.cgi, &cgi, &cgi_users, &mut found);
    let log = logs::options(&document, folder, hosts.as_ref(), &mut found);
    host_logs.refuse_rotated_names(&log, &mut found);
    problems.append(&mut found.0);
    let hosts = hosts?;
    let (limits, store) = (limits(&document, &hosts, &gateway), store(&document, count));
    let options = ServeOptions {
        compression: compress::options(&document.compression, count),
        cgi,
        placement,
        user,
        file: None,
        left_out: Vec::new(),
        trace: None,
        take_over: TakeOver::Never,
        control: control(document.control, folder),
        gateway,
        php: hosts.have_shared_php().then_some(shared_php),
        php_pools: programs::php_pools(&document.php),
        hosts: hosts.into(),
        listen,
        tls: tls::options(&document.tls, secure),
        cpus: cpus_of(&instances),
        instances,
        balance: document.balance,
        balancers,
        policy: document.policy,
        busy_poll: document.busy_poll,
        io: document.io,
        log,
        store,
        sites_open_max: narrow(document.hosts.open_max),
        hosts_shown_max: narrow(document.hosts.counted_max),
        connections_max: narrow(document.limits.connections_max),
        clients: clients(&document.limits),
        wait_max: document.limits.wait_max.into(),
        limits,
        timeouts: document.timeouts.into(),
    };
    Some(ResolvedText { options, places, collisions })
}

/// What PHP and CGI have in common.
fn gateway(document: &Document, folder: &Path, found: &mut Problems) -> GatewayOptions {
    let sends = programs::sends(&document.php, &document.cgi, folder, found);
    GatewayOptions {
        content_memory_bytes_max: document.limits.body_memory_bytes.bytes,
        ..programs::gateway(&document.programs, sends, folder)
    }
}

/// The user of the server, if a known user is named.
fn user(document: &Document, found: &mut Problems) -> Option<User> {
    document.user.as_ref().and_then(|At { value, at }| match value.parse() {
        Ok(user) => Some(user),
        Err(error) => {
            found.push(at, "user", UserError::to_string(&error));
            None
        }
    })
}

/// A path in the configuration counts from the folder of its file.
fn control(target: ControlTarget, folder: &Path) -> ControlTarget {
    match target {
        ControlTarget::Path(path) => ControlTarget::Path(folder.join(path)),
        other => other,
    }
}

fn limits(document: &Document, hosts: &Hosts, gateway: &GatewayOptions) -> ConnectionLimits {
    let mut limits = ConnectionLimits::from(document.limits.clone());
    if hosts.have_php() || hosts.have_cgi() {
        // The server knows only after the head whether a body is for a program. A body for another
        // target is discarded.
        limits.body_bytes = limits.body_bytes.max(gateway.content_bytes);
    }
    limits
}

fn store(document: &Document, instances: usize) -> StoreOptions {
    let (cache, here) = (&document.cache, store_here(instances));
    let content_bytes_max = cache.bytes.map_or(here.content_bytes_max, |size| size.bytes);
    StoreOptions {
        content_bytes_max,
        // A small cache lowers the default. A written value was checked before.
        content_file_bytes_max: cache.file_bytes.value.bytes.min(content_bytes_max),
        entries_max: cache.entries.map_or(here.entries_max, narrow),
        large_files: if document.cache.sendfile { LargeFiles::Sendfile } else { LargeFiles::Copied },
        listing_names_max: narrow(document.limits.listing_names),
        pages: document.memory.pages,
        ..here
    }
}

fn clients(limits: &LimitsTable) -> ClientBound {
    ClientBound {
        connections_max: limits.client_connections_max.map(narrow),
        ipv6_prefix: u8::try_from(limits.client_ipv6_prefix).expect("bounded"),
        rated_max: narrow(limits.rated_clients_max),
    }
}

/// The addresses of the listeners.
#[derive(Default)]
struct Listeners {
    addrs: Vec<ListenAddr>,
    /// Those at which connections begin with a header of the PROXY protocol.
    announced: Vec<ListenAddr>,
    /// Those whose clients speak TLS.
    secure: Vec<ListenAddr>,
}

fn listen(document: &Document, folder: &Path, around: &Surroundings, problems: &mut Problems) -> Listeners {
    let Listeners { mut addrs, mut announced, mut secure } = Listeners::default();
    if document.listener.is_empty() {
        let default = around.resolve(&Listen::DEFAULT, &mut addrs);
        debug_assert!(default.is_ok(), "an address needs no look-up");
    }
    for listener in &document.listener {
        let before = addrs.len();
        match around.resolve(&listener.address.value.clone().within(folder), &mut addrs) {
            Ok(()) if addrs.len() == before => {
                problems.push(&listener.address.at, "listener.address", "another listener has this address");
            }
            Ok(()) => {
                match (&listener.mode, addrs.last_mut()) {
                    (None, _) => {}
                    (Some(At { value: mode, .. }), Some(ListenAddr::Unix(addr))) => {
                        *addr = addr.with_mode(mode.0);
                    }
                    (Some(At { at, .. }), _) => {
                        problems.push(at, "listener.mode", "only a unix socket has a mode; leave the key out")
                    }
                }
                if listener.proxy_protocol.value {
                    announced.extend_from_slice(&addrs[before..]);
                }
                if listener.tls {
                    secure.extend_from_slice(&addrs[before..]);
                }
            }
            Err(error) => problems.push(&listener.address.at, "listener.address", error.to_string()),
        }
    }
    Listeners { addrs, announced, secure }
}

/// The addresses that answer agent checks, and the report of the load.
fn balancers(document: &Document, around: &Surroundings, problems: &mut Problems) -> BalancerOptions {
    let mut agent = Vec::new();
    if let Some(At { value, at }) = &document.agent
        && let Err(error) = around.resolve_tcp(value, &mut agent)
    {
        problems.push(at, "agent", error.to_string());
    }
    BalancerOptions { agent, load_report: document.load_report }
}

fn instances(
    document: &Document,
    around: &Surroundings,
    problems: &mut Problems,
) -> (RequestedPlacement, Vec<Instance>) {
    let placement = RequestedPlacement { cores: document.cores.value.clone(), instances: document.instances };
    let instances = around.instances(&placement).unwrap_or_else(|error| {
        let what = match error {
            vermeil_topology::TopologyError::Cores { problem, .. } => problem,
            other => other.to_string(),
        };
        problems.push(&document.cores.at, "cores", what);
        Vec::new()
    });
    (placement, instances)
}

fn refuse_contradictions(document: &Document, instances: usize, problems: &mut Problems) {
    let mut within = |inner: &At<Size>, inner_key: &str, outer: Size, outer_key: &str| {
        // A default is lowered instead of refused.
        if inner.value > outer && !inner.at.is_empty() {
            let what = format!("{} is more than {outer_key} allows, which is {outer}", inner.value);
            problems.push(&inner.at, inner_key, what);
        }
    };
    let (limits, cache) = (&document.limits, &document.cache);
    within(&limits.request_line_bytes, "limits.request_line_bytes", limits.header_bytes, "header_bytes");
    let bytes = cache.bytes.unwrap_or_else(|| Size::bytes(store_here(instances).content_bytes_max));
    within(&cache.file_bytes, "cache.file_bytes", bytes, "bytes");
}

impl From<LimitsTable> for ConnectionLimits {
    fn from(table: LimitsTable) -> Self {
        Self {
            request_line_bytes: narrow(table.request_line_bytes.value.bytes.min(table.header_bytes.bytes)),
            header_count: narrow(table.header_count),
            header_bytes: narrow(table.header_bytes.bytes),
            body_bytes: table.body_bytes.bytes,
            requests_per_connection: u32::try_from(table.requests_per_connection).expect("bounded"),
            ranges_max: narrow(table.ranges_max),
            ..Self::default()
        }
    }
}

impl From<TimeoutsTable> for Timeouts {
    fn from(table: TimeoutsTable) -> Self {
        let TimeoutsTable { header, body, keep_alive, write, leave, drain } = table;
        let leave = leave.map(Duration::from).unwrap_or_default();
        let [header, body, keep_alive, write, drain] =
            [header, body, keep_alive, write, drain].map(|span: Span| span.into());
        Self { header, body, keep_alive, write, leave, drain }
    }
}

/// The listeners that a host names.
struct HostListens {
    id: HostId,
    listen: At<Vec<At<Listen>>>,
    is_nameless: bool,
    /// The place of the key that requires HTTPS.
    https: Option<Range<usize>>,
}

/// The addresses of the listeners.
struct Addresses<'a> {
    all: &'a [ListenAddr],
    /// The listeners whose clients speak TLS.
    secure: &'a [ListenAddr],
}

/// The first mention of a certificate, and of a host that requires HTTPS.
#[derive(Default)]
struct HttpsMentions {
    certificate: Option<Range<usize>>,
    required: Option<Range<usize>>,
}

/// The hosts of a document, taken one by one.
pub(super) struct HostsMade<'f> {
    builder: HostsBuilder,
    /// The folder at which relative paths begin.
    folder: &'f Path,
    /// The places of each host in the file, by host number.
    places: Vec<HostPlaces>,
    /// The place of the first default host.
    default: Option<usize>,
    /// The users of hosts' CGI programs, with their places in the file.
    cgi_users: Vec<(u32, Range<usize>)>,
    /// The cgroups of hosts, each as first named, with that place.
    cgroups: HashMap<PathBuf, (Cgroup, usize)>,
    /// Hosts that are bound to listeners.
    listens: Vec<HostListens>,
    logs: HostLogKeys,
    https: HttpsMentions,
    collisions: Vec<HostCollision>,
    /// The files of users that were read.
    guards: Guards,
    problems: Problems,
}

impl<'f> HostsMade<'f> {
    pub(super) fn new(folder: &'f Path) -> Self {
        Self {
            builder: HostsBuilder::default(),
            folder,
            places: Vec::new(),
            default: None,
            cgi_users: Vec::new(),
            cgroups: HashMap::new(),
            listens: Vec::new(),
            logs: HostLogKeys::default(),
            https: HttpsMentions::default(),
            collisions: Vec::new(),
            guards: Guards::default(),
            problems: Problems::default(),
        }
    }

    /// Takes the certificates of a host, and whether the host requires HTTPS.
    fn secure(&mut self, id: HostId, keys: &HostTlsKeys<'_>) {
        if keys.https.value != HttpsUse::Optional {
            self.https.required.get_or_insert_with(|| keys.https.at.clone());
        }
        if let Some(secure) = tls::host_tls(keys, self.folder, &mut self.problems) {
            let at = keys.certificate.map(|certificate| certificate.at.clone());
            self.https.certificate = self.https.certificate.take().or(at);
            self.builder.secure(id, secure);
        }
    }

    /// Takes one host.
    pub(super) fn add(&mut self, host: At<HostTable>) {
        let At { value: host, at } = host;
        let fields = WrittenFields { table: "host", headers: &host.headers, add_headers: &host.add_headers };
        let answers = AnswerRules {
            headers: fields.rules(&mut self.problems),
            error_pages: answers::error_pages(&host.error_pages, &mut self.problems),
            replaces_program_errors: host.error_pages_of_programs.value,
            compression: None,
        };
        let answers = compress::of_host(answers, &host.compress, &mut self.problems);
        if answers.replaces_program_errors && host.error_pages.0.is_empty() {
            let what = "there is no page; write error_pages too";
            self.problems.push(&host.error_pages_of_programs.at, "host.error_pages_of_programs", what);
        }
        let index_names = self.index_names(&host.index);
        let types = host.types.iter().filter_map(|of| self.media_type(of)).collect();
        let files = SiteOptions {
            index_names,
            listing: if host.listing { Listing::On } else { Listing::Off },
            follow_symlinks: host.follow_symlinks,
            types,
            caching: answers::caching(&host.cache_control, &mut self.problems),
            tags: if host.etag { FileTags::On } else { FileTags::Off },
            ..SiteOptions::default()
        };
        let guard = self.guards.of_host(host.access.as_ref(), self.folder, &mut self.problems);
        let (routes, folders) = self.routes(&host.route, &answers, guard.as_ref());
        let root = host.root.as_ref().map(|root| self.folder.join(&root.value));
        let php = host_php::host_php(&host.php, root.as_deref(), &mut self.problems);
        let cgi = self.host_cgi(host.cgi.as_ref());
        if let Some((at, cgroup)) = host_cgi::cgroup_of(host.cgi.as_ref(), cgi.as_deref()) {
            self.cgroup(at, cgroup);
        }
        let sends = programs::host_sends(&host.php, host.cgi.as_ref(), self.folder, &mut self.problems);
        let tries = self.candidates(&host.r#try, "host.try");
        let mut rules =
            Rules { files, php, cgi, sends, routes, tries, guard, answers, https: host.https.value };
        self.refuse_idle_programs(&host.index, &rules);
        self.refuse_idle_candidates(&host.r#try, "host.try", &rules);
        for route in &host.route {
            let texts = route.value.r#try.as_ref().map_or(&[][..], |texts| &texts.value);
            self.refuse_idle_candidates(texts, "host.route.try", &rules);
        }
        self.folders_of_routes(root.as_deref(), &folders, &mut rules);
        let id = self.builder.add(root.as_deref(), rules);
        self.places.push(HostPlaces::of(&host, at.start));
        self.secure(id, &HostTlsKeys::of(&host));
        self.logs.add(id, host.log.as_ref(), self.folder, &mut self.builder, &mut self.problems);
        for name in &host.names {
            self.name(id, name);
        }
        let is_nameless = host.names.is_empty();
        let https = Some(&host.https).filter(|https| https.value != HttpsUse::Optional);
        let https = https.map(|https| https.at.clone());
        self.listens.extend(host.listen.map(|listen| HostListens { id, listen, is_nameless, https }));
        if host.default.value {
            let at = host.default.at;
            match self.default {
                Some(first) => self.collide(first, at, UniqueValue::Default),
                None => {
                    self.default = Some(at.start);
                    self.builder.set_default(id);
                }
            }
        }
    }

    /// Notes that the earlier host at the place `holder` has the value at `at`.
    fn collide(&mut self, holder: usize, at: Range<usize>, value: UniqueValue) {
        self.collisions.push(HostCollision { holder, at, value });
    }

    /// The host's own settings of programs. Their user must not be the server's.
    fn host_cgi(&mut self, table: Option<&HostCgiTable>) -> Option<Arc<HostPrograms>> {
        let cgi = table.map(|cgi| Arc::new(host_cgi::host_cgi(cgi, self.folder, &mut self.problems)));
        if let Some(user) = cgi.as_ref().and_then(|cgi| cgi.user.as_ref())
            && let Some(At { at, .. }) = table.and_then(|table| table.user.as_ref())
        {
            self.cgi_users.push((user.identity().uid, at.clone()));
        }
        cgi
    }

    fn name(&mut self, id: HostId, name: &At<String>) {
        let parsed = match HostName::from_str(&name.value) {
            Ok(parsed) => parsed,
            Err(why) => {
                return self.problems.push(&name.at, "host.names", format!("\"{}\": {why}", name.value));
            }
        };
        if let Err(taken) = self.builder.name(id, &parsed) {
            let holder = self.places[taken.by.index()].at;
            self.collide(holder, name.at.clone(), UniqueValue::Name(parsed.to_string()));
        }
    }

    /// Bounds belong to the folder, so two hosts with the same folder must have equal bounds.
    fn cgroup(&mut self, at: &Range<usize>, cgroup: &Cgroup) {
        let entry = self.cgroups.entry(cgroup.folder.clone());
        let (first, holder) = entry.or_insert_with(|| (cgroup.clone(), at.start));
        if first != cgroup {
            let holder = *holder;
            self.collide(holder, at.clone(), UniqueValue::Cgroup);
        }
    }

    fn index_names(&mut self, names: &[At<String>]) -> Vec<String> {
        for name in names {
            if name.value.is_empty() || name.value.contains('/') || name.value.starts_with('.') {
                let what = format!(
                    "\"{}\": write the name of a file, without slash and without dot at its start",
                    name.value
                );
                self.problems.push(&name.at, "host.index", what);
            }
        }
        names.iter().map(|name| name.value.clone()).collect()
    }

    /// The candidates behind the request's own path.
    fn candidates(&mut self, texts: &[At<String>], key: &str) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (index, At { value, at }) in texts.iter().enumerate() {
            match value.parse::<Candidate>() {
                Ok(own) if (index == 0) == (own == Candidate::own()) => candidates.push(own),
                Ok(_) if index == 0 => {
                    let what = format!(
                        "\"{value}\": write \"{{path}}\" first, because a file answers before other paths"
                    );
                    self.problems.push(at, key, what);
                }
                Ok(_) => self.problems.push(at, key, "\"{path}\" stands first already"),
                Err(why) => self.problems.push(at, key, format!("\"{value}\": {why}")),
            }
        }
        candidates.into_iter().skip(1).collect()
    }

    fn media_type(&mut self, At { value, at }: &At<String>) -> Option<TypeOf> {
        match value.parse() {
            Ok(of) => Some(of),
            Err(unfit) => {
                self.problems.push(at, "host.types", UnfitType::to_string(&unfit));
                None
            }
        }
    }

    /// Refuses an index page that is a program without a route, because every folder would answer
    /// 403.
    fn refuse_idle_programs(&mut self, names: &[At<String>], rules: &Rules) {
        for At { value, at } in names {
            let may_run = |route: &Route| {
                let suffix = route.suffix.as_deref().unwrap_or_default();
                route.action == Action::Cgi && ends_with(value.as_bytes(), suffix.as_bytes())
            };
            let is_php = rules.php.is_on() && php::is_named_php(value.as_bytes());
            let path = format!("/{value}");
            if has_program_name(path.as_bytes()) && !is_php && !rules.routes.iter().any(may_run) {
                let what = format!(
                    "\"{value}\": nothing runs this program here, and its text is never sent; write php = true \
                     for *.php, a route with action = \"cgi\", or another page"
                );
                self.problems.push(at, "host.index", what);
            }
        }
    }

    /// A fixed candidate that nothing runs would be 403 for each path.
    fn refuse_idle_candidates(&mut self, texts: &[At<String>], key: &str, rules: &Rules) {
        for At { value, at } in texts.iter().filter(|text| text.value.starts_with('/')) {
            let is_idle = matches!(rules.run_by(value.as_bytes(), Asked::PATH_ONLY), RunBy::Nothing);
            if has_program_name(value.as_bytes()) && is_idle && value.parse::<Candidate>().is_ok() {
                let what = format!(
                    "\"{value}\": nothing runs this program here, and its text is never sent; write php = true \
                     for *.php, or a route with action = \"cgi\""
                );
                self.problems.push(at, key, what);
            }
        }
    }

    /// Gives the routes with the key `root` their folders. No folder sends a program of the host.
    fn folders_of_routes(&mut self, root: Option<&Path>, folders: &[Option<At<PathBuf>>], rules: &mut Rules) {
        let options = SiteOptions { programs: rules.programs_of_folders(), ..rules.files.clone() };
        let programs = routes::program_folders(root, &rules.routes);
        for (route, folder) in rules.routes.iter_mut().zip(folders) {
            if let Some(At { value, at }) = folder {
                let folder = self.folder.join(value);
                routes::refuse_programs(&folder, at, &programs, &mut self.problems);
                route.action = Action::Alias(self.builder.folder(&folder, options.clone()));
            }
        }
    }

    /// The routes of a host, and the folders of routes with the key `root`.
    fn routes(
        &mut self,
        tables: &[At<RouteTable>],
        answers: &AnswerRules,
        guard: Option<&Arc<Guard>>,
    ) -> (Vec<Route>, Vec<Option<At<PathBuf>>>) {
        let made = tables.iter().enumerate().filter_map(|(index, table)| {
            let (mut route, folder) = self.route(table, answers)?;
            let access = table.value.access.as_ref();
            route.guard = self.guards.of_route(index, access, guard, self.folder, &mut self.problems);
            Some((route, folder))
        });
        made.unzip()
    }

    /// A route, and the folder of a route with the key `root`.
    fn route(
        &mut self,
        route: &At<RouteTable>,
        of_host: &AnswerRules,
    ) -> Option<(Route, Option<At<PathBuf>>)> {
        let At { value: table, at } = route;
        let prefix = self.part(table.prefix.as_ref(), "host.route.prefix", |prefix| {
            let decoded = vermeil_http::path::decode(prefix.as_bytes(), &mut Vec::new())
                .is_ok_and(|decoded| decoded.bytes == prefix.as_bytes());
            (!decoded).then_some("write a path as it is when decoded, such as \"/old\", without dot segments")
        });
        let suffix = self.part(table.suffix.as_ref(), "host.route.suffix", |suffix| {
            (suffix.is_empty() || suffix.contains('/')).then_some("write the end of a name, such as \".php\"")
        });
        let action = routes::action(table, at, &mut self.problems)?;
        let path = routes::whole_path(table.path.as_ref(), &mut self.problems);
        let pattern = routes::pattern(table, &mut self.problems);
        let conditions = routes::conditions(table, &mut self.problems);
        let folder = table.root.clone().filter(|_| action == Action::Files);
        let from = networks(table.from.as_ref(), "host.route.from", routes::NO_NETWORK, &mut self.problems);
        let tries = table.r#try.as_ref().map(|texts| self.candidates(&texts.value, "host.route.try"));
        if let Some(texts) = table.r#try.as_ref().filter(|_| table.action != ActionWord::Files) {
            let only = "only a route with action = \"files\" has this key";
            self.problems.push(&texts.at, "host.route.try", only);
        }
        let fields =
            WrittenFields { table: "host.route", headers: &table.headers, add_headers: &table.add_headers };
        if let Some(written) = table.compress.as_ref()
            && !matches!(table.action, ActionWord::Files | ActionWord::Cgi)
        {
            let only = "only a route with action = \"files\" or \"cgi\" has this key";
            self.problems.push(&written.at, "host.route.compress", only);
        }
        let answers = compress::of_route(of_host, &fields, &table.compress, &mut self.problems);
        Some((
            Route { path, prefix, suffix, pattern, conditions, from, action, tries, guard: None, answers },
            folder,
        ))
    }

    /// A text of a route; `wrong` returns the problem of a wrong text.
    fn part(
        &mut self,
        text: Option<&At<String>>,
        key: &str,
        wrong: impl FnOnce(&str) -> Option<&'static str>,
    ) -> Option<Box<str>> {
        let text = text?;
        if let Some(what) = wrong(&text.value) {
            self.problems.push(&text.at, key, format!("\"{}\": {what}", text.value));
        }
        Some(text.value.as_str().into())
    }

    /// The table of all hosts.
    fn finish(
        mut self,
        unknown: Unknown,
        text: &ConfigText,
        listeners: &Addresses<'_>,
        around: &Surroundings,
        problems: &mut Problems,
    ) -> FoundHosts {
        problems.0.append(&mut self.problems.0);
        let HttpsMentions { certificate, required: https } = std::mem::take(&mut self.https);
        let end = text.main().len();
        // The listener is missing in the main file, wherever the first certificate is.
        let in_main = |at: Range<usize>| if text.source(at.start).file.is_none() { at } else { end..end };
        let (certificate, https) = (certificate.map(in_main), https.map(in_main));
        tls::refuse_one_half(certificate, https, listeners.secure, end, problems);
        self.builder.set_https_listeners(listeners.secure);
        for HostListens { id, listen, is_nameless, https } in std::mem::take(&mut self.listens) {
            let addrs = bound_to(&listen, self.folder, listeners.all, around, problems);
            // A proxy may speak HTTPS in place of the listener.
            let may_be_https = |addr: &ListenAddr| {
                listeners.secure.contains(addr) || addr.unix().is_some() || self.builder.believes_proxies()
            };
            if let Some(at) = https
                && !listeners.secure.is_empty()
                && !addrs.is_empty()
                && !addrs.iter().any(may_be_https)
            {
                let what = "no listener of this host speaks HTTPS; add one with tls = true to listen, or leave \
                            the key out";
                problems.push(&at, "host.https", what);
            }
            if let Err(Taken { by }) = self.builder.bind(id, addrs, is_nameless) {
                let holder = self.places[by.index()].at;
                self.collide(holder, listen.at, UniqueValue::Listener);
            }
        }
        // A host whose name was refused has none.
        if problems.0.is_empty() && self.collisions.is_empty() {
            refuse_unreachable(&self.builder, &self.places, unknown, problems);
        }
        let hosts = self.builder.build(unknown);
        FoundHosts { hosts, places: self.places, collisions: self.collisions }
    }
}

/// The hosts of a document.
struct FoundHosts {
    /// `None` without a host.
    hosts: Option<Hosts>,
    places: Vec<HostPlaces>,
    collisions: Vec<HostCollision>,
}

/// Refuses hosts that no request reaches.
fn refuse_unreachable(
    hosts: &HostsBuilder,
    places: &[HostPlaces],
    unknown: Unknown,
    problems: &mut Problems,
) {
    for id in hosts.unreachable(unknown) {
        let at = places[id.index()].at;
        let what = match unknown {
            Unknown::Default => {
                "no request reaches a host without a name; name it, write default = true, or bind it with listen"
            }
            Unknown::Refuse => {
                "no request reaches a host without a name, because unknown = \"refuse\"; name the host"
            }
        };
        problems.push(&(at..at), "host.names", what);
    }
}

/// The addresses of the listeners that a host names.
fn bound_to(
    listen: &At<Vec<At<Listen>>>,
    folder: &Path,
    listeners: &[ListenAddr],
    around: &Surroundings,
    problems: &mut Problems,
) -> Vec<ListenAddr> {
    if listen.value.is_empty() {
        let what = "no listener is named, so no request would reach the host; name one, or leave the key out";
        problems.push(&listen.at, "host.listen", what);
    }
    let mut bound = Vec::new();
    for named in &listen.value {
        let mut addrs = Vec::new();
        let of_listener = |addr: &ListenAddr| listeners.iter().find(|listener| listener.is_at(addr)).copied();
        match around.resolve(&named.value.clone().within(folder), &mut addrs) {
            Ok(()) if addrs.iter().all(|addr| of_listener(addr).is_some()) => {
                bound.extend(addrs.iter().filter_map(of_listener));
            }
            Ok(()) => {
                let known: Vec<String> = listeners.iter().map(|addr| format!("\"{addr}\"")).collect();
                let what = format!(
                    "no [[listener]] has the address \"{}\"; there are {}",
                    named.value,
                    known.join(" and ")
                );
                problems.push(&named.at, "host.listen", what);
            }
            Err(error) => problems.push(&named.at, "host.listen", error.to_string()),
        }
    }
    bound
}

/// A default has no place in the file.
impl<T> At<T> {
    pub(super) fn unwritten(value: T) -> Self {
        Self { value, at: 0..0 }
    }
}
