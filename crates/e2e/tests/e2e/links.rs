//! Links that the server's user plants where the superuser writes: each path that the superuser
//! opens or makes, with each kind of link. Where the tests do not run as the superuser, the tests
//! report a skip and pass. The rule itself: `crates/io/src/output.rs`.

use crate::support::{Io, TestProcess, TestServer, TestSite, until, vermeil};
use rustix::process::{Signal, geteuid};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// The user that plants links: user `nobody`, which is also the server's user.
const NOBODY: u32 = 65_534;

const SECRET: &str = "root:secret";

/// How a user may lead the superuser to another file.
#[derive(Clone, Copy, Debug)]
enum Trick {
    Link,
    DanglingLink,
    HardLink,
    /// Of a folder on the way, to a file that is there.
    FolderLink,
    /// Of a folder on the way, to a name that is free.
    DanglingFolderLink,
}

const TRICKS: [Trick; 5] =
    [Trick::Link, Trick::DanglingLink, Trick::HardLink, Trick::FolderLink, Trick::DanglingFolderLink];

/// A folder of user `nobody`, and the superuser's folder beside it.
struct LinksWorld {
    site: TestSite,
}

impl LinksWorld {
    fn new() -> Self {
        let site = TestSite::new();
        fs::set_permissions(site.outside("."), Permissions::from_mode(0o755)).unwrap();
        site.write("index.html", b"page");
        for name in ["theirs", "etc"] {
            fs::create_dir(site.outside(name)).unwrap();
        }
        chown(site.outside("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
        let secret = site.outside("etc/secret");
        fs::write(&secret, SECRET).unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        Self { site }
    }

    /// Plants a link; returns the path that the superuser will write to.
    fn plant(&self, trick: Trick) -> PathBuf {
        let at = |name: &str| self.site.outside(name);
        let link = |target: &str, name: &str| {
            symlink(at(target), at(name)).unwrap();
            lchown(at(name), Some(NOBODY), Some(NOBODY)).unwrap();
        };
        match trick {
            Trick::Link => link("etc/secret", "theirs/file"),
            Trick::DanglingLink => link("etc/new", "theirs/file"),
            Trick::HardLink => fs::hard_link(at("etc/secret"), at("theirs/file")).unwrap(),
            Trick::FolderLink | Trick::DanglingFolderLink => link("etc", "theirs/way"),
        }
        match trick {
            Trick::FolderLink => at("theirs/way/secret"),
            Trick::DanglingFolderLink => at("theirs/way/new"),
            _ => at("theirs/file"),
        }
    }

    #[track_caller]
    fn is_untouched(&self, writer: &str, trick: Trick) {
        let secret = self.site.outside("etc/secret");
        let found =
            fs::symlink_metadata(&secret).unwrap_or_else(|error| panic!("{writer}, {trick:?}: {error}"));
        assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o600), "{writer}, {trick:?}");
        let is_kept = fs::read(&secret).unwrap() == SECRET.as_bytes();
        assert!(is_kept, "{writer}, {trick:?}: the superuser's file was overwritten");
        let listed = fs::read_dir(self.site.outside("etc")).unwrap().count();
        assert_eq!(listed, 1, "{writer}, {trick:?}: something was made in the superuser's folder");
    }
}

fn is_superuser() -> bool {
    let is = geteuid().is_root();
    if !is {
        eprintln!("SKIPPED: only the superuser's rights can be abused");
    }
    is
}

/// Runs a server until the server serves or has ended, and ends the server.
fn serve(site: &TestSite, arguments: &[&str]) {
    let mut command = vermeil(&["serve", "--listen", "127.0.0.1:0", "--user", "nobody:nogroup"]);
    command.args(arguments).arg(site.root());
    serve_until_ready(command);
}

fn serve_until_ready(command: Command) {
    let process = TestProcess::spawn(command);
    until_served(&process);
    if !process.has_ended() {
        process.signal(Signal::TERM);
    }
    process.wait();
}

fn until_served(process: &TestProcess) {
    until("the server serves or has ended", || {
        (process.has_ended() || process.stderr().contains("\nvermeil: cores:")).then_some(())
    });
}

/// Runs a command to its end, which must not be a complaint about options.
fn run(command: Command) {
    messages(command);
}

