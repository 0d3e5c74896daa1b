//! The plan of a configuration, and the faults that `vermeil check` finds on the machine, each with
//! the place of its key.

use crate::{ServePlan, descriptors::of_logs, explain};
use std::{fs, io, net::SocketAddr, path::Path};
use vermeil_config::{GivenParts, ServeOptions, Surroundings, load_with_places, take};
use vermeil_topology::{Allowed, synthetic};

/// Four cpus; `localhost` has two addresses, and no other name is known.
fn surroundings() -> Surroundings {
    let machine = synthetic::parse("node:1 core:2 pu:2").unwrap();
    let look_up = |name: &str, port| match name {
        "localhost" => Ok(vec![addr(&format!("[::1]:{port}")), addr(&format!("127.0.0.1:{port}"))]),
        _ => Err(io::Error::other("no such name")),
    };
    Surroundings {
        allowed: Allowed::everything(&machine),
        machine,
        has_ipv6: true,
        look_up,
        given: GivenParts::Nothing,
    }
}

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The warnings and the refusals of a configuration in a folder with the folder `site`, without the
/// path of the file.
fn found(text: &str) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("site")).unwrap();
    let file = folder.path().join("v.toml");
    let text = text.replace("HERE", folder.path().to_str().unwrap());
    let text = format!("{text}[[listener]]\naddress = \"127.0.0.1:0\"\n");
    fs::write(&file, &text).unwrap();
    let (options, places) = load_with_places(&file, &surroundings()).unwrap();
    let plan = ServePlan::new(&options).with_places(&places);
    let begin = format!("{}/", folder.path().display());
    let short = |lines: Vec<String>| lines.iter().map(|line| line.replace(&begin, "")).collect();
    (short(plan.warnings()), short(plan.refusals()))
}

fn warnings(text: &str) -> Vec<String> {
    found(text).0
}

#[test]
fn missing_root_of_each_host_has_its_place() {
    let (warnings, refusals) =
        found("[[host]]\nroot = \"gone\"\n[[host]]\nnames = [\"b\"]\nroot =   \"too\"\n");
    assert_eq!(warnings, ["v.toml:5:10: host.root: b: cannot serve too: there is no such folder"]);
    let why = "cannot serve gone: there is no such folder; make a folder there, or name another as root";
    assert_eq!(refusals, [format!("v.toml:2:8: host.root: {why}")]);
}

/// Regression: a log was counted once for each of its hosts.
#[test]
fn hosts_with_same_log_share_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("site")).unwrap();
    let host = |(name, log): (&str, &str)| {
        format!("[[host]]\nnames = [\"{name}\"]\nroot = \"site\"\nlog = \"{log}.log\"\n")
    };
    let text: String = [("a", "shared"), ("b", "shared"), ("c", "own")].map(host).concat();
    let options = take(&folder.path().join("v.toml"), &text.into(), &surroundings()).unwrap();
    assert_eq!([of_logs(&options, 1 << 20), of_logs(&options, 4)], [2, 1]);
}

#[test]
fn explanation_passes_over_own_path_with_encoded_slash() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("site")).unwrap();
    fs::write(folder.path().join("site/page.html"), "page").unwrap();
    for (candidates, found) in [("\"{path}\", \"/page.html\"", true), ("\"{path}\", \"{path}.html\"", false)]
    {
        let text = format!("[[host]]\nroot = \"site\"\ntry = [{candidates}]\n");
        let options = take(&folder.path().join("v.toml"), &text.into(), &surroundings()).unwrap();
        for url in ["/a%2fb", "/a/b"] {
            let lines = explain(&options, url).unwrap();
            let answer = lines.lines().last().unwrap_or_default();
            assert!(answer.starts_with(if found { "answer: the file " } else { "answer: 404" }), "{lines}");
        }
    }
}

