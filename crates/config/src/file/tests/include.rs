//! Included files: their hosts, their problems with file and place, and files that are left out.

use super::*;
use std::fs;

/// A folder with a main file and files in `sites`.
struct SiteFiles(tempfile::TempDir);

impl SiteFiles {
    fn new(main: &str, sites: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sites")).unwrap();
        fs::write(folder.path().join("v.toml"), main).unwrap();
        for (name, text) in sites {
            fs::write(folder.path().join("sites").join(name), text).unwrap();
        }
        Self(folder)
    }

    fn load(&self) -> Result<ServeOptions, ConfigError> {
        super::super::load(&self.0.path().join("v.toml"), &surroundings())
    }

    /// The first lines of the problems, with paths from the folder on.
    fn problems(&self) -> Vec<String> {
        let here = format!("{}/", self.0.path().display());
        let error = self.load().expect_err("refused").to_string().replace(&here, "");
        error.lines().filter(|line| !line.starts_with("  ")).map(str::to_owned).collect()
    }
}

/// All names, in the order of the hosts.
fn names(hosts: &Hosts) -> Vec<String> {
    let mut names: Vec<_> = hosts.all_names().map(|(id, name)| (id.index(), name.to_string())).collect();
    names.sort();
    names.into_iter().map(|(_, name)| name).collect()
}

fn host(name: &str) -> String {
    format!("[[host]]\nnames = [\"{name}\"]\nroot = \"{name}\"\n")
}

#[test]
fn hosts_of_included_files_follow_in_order_of_names() {
    let main = format!("include = [\"sites/*.toml\", \"sites/last.conf\"]\n{}", host("main"));
    let sites = [("b.toml", host("b")), ("a.toml", host("a")), ("last.conf", host("last"))];
    let sites: Vec<_> = sites.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = SiteFiles::new(&main, &sites);
    fs::write(folder.0.path().join("sites/.hidden.toml"), "no toml").unwrap();
    let options = folder.load().unwrap();
    let names = names(&options.hosts);
    assert_eq!(names, ["main", "a", "b", "last"]);
    let root = root_of(&options.hosts, "a").unwrap();
    assert_eq!(Path::new(root), folder.0.path().join("a"), "relative to the main file");
}

#[test]
fn problem_of_included_file_names_file_and_place() {
    let folder = SiteFiles::new(
        "include = \"sites/*\"\n",
        &[
            ("a", "[[host]]\nnames = [\"a\"]\nrot = \"a\"\n"),
            ("b", "log = \"off\"\n[[host]]\nnames = [\"b\"]\nroot = \"b\"\n"),
            ("c", "[[host]]\nnames = [\"B\"]\nroot = \"c\"\n"),
            ("d", "[[host]]\nnames = [\"d\nroot = \"d\"\n"),
        ],
    );
    assert_eq!(
        folder.problems(),
        [
            "sites/a:3:1: host.rot: there is no such key; did you mean `root`?",
            "sites/b:1:1: log: an included file has [[host]] tables only; write this key in the main file",
            "sites/c:2:10: host.names: \"b\": the host at line 2 of sites/b has this name",
            "sites/d:2:12: this text has no quotation mark at its end; write one",
        ]
    );
}

#[test]
fn missing_file_is_refused_and_empty_pattern_is_not() {
    let folder = SiteFiles::new(&format!("include = \"sites/gone.toml\"\n{}", host("a")), &[]);
    assert_eq!(
        folder.problems(),
        [
            "sites/gone.toml: cannot read this included file: No such file or directory (os error 2); remove the name, \
          or change include so that it is left out"
        ]
    );
    let folder = SiteFiles::new(&format!("include = \"sites/*.toml\"\n{}", host("a")), &[]);
    assert!(folder.load().is_ok());
}

