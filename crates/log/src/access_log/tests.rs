//! The log as a whole: cores on one side, files, FIFOs and `/dev/full` on the other.

use super::*;
use crate::{
    batch::FLUSH_MS,
    record::{LogRecord, LoggedClient},
    target::LogTargetError,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Rlimit, setrlimit};
use std::fs::{self, File};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use tempfile::TempDir;
use vermeil_address::Client;

/// Short, because some tests wait for a reader that never comes.
const IMPATIENT: LogTimeouts =
    LogTimeouts { retry: Duration::from_millis(5), close: Duration::from_millis(50) };
const DEADLINE: Duration = Duration::from_secs(20);

struct LogWorld {
    folder: TempDir,
    notices: Arc<Notices>,
}

impl LogWorld {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), notices: Arc::new(Notices::kept()) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, path: &Path) -> Log {
        let options = LogOptions::new(LogTarget::File(path.to_owned()));
        Log::start_with(&options, 1, self.notices.clone(), IMPATIENT, Arc::new(OwnAccess)).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn said(&self, words: &str) -> usize {
        self.notices.lines().iter().filter(|line| line.contains(words)).count()
    }
}

fn no_hosts() -> HostFiles {
    HostFiles::new(LogFolder { access: Arc::new(OwnAccess), rotation: None }, 1, IMPATIENT.retry)
}

fn until(what: &str, done: impl Fn() -> bool) {
    assert!(wait_until(DEADLINE, done), "waited too long until {what}");
}

fn record(core: &mut CoreLog, target: &str) {
    record_to(core, target, None);
}

fn record_to(core: &mut CoreLog, target: &str, file: Option<&Path>) {
    core.record(
        &LogRecord {
            peer: LoggedClient { client: Client::from(IpAddr::from([127, 0, 0, 1])), default_port: 80 },
            unix_seconds: 971_186_136,
            host: None,
            request_line: format!("GET /{target} HTTP/1.1").as_bytes(),
            status: 200,
            body_bytes: 5,
            referer: None,
            user_agent: Some(b"test"),
            ..LogRecord::EMPTY
        },
        file,
    );
}

/// Hands the batch over now, because the caller controls the time.
fn flush(core: &mut CoreLog) {
    core.flush_if_due(u64::MAX);
}

/// Hands all records over, as soon as the channel has room.
fn hand_over(core: &mut CoreLog) {
    let end = Instant::now() + DEADLINE;
    while core.due_ms().is_some() {
        assert!(Instant::now() < end, "the log thread takes no batch");
        flush(core);
        thread::yield_now();
    }
}

fn targets(text: &str) -> Vec<&str> {
    assert!(text.is_empty() || text.ends_with('\n'), "a torn line: {text}");
    text.lines()
        .map(|line| line.split_once("\"GET /").unwrap().1.split_once(" HTTP/1.1\" 200 5 ").unwrap().0)
        .collect()
}

fn make_fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .unwrap();
}

fn open_reader(path: &Path) -> File {
    File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap())
}

#[test]
fn targets_as_text() {
    for (text, target) in [
        ("off", LogTarget::Off),
        ("-", LogTarget::Stdout),
        ("./off", LogTarget::File("./off".into())),
        ("/var/log/vermeil.log", LogTarget::File("/var/log/vermeil.log".into())),
    ] {
        assert_eq!(text.parse(), Ok(target.clone()));
        assert_eq!(target.to_string(), text);
    }
    assert_eq!("".parse::<LogTarget>(), Err(LogTargetError));
    // Regression: another process opened this file, and its standard output was /dev/null, so the
    // lines were lost.
    for text in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert_eq!(text.parse(), Ok(LogTarget::Stdout));
    }
}