/// Regression: after a rewrite the explanation left out the rules that an earlier route has for the
/// index page.
#[test]
fn explanation_names_rules_of_rewritten_index_page() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("site/docs")).unwrap();
    fs::write(folder.path().join("site/docs/index.html"), "page").unwrap();
    let text = "[[host]]\nroot = \"site\"\n\
                [[host.route]]\nsuffix = \".html\"\naction = \"files\"\naccess.deny = [\"192.0.2.0/24\"]\n\
                [[host.route]]\npath = \"/d\"\naction = \"rewrite\"\nto = \"/docs/\"\n";
    let options = take(&folder.path().join("v.toml"), &text.to_owned().into(), &surroundings()).unwrap();
    for url in ["/docs/", "/d"] {
        let lines = explain(&options, url).unwrap();
        assert!(lines.contains("access: the client's network (else 403)"), "{url}: {lines}");
    }
}

/// Regression: the check passed, and the server ended with an error of the system.
#[test]
fn too_long_path_of_control_socket_is_refused() {
    let long = "x".repeat(200);
    let (_, refusals) = found(&format!("control = \"{long}\"\n[[host]]\nroot = \"site\"\n"));
    let [why] = &refusals[..] else { panic!("{refusals:?}") };
    assert!(why.starts_with("cannot make the control socket: a unix socket's path has at most 107"), "{why}");
}

#[test]
fn missing_certificate_has_its_place() {
    let secure = "[[listener]]\naddress = \"127.0.0.1:8443\"\ntls = true\n[[host]]\nroot = \"site\"\n";
    let (_, refusals) = found(&format!("{secure}certificate = \"gone.pem\"\nkey = \"gone.key\"\n"));
    let begin = "v.toml:6:15: host.certificate: cannot serve HTTPS: cannot read gone.pem: No such file";
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals[0].starts_with(begin), "{refusals:?}");
}

#[test]
fn file_of_https_has_the_place_of_its_key() {
    let secure = "[[listener]]\naddress = \"127.0.0.1:8443\"\ntls = true\n[[host]]\nroot = \"site\"\n";
    for (key, place) in [
        ("key", "v.toml:7:7: host.key: "),
        ("staple", "v.toml:7:10: host.staple: "),
        ("client_issuers", "v.toml:7:18: host.client_issuers: "),
    ] {
        // The file of the configuration is readable, and no PEM file.
        let (_, refusals) = found(&format!("{secure}certificate = \"v.toml\"\n{key} = \"gone\"\n"));
        assert!(refusals.len() == 1 && refusals[0].starts_with(place), "{refusals:?}");
        assert!(refusals[0].contains("cannot read gone: "), "{refusals:?}");
    }
}

#[test]
fn redirect_onto_itself_is_warned_of() {
    let host = "[[host]]\nnames = [\"a.example\"]\nroot = \"site\"\n[[host.route]]\n";
    let end = "clients never arrive; name another target";
    for (route, is_endless) in [
        ("path = \"/a\"\nto = \"/a\"", true),
        ("path = \"/a\"\nto = \"/a?again\"", true),
        ("path = \"/a\"\nto = \"http://a.example/a\"", true),
        ("path = \"/a\"\nto = \"http://{host}/a\"", true),
        ("prefix = \"/a\"\nto = \"/a/b{rest}\"", true),
        ("prefix = \"/\"\nto = \"/index.html\"", true),
        ("path = \"/a\"\nto = \"/b\"", false),
        ("path = \"/a\"\nto = \"http://b.example/a\"", false),
        ("path = \"/a\"\nto = \"https://a.example/a\"", false),
        ("path = \"/a\"\nmethods = [\"POST\"]\nto = \"/a\"", false),
    ] {
        let text = format!("{host}{route}\naction = \"redirect\"\n");
        let lone = warnings(&format!("[hosts]\nunknown = \"refuse\"\n{text}"));
        let warned = lone.iter().any(|line| {
            line.starts_with("v.toml:8:6: host.route.to: a.example: the redirect leads")
                && line.ends_with(end)
        });
        assert_eq!(warned, is_endless, "{route}: {lone:?}");
        assert_eq!(lone.len(), usize::from(is_endless), "{route}: {lone:?}");
    }
}