/// Regression: a pipe blocked the start and each reload, and the file of a device had no end.
#[test]
fn pipe_and_device_are_no_included_files() {
    let folder = SiteFiles::new(&format!("include = \"sites/*\"\n{}", host("a")), &[]);
    let sites = folder.0.path().join("sites");
    assert!(std::process::Command::new("mkfifo").arg(sites.join("a")).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", sites.join("b")).unwrap();
    let why = "cannot read this included file: it is a pipe, a socket or a device; remove the name, or change include \
               so that it is left out";
    assert_eq!(folder.problems(), [format!("sites/a: {why}"), format!("sites/b: {why}")]);
}

#[test]
fn byte_that_is_no_utf8_has_its_line() {
    let folder = SiteFiles::new(&format!("include = \"sites/*\"\n{}", host("a")), &[]);
    fs::write(folder.0.path().join("sites/b"), b"[[host]]\n# \xff\n").unwrap();
    let why = "line 2 of this included file is no UTF-8; save the file as UTF-8";
    assert_eq!(folder.problems(), [format!("sites/b: {why}")]);
}

/// Regression: the path of the folder counted as part of the pattern.
#[test]
fn folder_with_wildcards_in_its_name_is_no_pattern() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("site[1]*");
    fs::create_dir_all(folder.join("sites")).unwrap();
    let main = format!("include = [\"sites/*.toml\", \"last.conf\"]\n{}", host("main"));
    for (name, text) in [("v.toml", &main), ("sites/a.toml", &host("a")), ("last.conf", &host("last"))] {
        fs::write(folder.join(name), text).unwrap();
    }
    let options = super::super::load(&folder.join("v.toml"), &surroundings()).unwrap();
    assert_eq!(names(&options.hosts), ["main", "a", "last"]);
}

#[test]
fn unfit_files_are_left_out_if_operator_says_so() {
    let main = format!("include = \"sites/*\"\nskip_unfit_includes = true\n{}", host("main"));
    let sites = [
        ("a", host("a")),
        ("b", "[[host]]\nrot = \"b\"\n".to_owned()),
        ("c", host("a")),
        ("d", host("d")),
        ("e", "[[host\n".to_owned()),
    ];
    let sites: Vec<_> = sites.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = SiteFiles::new(&main, &sites);
    let options = folder.load().unwrap();
    let names = names(&options.hosts);
    assert_eq!(names, ["main", "a", "d"]);
    let left_out = options.left_out.join("\n");
    for (file, why) in
        [("b:2:1", "host.rot: there is no such key"), ("c:2:10", "has this name"), ("e:1:", "")]
    {
        let begin = format!("{}/sites/{file}", folder.0.path().display());
        assert!(left_out.lines().any(|line| line.starts_with(&begin) && line.contains(why)), "{left_out}");
    }
    // Each file has two problems. The first 50 are told, and the others are counted.
    let sites: Vec<_> = (0..60).map(|number| (format!("{number}"), "[[host]]\nrot = 1\n")).collect();
    let sites: Vec<_> = sites.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let left_out = SiteFiles::new(&main, &sites).load().unwrap().left_out;
    assert!(left_out.len() == 51 && left_out[50].ends_with(": 70 more problems"), "{left_out:?}");
    // A problem of the main file refuses the whole configuration.
    let folder = SiteFiles::new(&format!("{main}rot = 1\n"), &sites);
    assert!(folder.load().is_err());
}