/// Runs a command as [`run`] does, and returns its messages.
fn messages(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Loads a server for a moment.
fn load(world: &LinksWorld, arguments: &[&str]) {
    let server = TestServer::start(Io::Epoll, &world.site, &[]);
    let url = format!("http://{}/", server.addr());
    let mut command = vermeil(&["load", &url, "--duration", "100ms"]);
    command.args(arguments);
    run(command);
}

/// Makes one recording, in a folder of `folder`. Returns the messages.
fn scale(folder: &Path) -> String {
    let mut command = vermeil(&["scale", "--cores", "1", "--reps", "1", "--folder"]);
    command.arg(folder).args(["--", "echo", "work", "1"]);
    messages(command)
}

/// A writer, which gets the path that leads through a planted link.
type FileWriter = (&'static str, fn(&LinksWorld, &Path));

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

const SERVER_WRITERS: [FileWriter; 8] = [
    ("--log", |world, path| serve(&world.site, &["--log", &text(path)])),
    ("--trace", |world, path| serve(&world.site, &["--log", "off", "--trace", &text(path)])),
    ("--control", |world, path| serve(&world.site, &["--log", "off", "--control", &text(path)])),
    ("unix listener", |world, path| {
        serve(&world.site, &["--log", "off", "--listen", &format!("unix:{}", text(path))]);
    }),
    ("instances --log", |world, path| {
        let cores = ["--cores", "2", "--instances", "2"];
        serve(&world.site, &[&cores[..], &["--log", &text(path)]].concat());
    }),
    ("log of a server without --user", |world, path| {
        let root = text(&world.site.root());
        let command = vermeil(&["serve", "--listen", "127.0.0.1:0", "--log", &text(path), &root]);
        let process = TestProcess::spawn(command);
        until_served(&process);
    }),
    ("log after a reload", |world, path| {
        let file = world.site.configure(Io::Epoll, "[[host]]\nroot = \"site\"\n");
        let server = TestServer::of_file(&file);
        let other = format!("log = \"{}\"", text(path));
        let changed = fs::read_to_string(&file).unwrap().replace("log = \"off\"", &other);
        fs::write(&file, changed).unwrap();
        server.signal(Signal::HUP);
        server.says("the configuration stays as it is");
    }),
    ("private folder and spool folder", |world, path| {
        // Both are folders, so a link to a file leads nowhere. A link to a folder is the parent.
        let folder = if path.parent().is_some_and(Path::is_symlink) { path.parent().unwrap() } else { path };
        let spool = format!("spool_folder = \"{}\"", text(folder));
        let top = format!("user = \"nobody:nogroup\"\n[php]\nuser = \"nobody\"\n{spool}\n");
        let host = "[[host]]\nroot = \"site\"\nphp = true\n";
        let file = world.site.configure(Io::Epoll, &format!("{top}{host}"));
        for variable in ["TMPDIR", "RUNTIME_DIRECTORY"] {
            let mut command = vermeil(&["serve", "--config", &text(&file)]);
            command.env_remove("RUNTIME_DIRECTORY").env(variable, folder);
            serve_until_ready(command);
        }
    }),
];

const COMMAND_WRITERS: [FileWriter; 10] = [
    ("load --json", |world, path| load(world, &["--json", &text(path)])),
    ("load --html", |world, path| load(world, &["--html", &text(path)])),
    ("load files", |_, path| run(vermeil(&["load", "files", "webstone", &text(path)]))),
    ("sim run --trace", |_, path| run(vermeil(&["sim", "run", "sfs", "--trace", &text(path)]))),
    ("sim run --timeline", |_, path| run(vermeil(&["sim", "run", "sfs", "--timeline", &text(path)]))),
    ("steer's state", |_, path| run(vermeil(&["steer", "undo", "--state", &text(path)]))),
    ("profile record", |_, path| run(vermeil(&["profile", "record", "-o", &text(path), "--", "true"]))),
    ("folder of scale", |_, path| drop(scale(path))),
    ("recording of scale", |world, path| {
        // The link gets the name that the recording or its folder has.
        let folder = world.site.outside("theirs/cpus-1");
        if path.parent().is_some_and(Path::is_symlink) {
            fs::rename(path.parent().unwrap(), &folder).unwrap();
        } else {
            fs::create_dir(&folder).unwrap();
            chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
            fs::rename(path, folder.join("run-01.prof")).unwrap();
        }
        let said = scale(&world.site.outside("theirs"));
        // The recorder itself refuses a planted symbolic link.
        let is_hard = fs::symlink_metadata(folder.join("run-01.prof")).is_ok_and(|found| found.is_file());
        assert!(is_hard || !said.contains("earlier run"), "{said}");
    }),
    ("man pages and completions", |_, path| {
        let folder = path.parent().unwrap();
        if !folder.is_symlink() {
            fs::rename(path, folder.join("vermeil.1")).unwrap();
            symlink(folder.join("vermeil.1"), folder.join("vermeil.bash")).unwrap();
            lchown(folder.join("vermeil.bash"), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        assert!(vermeil_cli::man_pages(folder).is_err());
        assert!(vermeil_cli::completions(folder).is_err());
    }),
];

#[test]
fn planted_links_lead_the_superuser_nowhere() {
    if !is_superuser() {
        return;
    }
    for (name, write) in SERVER_WRITERS.into_iter().chain(COMMAND_WRITERS) {
        for trick in TRICKS {
            let world = LinksWorld::new();
            let path = world.plant(trick);
            write(&world, &path);
            world.is_untouched(name, trick);
        }
    }
}

/// Regression: the advice was to give the standard output away with `chown`.
#[test]
fn log_link_to_standard_output_is_refused_with_advice() {
    if !is_superuser() {
        return;
    }
    let world = LinksWorld::new();
    let log = world.site.outside("access.log");
    symlink("/dev/stdout", &log).unwrap();
    let root = world.site.root();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--user", "nobody:nogroup", "--log"];
    let output = vermeil(&arguments).args([&log, &root]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("write --log -") && !said.contains("chown"), "{said}");
}

#[test]
fn log_of_another_user_is_refused_with_advice() {
    if !is_superuser() {
        return;
    }
    let world = LinksWorld::new();
    let log = world.site.outside("theirs/file");
    fs::write(&log, "").unwrap();
    fs::set_permissions(&log, Permissions::from_mode(0o600)).unwrap();
    let root = world.site.root();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--user", "nobody:nogroup", "--log"];
    let output = vermeil(&arguments).args([&log, &root]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("belongs to user root") && said.contains("chown nobody"), "{said}");
    assert_eq!(fs::metadata(&log).unwrap().uid(), 0);
}