#[test]
fn route_behind_wider_route_is_warned_of() {
    let deny = |part: &str| format!("[[host.route]]\n{part}\naction = \"deny\"\n");
    let warned = |first: &str, second: &str| {
        warnings(&format!("[[host]]\nroot = \"site\"\n{}{}", deny(first), deny(second)))
    };
    for (first, second, is_hidden) in [
        ("prefix = \"/\"", "prefix = \"/a\"", true),
        ("prefix = \"/\"", "suffix = \".x\"", true),
        ("prefix = \"/a\"", "path = \"/a/b\"", true),
        ("path = \"/a\"", "path = \"/a\"", true),
        ("prefix = \"/a\"", "prefix = \"/ab\"", false),
        ("prefix = \"/a\"", "prefix = \"/\"", false),
        ("prefix = \"/\"\nmethods = [\"POST\"]", "prefix = \"/a\"", false),
        ("prefix = \"/\"\nsuffix = \".x\"", "prefix = \"/a\"", false),
    ] {
        let lines = warned(first, second);
        assert_eq!(lines.len(), usize::from(is_hidden), "{first}, {second}: {lines:?}");
        let begin = "v.toml:6:1: host.route: the default host: no request reaches route 2, because route 1 ";
        assert!(lines.iter().all(|line| line.starts_with(begin)), "{lines:?}");
    }
    let rewrite = "[[host.route]]\nprefix = \"/b\"\naction = \"rewrite\"\nto = \"/a\"\n";
    let text =
        format!("[[host]]\nroot = \"site\"\n{}{rewrite}{}", deny("path = \"/c\""), deny("path = \"/c\""));
    assert_eq!(warnings(&text), <[String; 0]>::default(), "a rewrite leads past the first route");
}

#[test]
fn missing_folder_of_programs_is_warned_of() {
    let text = "[[host]]\nroot = \"site\"\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n\
                [[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\n";
    let why = "there are no programs, because site/cgi-bin is missing; make it, or name another prefix";
    assert_eq!(warnings(text), [format!("v.toml:4:10: host.route.prefix: the default host: {why}")]);
}

#[test]
fn missing_folder_of_route_is_warned_of() {
    let text =
        "[[host]]\nroot = \"site\"\n[[host.route]]\nprefix = \"/a\"\naction = \"files\"\nroot = \"gone\"\n";
    let why = "cannot serve gone: there is no such folder; make a folder there, or name another as root";
    assert_eq!(warnings(text), [format!("v.toml:6:8: host.route.root: the default host: {why}")]);
}

#[test]
fn missing_page_of_errors_is_warned_of() {
    let text = "[[host]]\nroot = \"site\"\nerror_pages = { 404 = \"/gone.html\", 5xx = \"/gone.html\" }\n";
    let why = "there is no page of errors site/gone.html, so clients get a short page instead; make it, or take it out \
               of error_pages";
    assert_eq!(warnings(text), [format!("the default host: {why}")]);
}

#[test]
fn missing_socket_of_php_is_warned_of() {
    let text = "[php]\nsource = \"unix:HERE/NAME\"\n[[host]]\nroot = \"site\"\nphp = true\n";
    for (name, why) in [("gone", "there is no such socket"), ("site", "it is no socket")] {
        let expected = format!(
            "v.toml:2:10: php.source: PHP does not answer at {name}: {why}; start the pool, or name its socket"
        );
        assert_eq!(warnings(&text.replace("NAME", name)), [expected]);
    }
}