/// Regression: with the only file left out, the problem of the file was not reported.
#[test]
fn reason_of_left_out_file_is_reported_without_host() {
    let main = "include = \"sites/*\"\nskip_unfit_includes = true\n";
    let problems = SiteFiles::new(main, &[("a", "[[host]]\nrot = \"a\"\n")]).problems();
    let expected = [
        "sites/a:2:1: host.rot: there is no such key",
        "v.toml:3:1: host: there is no host, and none in the files of include",
    ];
    for (problem, begin) in problems.iter().zip(expected) {
        assert!(problem.starts_with(begin), "{problems:?}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
}

/// Regression: the removed folder of one site refused the start of all sites.
#[test]
fn included_host_without_needed_folder_is_left_out() {
    let main = "include = \"sites/*\"\nskip_unfit_includes = true\n";
    let cgi = format!("{}[[host.route]]\nprefix = \"/cgi/\"\naction = \"cgi\"\n", host("cgi"));
    let send = format!("{}php.send = [\"gone\"]\n", host("send"));
    let sites =
        [("a", host("a")), ("b", host("b")), ("c", host("c")), ("d", cgi), ("e", send), ("f", host("f"))];
    let sites: Vec<_> = sites.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = SiteFiles::new(main, &sites);
    for present in ["c", "send"] {
        fs::create_dir(folder.0.path().join(present)).unwrap();
    }
    let options = folder.load().unwrap();
    assert_eq!(names(&options.hosts), ["c", "f"], "another host without its folder answers 404");
    let left_out = options.left_out.join("\n");
    for (place, why) in [
        ("sites/a:3:8: host.root: cannot serve ", "/a: there is no such folder"),
        ("sites/b:3:8: host.root: ", "/b: there is no such folder"),
        ("sites/d:3:8: host.root: ", "/cgi: there is no such folder"),
        ("sites/e:1:1: host.php.send: ", "/gone sent: there is no such folder"),
    ] {
        assert!(left_out.lines().any(|line| line.contains(place) && line.contains(why)), "{left_out}");
    }
    assert_eq!(options.left_out.len(), 4, "{left_out}");
    let careful = main.replace("true", "false");
    fs::write(folder.0.path().join("v.toml"), careful).unwrap();
    assert_eq!(folder.load().unwrap().hosts.iter().len(), sites.len(), "the start judges the folders");
}

/// Regression: a file that was left out took the valid file with the same name along.
#[test]
fn left_out_file_takes_no_other_file_along() {
    let main = format!("include = \"sites/*\"\nskip_unfit_includes = true\n{}", host("main"));
    let default = |name: &str| format!("{}default = true\n", host(name));
    let sites = [
        ("a", "[[host]]\nnames = [\"x\"]\nrot = 1\n".to_owned()),
        ("b", host("x")),
        // Left out because of `x`, so `y` is free.
        ("c", format!("{}{}", host("x"), host("y"))),
        ("d", host("y")),
        ("e", format!("{}rot = 1\n", default("e"))),
        ("f", default("f")),
    ];
    let sites: Vec<_> = sites.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = SiteFiles::new(&main, &sites);
    for root in ["x", "f"] {
        fs::create_dir(folder.0.path().join(root)).unwrap();
    }
    let options = folder.load().unwrap();
    assert_eq!(names(&options.hosts), ["main", "x", "y", "f"], "{:?}", options.left_out);
    assert_eq!(options.hosts.default_host().index(), 3);
    let left_out = options.left_out.join("\n");
    assert!(left_out.contains("/sites/c:2:10: host.names: \"x\": the host at line 1 of "), "{left_out}");
    // The main file is judged at once.
    let folder = SiteFiles::new(&format!("{main}{}", host("main")), &sites);
    let problems = folder.problems();
    let twice = "v.toml:7:10: host.names: \"main\": the host at line 3 has this name";
    assert!(problems.iter().any(|problem| problem == twice), "{problems:?}");
}

/// Regression: one file after the other was left out, until no site had HTTPS.
#[test]
fn missing_https_listener_is_a_problem_of_main_file() {
    let main = format!("include = \"sites/*\"\nskip_unfit_includes = true\n{}", host("main"));
    let secure = |name: &str| format!("{}certificate = \"c.pem\"\nhttps = \"redirect\"\n", host(name));
    let (a, b) = (secure("a"), secure("b"));
    let problems = SiteFiles::new(&main, &[("a", &a), ("b", &b)]).problems();
    let what = "no listener speaks HTTPS; write [[listener]] with address = \":443\" and tls = true";
    let expected = ["certificate", "https"].map(|key| format!("v.toml:6:1: host.{key}: {what}"));
    assert_eq!(problems, expected);
}
