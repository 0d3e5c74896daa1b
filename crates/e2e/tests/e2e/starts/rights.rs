//! `vermeil check` and `vermeil serve` agree on the rights of each user: of the superuser that
//! becomes another user, and of an ordinary user.

use super::{of_a_login, starts};
use crate::support::TestSite;
use rustix::process::geteuid;
use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::Command,
};

/// A configuration, and the words by which the check refuses it.
struct RightsCase {
    name: &'static str,
    /// Keys before all tables.
    top: &'static str,
    listener: &'static str,
    /// Tables behind the first host, whose folder is `site`.
    tables: &'static str,
    /// The files and folders whose rights differ, with their modes. A name with a slash at its end
    /// is a folder.
    modes: &'static [(&'static str, u32)],
    /// The hard limit of descriptors.
    descriptors: &'static str,
    /// `None` if the server starts.
    refusal: Option<&'static str>,
}

const PLAIN: RightsCase = RightsCase {
    name: "plain",
    top: "log = \"off\"",
    listener: "127.0.0.1:0",
    tables: "",
    modes: &[],
    descriptors: "1024",
    refusal: None,
};

const CGI: &str = "[[host.route]]\nprefix = \"/\"\naction = \"cgi\"\n[host.cgi]\nuser = \"daemon\"\n";

/// Cases of the superuser; the server becomes `nobody`.
const OF_SUPERUSER: [RightsCase; 8] = [
    PLAIN,
    RightsCase {
        name: "unreadable root",
        modes: &[("site/", 0o700)],
        refusal: Some("no permission to read it"),
        ..PLAIN
    },
    RightsCase {
        name: "spool folder without the right to write",
        tables: "[[host.route]]\nprefix = \"/\"\naction = \"cgi\"\n[host.cgi]\nuser = \"daemon\"\n[programs]\nspool_folder = \"spool\"\n",
        modes: &[("spool/", 0o755)],
        refusal: Some("cannot keep request bodies in"),
        ..PLAIN
    },
    RightsCase { name: "programs of another user", tables: CGI, ..PLAIN },
    RightsCase {
        name: "log where the user may not go",
        top: "log = \"logs/log\"",
        modes: &[("logs/", 0o700)],
        refusal: Some("cannot open the access log"),
        ..PLAIN
    },
    RightsCase {
        name: "log of the superuser",
        top: "log = \"log\"",
        modes: &[("log", 0o600)],
        refusal: Some("belongs to user root"),
        ..PLAIN
    },
    RightsCase {
        name: "control path that is a file",
        top: "log = \"off\"\ncontrol = \"file\"",
        modes: &[("file", 0o644)],
        refusal: Some("is no socket"),
        ..PLAIN
    },
    RightsCase {
        name: "address of another machine",
        listener: "192.0.2.1:0",
        refusal: Some("this machine has no such address"),
        ..PLAIN
    },
];

/// Cases of an ordinary user.
const OF_ORDINARY_USER: [RightsCase; 11] = [
    PLAIN,
    RightsCase {
        name: "port below 1024",
        listener: "127.0.0.1:81",
        refusal: Some("ports below 1024 need the right"),
        ..PLAIN
    },
    RightsCase {
        name: "log without the right to write",
        top: "log = \"shut/log\"",
        modes: &[("shut/", 0o555)],
        refusal: Some("cannot open the access log"),
        ..PLAIN
    },
    RightsCase {
        name: "control socket without the right to write",
        top: "log = \"off\"\ncontrol = \"shut/control\"",
        modes: &[("shut/", 0o555)],
        refusal: Some("no right to write in"),
        ..PLAIN
    },
    RightsCase {
        name: "unix listener without the right to write",
        listener: "unix:shut/listener",
        modes: &[("shut/", 0o555)],
        refusal: Some("no right to write in"),
        ..PLAIN
    },
    RightsCase {
        name: "unix listener where the user may not go",
        listener: "unix:shut/listener",
        modes: &[("shut/", 0o600)],
        refusal: Some("no right to write in"),
        ..PLAIN
    },
    RightsCase {
        name: "another user for the server",
        top: "log = \"off\"\nuser = \"daemon\"",
        refusal: Some("only the superuser may"),
        ..PLAIN
    },
    RightsCase {
        name: "another user for CGI",
        tables: CGI,
        refusal: Some("only the superuser may change users"),
        ..PLAIN
    },
    RightsCase {
        name: "another user for PHP",
        tables: "[host.php]\nuser = \"daemon\"\n",
        refusal: Some("only the superuser may change users"),
        ..PLAIN
    },
    RightsCase {
        name: "unreadable root",
        modes: &[("site/", 0)],
        refusal: Some("no permission to read it"),
        ..PLAIN
    },
    RightsCase {
        name: "few descriptors",
        descriptors: "16",
        refusal: Some("cannot start with at most 16 open files"),
        ..PLAIN
    },
];

impl RightsCase {
    /// Compares a check with a start of the same configuration.
    fn compare(&self, top: &str, command: impl Fn(&[&str]) -> Command) {
        let Self { name, listener, tables, modes, refusal, .. } = self;
        let site = TestSite::new();
        fs::set_permissions(site.outside("."), Permissions::from_mode(0o777)).unwrap();
        let file = site.outside("case.toml");
        let text = format!(
            "{top}{}\n[[listener]]\naddress = \"{listener}\"\n[[host]]\nroot = \"site\"\n{tables}",
            self.top
        );
        fs::write(&file, text).unwrap();
        for (path, mode) in *modes {
            let path = site.outside(path);
            if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                fs::create_dir_all(&path).unwrap();
            } else {
                fs::write(&path, "").unwrap();
            }
            fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
        }
        let file = file.to_str().unwrap();
        let mut check = command(&["check", file]);
        check.env_remove("RUNTIME_DIRECTORY");
        let checked = check.output().unwrap();
        let (serves, said) = starts(command(&["serve", "--config", file]));
        let words = String::from_utf8_lossy(&checked.stderr);
        for (path, _) in *modes {
            fs::set_permissions(site.outside(path), Permissions::from_mode(0o755)).unwrap();
        }
        if words.contains("neither php-fpm nor php-cgi") {
            return;
        }
        assert_eq!(checked.status.success(), serves, "{name}: check said: {words}serve said: {said}");
        // A machine may let each user bind each port.
        if let Some(expected) = refusal.filter(|_| !serves || !listener.ends_with(":81")) {
            assert!(!serves && words.contains(expected), "{name}: {words}");
        } else {
            assert!(serves, "{name}: {said}");
        }
    }
}

#[test]
fn check_and_serve_agree_on_rights_of_configured_user() {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only the superuser becomes another user");
    }
    for case in &OF_SUPERUSER {
        case.compare("user = \"nobody\"\n", crate::support::vermeil);
    }
}

#[test]
fn check_and_serve_agree_on_rights_of_ordinary_user() {
    if !of_a_login(&["--version"]).output().unwrap().status.success() {
        return eprintln!("SKIPPED: an ordinary user cannot reach the binary here");
    }
    for case in &OF_ORDINARY_USER {
        case.compare("", |arguments| {
            let script = format!("ulimit -n {}; exec \"$0\" \"$@\"", case.descriptors);
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &script, env!("CARGO_BIN_EXE_vermeil-tested")]).args(arguments);
            if geteuid().is_root() {
                command.uid(65_534).gid(65_534);
            }
            command
        });
    }
}