#[test]
fn close_writes_records_in_order_of_each_core() {
    const CORES: usize = 3;
    const RECORDS: usize = 4_000;
    let world = LogWorld::new();
    let log = Log::start(&LogTarget::File(world.path("log")), CORES, world.notices.clone()).unwrap();
    thread::scope(|scope| {
        for core in 0..CORES {
            let mut core_log = log.core();
            scope.spawn(move || {
                // Fewer batches than the channel holds, so nothing is dropped however slow the log
                // thread is.
                for number in 0..RECORDS {
                    record(&mut core_log, &format!("{core}/{number}"));
                }
            });
        }
    });
    let counts = log.close();
    assert_eq!(counts, LogCounts { written: (CORES * RECORDS) as u64, dropped: 0 });
    let text = world.read("log");
    let lines = targets(&text);
    for core in 0..CORES {
        let of_core = lines.iter().filter(|target| target.starts_with(&format!("{core}/")));
        assert!(of_core.eq((0..RECORDS).map(|number| format!("{core}/{number}")).collect::<Vec<_>>().iter()));
    }
    assert_eq!(world.notices.lines(), [""; 0]);
}

#[test]
fn new_log_file_is_private() {
    let world = LogWorld::new();
    let log = world.start(&world.path("log"));
    log.close();
    let mode = fs::metadata(world.path("log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777 & !0o640, 0, "{mode:o}");
}

#[test]
fn an_old_file_is_appended_to() {
    let world = LogWorld::new();
    for target in ["one", "two"] {
        let log = world.start(&world.path("log"));
        record(&mut log.core(), target);
        log.close();
    }
    assert_eq!(targets(&world.read("log")), ["one", "two"]);
}

#[test]
fn a_log_that_is_off_costs_nothing_and_never_falls_due() {
    let log = Log::start(&LogTarget::Off, 1, Arc::new(Notices::kept())).unwrap();
    let mut core = log.core();
    record(&mut core, "x");
    assert!(!core.is_on());
    assert_eq!(core.due_ms(), None);
    log.reopen();
    assert_eq!(log.close(), LogCounts::default());
}

#[test]
fn missing_folder_is_named_with_cure() {
    let world = LogWorld::new();
    let target = LogTarget::File(world.path("missing/log"));
    let error = Log::start(&target, 1, world.notices.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot open the access log {target}: No such file or directory (os error 2); choose another with \
             --log FILE or the key `log`, or turn it off"
        )
    );
}

#[test]
fn a_batch_falls_due_when_it_is_old() {
    let world = LogWorld::new();
    let log = world.start(&world.path("log"));
    let mut core = log.core();
    assert_eq!(core.due_ms(), None);
    core.flush_if_due(10_000);
    record(&mut core, "first");
    core.flush_if_due(10_000);
    assert_eq!(core.due_ms(), None, "the first record after a silence is late already");
    record(&mut core, "second");
    assert_eq!(core.due_ms(), Some(10_000 + FLUSH_MS));
    core.flush_if_due(10_000 + FLUSH_MS - 1);
    assert_eq!(core.due_ms(), Some(10_000 + FLUSH_MS));
    core.flush_if_due(10_000 + FLUSH_MS);
    assert_eq!(core.due_ms(), None);
    until("both lines are written", || log.counts().written == 2);
}

#[test]
fn a_reader_that_never_reads_costs_records_not_time() {
    let world = LogWorld::new();
    let fifo = world.path("fifo");
    make_fifo(&fifo);
    let _silent_reader = open_reader(&fifo);
    let log = world.start(&fifo);
    let mut core = log.core();
    let mut records = 0;
    // Far more than pipe, batches and channel hold. If a call blocked, this test would not end.
    while log.counts().dropped == 0 {
        record(&mut core, "x");
        records += 1;
        assert!(records < 1_000_000, "nothing was dropped");
    }
    assert!(records > 1000, "the channel holds batches before anything is dropped");
    drop(core);
    let counts = log.close();
    assert_eq!(counts.written + counts.dropped, records);
    assert!(world.said("records dropped so far") >= 1, "{:?}", world.notices.lines());
    assert!(world.notices.lines().last().unwrap().contains(&format!("{} records dropped", counts.dropped)));
}

/// Regression: the log thread took no batch while the common log was stuck, so the logs of hosts
/// lost their lines.
#[test]
fn stuck_common_log_holds_up_no_host() {
    let world = LogWorld::new();
    let (fifo, own) = (world.path("fifo"), world.path("own"));
    make_fifo(&fifo);
    let _silent_reader = open_reader(&fifo);
    let log = world.start(&fifo);
    let mut core = log.core();
    let mut records = 0;
    while log.counts().dropped == 0 {
        record(&mut core, "x");
        records += 1;
    }
    for number in 0..20 {
        hand_over(&mut core);
        record_to(&mut core, &number.to_string(), Some(&own));
    }
    hand_over(&mut core);
    until("the lines of the host are written", || {
        fs::read_to_string(&own).is_ok_and(|text| text.lines().count() == 20)
    });
    assert_eq!(targets(&world.read("own")), (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    drop(core);
    let counts = log.close();
    assert_eq!(counts.written + counts.dropped, records + 20);
}

/// Regression: each flush of a few records filled a place of the channel, so an outage of two
/// seconds lost records at any rate.
#[test]
fn short_outage_of_daemon_loses_no_line() {
    const LINES: u64 = 60;
    let world = LogWorld::new();
    let socket = world.path("daemon");
    let options = LogOptions::new(LogTarget::Syslog(socket.clone()));
    let log = Log::start_with(&options, 1, world.notices.clone(), IMPATIENT, Arc::new(OwnAccess)).unwrap();
    let mut core = log.core();
    for number in 0..LINES {
        record(&mut core, &number.to_string());
        flush(&mut core);
    }
    let daemon = UnixDatagram::bind(&socket).unwrap();
    daemon.set_read_timeout(Some(DEADLINE)).unwrap();
    hand_over(&mut core);
    for number in 0..LINES {
        let mut message = [0; 1024];
        let count = daemon.recv(&mut message).unwrap();
        let line = String::from_utf8_lossy(&message[..count]);
        assert!(line.contains(&format!("GET /{number} HTTP/1.1")), "{number}: {line}");
    }
    drop(core);
    assert_eq!(log.close(), LogCounts { written: LINES, dropped: 0 });
}

#[test]
fn a_slow_reader_gets_whole_lines() {
    let world = LogWorld::new();
    let fifo = world.path("fifo");
    make_fifo(&fifo);
    let mut reader = open_reader(&fifo);
    let log = world.start(&fifo);
    let mut core = log.core();
    let mut records = 0;
    while log.counts().dropped == 0 {
        record(&mut core, &records.to_string());
        records += 1;
    }
    let mut text = String::new();
    let mut read_some = |text: &mut String| {
        let mut piece = [0; 1000];
        if let Ok(bytes) = reader.read(&mut piece) {
            text.push_str(std::str::from_utf8(&piece[..bytes]).unwrap());
        }
    };
    let end = Instant::now() + DEADLINE;
    while !text.contains("/last ") && Instant::now() < end {
        record(&mut core, "last");
        flush(&mut core);
        read_some(&mut text);
    }
    assert!(text.contains("/last "));
    let whole = &text[..=text.rfind('\n').unwrap()];
    let numbers = targets(whole).into_iter().map_while(|target| target.parse::<u64>().ok());
    assert!(numbers.is_sorted(), "dropped records leave gaps, not disorder");
}

#[test]
fn a_fifo_without_reader_is_no_error_and_is_written_when_one_comes() {
    let world = LogWorld::new();
    let fifo = world.path("fifo");
    make_fifo(&fifo);
    let log = world.start(&fifo);
    let mut core = log.core();
    record(&mut core, "early");
    flush(&mut core);
    until("the missing reader is said", || world.said("cannot write the access log") == 1);
    let mut reader = open_reader(&fifo);
    until("the line is written", || log.counts().written == 1);
    drop(core);
    log.close();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(targets(&text), ["early"]);
}

#[test]
fn a_log_renamed_away_goes_on_in_a_new_file_when_asked() {
    let world = LogWorld::new();
    let log = world.start(&world.path("log"));
    let mut core = log.core();
    record(&mut core, "before");
    flush(&mut core);
    until("the first line is written", || log.counts().written == 1);
    fs::rename(world.path("log"), world.path("log.1")).unwrap();
    log.reopen();
    record(&mut core, "after");
    drop(core);
    log.close();
    assert_eq!(targets(&world.read("log.1")), ["before"]);
    assert_eq!(targets(&world.read("log")), ["after"]);
}

#[test]
fn a_log_renamed_away_is_noticed_without_being_asked() {
    let world = LogWorld::new();
    let log = world.start(&world.path("log"));
    let mut core = log.core();
    fs::rename(world.path("log"), world.path("log.1")).unwrap();
    let old = fs::metadata(world.path("log.1")).unwrap().ino();
    let end = Instant::now() + DEADLINE;
    while !world.path("log").exists() && Instant::now() < end {
        record(&mut core, "x");
        flush(&mut core);
    }
    assert_ne!(fs::metadata(world.path("log")).unwrap().ino(), old);
    drop(core);
    assert_eq!(log.close().written as usize, targets(&(world.read("log.1") + &world.read("log"))).len());
}

#[test]
fn full_disk_is_logged_once_and_blocks_no_core() {
    let world = LogWorld::new();
    let log = world.start(Path::new("/dev/full"));
    let mut core = log.core();
    record(&mut core, "lost");
    flush(&mut core);
    until("the full disk is said", || world.notices.count(NoticeKind::LogTrouble) > 0);
    for _ in 0..3 {
        record(&mut core, "lost");
    }
    drop(core);
    assert_eq!(log.close(), LogCounts { written: 0, dropped: 4 });
    let trouble = "vermeil: cannot write the access log /dev/full: No space left on device (os error 28); its \
                   records wait until it can be written, and are dropped when there are too many";
    assert_eq!(world.notices.lines()[0], trouble);
    assert_eq!(world.said("cannot write"), 1);
    assert_eq!(world.said("4 records dropped"), 1);
}

#[test]
fn a_disk_that_is_emptied_is_written_again_from_where_it_failed() {
    let world = LogWorld::new();
    let link = world.path("log");
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    let log = world.start(&link);
    let mut core = log.core();
    record(&mut core, "kept");
    flush(&mut core);
    until("the full disk is said", || world.said("cannot write") == 1);
    fs::remove_file(&link).unwrap();
    log.reopen();
    until("the line is written", || log.counts().written == 1);
    drop(core);
    assert_eq!(log.close().dropped, 0);
    assert_eq!(targets(&world.read("log")), ["kept"]);
}

/// Regression: the report of dropped records named the common log.
#[test]
fn dropped_line_of_host_names_its_file() {
    let world = LogWorld::new();
    let log = world.start(&world.path("common"));
    let mut core = log.core();
    let own = world.path("none/own");
    record_to(&mut core, "lost", Some(&own));
    record_to(&mut core, "kept", None);
    drop(core);
    assert_eq!(log.close(), LogCounts { written: 1, dropped: 1 });
    let words = format!("1 records dropped so far, the last of {}, which cannot be written", own.display());
    assert_eq!((world.said(&words), world.said("records dropped so far")), (1, 1));
    assert_eq!(targets(&world.read("common")), ["kept"]);
}

/// Regression: the last page of a full disk takes a part of a line. The log thread took each such
/// write for the end of the trouble.
#[test]
fn part_of_line_does_not_end_trouble() {
    const IN_CHILD: &str = "VERMEIL_TEST_FILE_BOUND";
    if std::env::var_os(IN_CHILD).is_none() {
        // The bound on the length of files counts for a whole process, which its signal ends.
        let name = "access_log::tests::part_of_line_does_not_end_trouble";
        let mut child = std::process::Command::new("sh");
        child.args(["-c", "trap '' XFSZ; exec \"$0\" --exact \"$1\" --nocapture"]).env(IN_CHILD, "1");
        let ended = child.arg(std::env::current_exe().unwrap()).arg(name).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        return;
    }
    let world = LogWorld::new();
    let log = world.start(&world.path("log"));
    let mut core = log.core();
    record(&mut core, "first");
    flush(&mut core);
    until("the first line is written", || log.counts().written == 1);
    let before = rustix::process::getrlimit(Resource::Fsize);
    let full = Rlimit { current: Some(world.read("log").len() as u64 + 10), ..before };
    setrlimit(Resource::Fsize, full).unwrap();
    record(&mut core, "kept");
    flush(&mut core);
    let changed =
        || fs::metadata(world.path("log")).map(|about| (about.ctime(), about.ctime_nsec())).unwrap();
    until("the full disk is said", || world.said("cannot write") == 1);
    for _ in 0..3 {
        let last = changed();
        until("a further part is written and taken back", || changed() != last);
    }
    assert_eq!(world.notices.count(NoticeKind::LogTrouble), 1, "{:?}", world.notices.lines());
    setrlimit(Resource::Fsize, before).unwrap();
    until("the line is written", || log.counts().written == 2);
    assert_eq!(world.notices.count(NoticeKind::LogTrouble), 2);
    drop(core);
    assert_eq!(log.close().dropped, 0);
    assert_eq!(targets(&world.read("log")), ["first", "kept"]);
}

#[test]
fn closed_standard_output_ends_log_with_one_notice() {
    let world = LogWorld::new();
    let (reader, ours) = std::io::pipe().unwrap();
    let sink = LogSink::inherited(ours.into()).unwrap();
    let log = Log::start_sink(
        sink,
        no_hosts(),
        1,
        world.notices.clone(),
        LogShared::new(IMPATIENT, &LogOptions::default()),
    )
    .unwrap();
    drop(reader);
    let mut core = log.core();
    let end = Instant::now() + DEADLINE;
    while core.is_on() && Instant::now() < end {
        record(&mut core, "x");
        flush(&mut core);
    }
    assert!(!core.is_on());
    log.close();
    assert_eq!(world.said("standard output is closed: the access log ends here"), 1);
}

/// Regression: the logs of hosts ended with the reader of standard output.
#[test]
fn closed_standard_output_leaves_logs_of_hosts() {
    let world = LogWorld::new();
    let (reader, ours) = std::io::pipe().unwrap();
    let options = LogOptions { hosts_have_files: true, ..LogOptions::default() };
    let log = Log::start_sink(
        LogSink::inherited(ours.into()).unwrap(),
        no_hosts(),
        1,
        world.notices.clone(),
        LogShared::new(IMPATIENT, &options),
    )
    .unwrap();
    drop(reader);
    let mut core = log.core();
    record(&mut core, "lost");
    flush(&mut core);
    let words = "standard output is closed: the access log ends here; the logs of hosts go on";
    until("the end of the common log is said", || world.said(words) == 1);
    record(&mut core, "nowhere");
    record_to(&mut core, "kept", Some(&world.path("own")));
    drop(core);
    assert_eq!(log.close(), LogCounts { written: 1, dropped: 1 });
    assert_eq!(targets(&world.read("own")), ["kept"]);
}

#[test]
fn a_standard_output_that_is_not_read_is_not_made_non_blocking_and_does_not_hold_closing_up() {
    let world = LogWorld::new();
    let (_silent_reader, ours) = std::io::pipe().unwrap();
    let shared_end = ours.try_clone().unwrap();
    let log = Log::start_sink(
        LogSink::inherited(ours.into()).unwrap(),
        no_hosts(),
        1,
        world.notices.clone(),
        LogShared::new(IMPATIENT, &LogOptions::default()),
    )
    .unwrap();
    let mut core = log.core();
    while log.counts().dropped == 0 {
        record(&mut core, "x");
    }
    drop(core);
    log.close();
    assert!(!rustix::fs::fcntl_getfl(&shared_end).unwrap().contains(OFlags::NONBLOCK));
}