#[test]
fn folder_to_send_from_must_be_there() {
    let text = "[cgi]\nsend = [\"gone\", \".\"]\n[[host]]\nroot = \".\"\n\
                [host.cgi]\nsend = [\"/x=v.toml\", \"gone\"]\n";
    let refused = |name: &str, why: &str| {
        format!("cannot have files of {name} sent: {why}; make a folder there, or take it out of send")
    };
    let expected = [refused("gone", "there is no such folder"), refused("v.toml", "it is no folder")];
    assert_eq!(found(text).1, expected);
}

#[test]
fn missing_candidate_is_warned_of() {
    let host = "[[host]]\nnames = [\"a.example\"]\nroot = \"site\"\n";
    let warning = "a.example: there is no site/gone.html, so paths that reach it are 404; make it, or take it out of try";
    let route = "[[host.route]]\npath = \"/gone.html\"\naction = \"answer\"\nbody = \"x\"\n";
    for (text, expected) in [
        (format!("{host}try = [\"{{path}}\", \"/gone.html\"]\n"), vec![warning]),
        (
            format!("{host}[[host.route]]\naction = \"files\"\ntry = [\"{{path}}\", \"/gone.html\"]\n"),
            vec![warning],
        ),
        (format!("{host}try = [\"{{path}}\", \"/gone.html\"]\n{route}"), vec![]),
        (format!("{host}try = [\"{{path}}\", \"{{path}}.html\"]\n"), vec![]),
    ] {
        assert_eq!(warnings(&text), expected, "{text}");
    }
}

#[test]
fn programs_with_the_servers_rights_are_shown() {
    let host = "[[host]]\nroot = \".\"\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n";
    let options =
        |keys: &str| take("/v.toml".as_ref(), &format!("{keys}{host}").into(), &surroundings()).unwrap();
    let shows = |options: &ServeOptions, what: &str| {
        let plan = ServePlan::new(options).to_string();
        assert!(plan.contains(&format!("; /cgi-bin*: {what}\n")), "{plan}");
    };
    shows(&options(""), "CGI as the server's user");
    let mut named = options("[cgi]\nuser = \"nobody\"\n");
    named.user = Some("daemon".parse().unwrap());
    shows(&named, "CGI");
    // Regression: the plan did not say so if the programs have the server's user by name.
    named.user = Some("nobody".parse().unwrap());
    shows(&named, "CGI as the server's user");
}

#[test]
fn plan_lists_intended_actions() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[[host]]\nnames = [\"b.example\", \"a.example\"]\nroot = \".\"\n\
                [[host.route]]\nprefix = \"/x\"\naction = \"redirect\"\nto = \"/y\"\n\
                [[host]]\nnames = [\"*.c.example\"]\nroot = \"gone\"\n";
    let options = take(&folder.path().join("v.toml"), &text.to_owned().into(), &surroundings()).unwrap();
    let plan = ServePlan::new(&options);
    let here = folder.path().display();
    let expected = format!(
        "listen: 127.0.0.1:8080\ncores: 4 (cpus 0-3); io: auto; log: -\n\
         hosts: 2, names: 3; every other name: a.example, b.example\n\
         \x20 a.example, b.example: files of {here}; /x*: 301 to /y\n\
         \x20 *.c.example: files of {here}/gone\n"
    );
    assert_eq!(plan.to_string(), expected);
    assert_eq!(plan.warnings(), [format!("*.c.example: cannot serve {here}/gone: there is no such folder")]);
}

#[test]
fn plan_shows_pools_of_hosts() {
    let text = "[[host]]\nroot = \"x\"\n[host.php]\nuser = \"nobody\"\nchildren = 2\nidle_stop = \"5s\"\n\
                [php]\nsource = \"/usr/bin/php-cgi\"\n";
    let options = take(Path::new("/etc/v.toml"), &text.to_owned().into(), &surroundings()).unwrap();
    let plan = ServePlan::new(&options).to_string();
    assert!(plan.contains("; *.php: PHP as nobody, 2 children, stopped after 5 s"), "{plan}");
}
