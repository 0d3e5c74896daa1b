//! The host of a request under every spelling of a name, the route of a path, and the targets of
//! redirects.

use super::{
    Action, HostId, HostName, Hosts, HostsBuilder, NameError, Path, Route, Rules, Taken, TextTemplate,
    Unknown,
};
use proptest::prelude::*;
use std::collections::HashMap;
use vermeil_address::ListenAddr;
use vermeil_files::SiteOptions;
use vermeil_http::gateway::ClientScheme;
use vermeil_tls::{CertificatePair, HostTls};

fn name(text: &str) -> HostName {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Hosts by their names. The first host has no name. A host's number is its position.
fn hosts(unknown: Unknown, names: &[&[&str]]) -> Hosts {
    let mut builder = HostsBuilder::new();
    builder.add(None, Rules::default());
    for names in names {
        let host = builder.add(None, Rules::default());
        names.iter().for_each(|text| builder.name(host, &name(text)).unwrap());
    }
    builder.build(unknown).unwrap()
}

fn find(hosts: &Hosts, host: &str) -> Option<usize> {
    hosts.find(Some(host.as_bytes())).map(HostId::index)
}

#[test]
fn every_spelling_of_a_name_is_that_name() {
    let hosts = hosts(Unknown::Default, &[&["example.org", "[::1]"], &["other.example"]]);
    for spelling in [
        "example.org",
        "EXAMPLE.org",
        "example.org.",
        "example.org:80",
        "Example.Org.:8080",
        "example.org:",
        "[::1]",
        "[::1]:80",
    ] {
        assert_eq!(find(&hosts, spelling), Some(1), "{spelling}");
    }
    for other in ["example.or", "xexample.org", "example.org..", "www.example.org", "[::2]", &"x".repeat(300)]
    {
        assert_eq!(find(&hosts, other), Some(0), "{other}");
    }
    assert_eq!(hosts.find(None).map(HostId::index), Some(0));
}

#[test]
fn every_spelling_of_ipv6_address_is_that_name() {
    let hosts = hosts(Unknown::Refuse, &[&["[2001:DB8:0:0::0001]"], &["[::ffff:192.0.2.1]"]]);
    for (spelling, found) in [
        ("[2001:db8::1]", Some(1)),
        ("[2001:DB8::1]:80", Some(1)),
        ("[2001:0db8:0:0:0:0:0:1]:80", Some(1)),
        ("[::ffff:c000:201]", Some(2)),
        ("[::FFFF:192.0.2.1]", Some(2)),
        ("[2001:db8::2]", None),
        ("[2001:db8::1::]", None),
        ("[:::::::::::::]", None),
    ] {
        assert_eq!(find(&hosts, spelling), found, "{spelling}");
    }
}

#[test]
fn exact_names_go_before_wildcards_and_long_ones_before_short_ones() {
    let hosts = hosts(
        Unknown::Refuse,
        &[&["*.example.org"], &["*.a.example.org"], &["b.a.example.org"], &["example.org"]],
    );
    for (host, found) in [
        ("x.example.org", Some(1)),
        ("x.y.z.example.org", Some(1)),
        ("a.example.org", Some(1)),
        ("x.a.example.org", Some(2)),
        ("x.y.A.example.org:1", Some(2)),
        ("b.a.example.org", Some(3)),
        ("c.b.a.example.org", Some(2)),
        ("example.org", Some(4)),
        ("org", None),
        ("x.org", None),
    ] {
        assert_eq!(find(&hosts, host), found, "{host}");
    }
    assert_eq!(hosts.find(None), None, "no name is an unknown one");
}

#[test]
fn single_host_takes_every_request_unless_strict() {
    let mut builder = HostsBuilder::new();
    let host = builder.add(None, Rules::default());
    builder.name(host, &name("a.example")).unwrap();
    let refusing = builder.build(Unknown::Refuse).unwrap();
    assert_eq!((find(&refusing, "a.example"), find(&refusing, "b.example")), (Some(0), None));
    let single = Hosts::single(std::path::Path::new("/srv"), Rules::default(), None);
    assert_eq!((find(&single, "anything"), single.find(None).map(HostId::index)), (Some(0), Some(0)));
}

#[test]
fn a_name_belongs_to_one_host() {
    let mut builder = HostsBuilder::new();
    let [a, b] = [(); 2].map(|()| builder.add(None, Rules::default()));
    builder.name(a, &name("x.example")).unwrap();
    builder.name(a, &name("X.example.")).unwrap();
    assert_eq!(builder.name(b, &name("x.example")), Err(Taken { by: a }));
    builder.name(b, &name("*.x.example")).unwrap();
    assert!(HostsBuilder::new().build(Unknown::Default).is_none());
}

#[test]
fn the_first_name_that_is_whole_is_the_host_s() {
    let hosts = hosts(Unknown::Default, &[&["*.example.org", "b.example", "a.example"], &["*.example.com"]]);
    let names: Vec<_> = hosts.iter().map(|id| hosts.host(id).name).collect();
    assert_eq!(names, [None, Some(&b"b.example"[..]), None]);
}

#[test]
fn lasting_number_follows_from_the_name() {
    let names: [&[&str]; 3] = [&["*.a.example"], &["*.b.example", "b.example"], &["a.example"]];
    let one = hosts(Unknown::Default, &names);
    let other = hosts(Unknown::Default, &[names[2], names[0], names[1]]);
    let number = |hosts: &Hosts, host: &str| hosts.lasting_number(hosts.find(Some(host.as_bytes())).unwrap());
    let asked = ["x.a.example", "b.example", "a.example"];
    let numbers = asked.map(|host| number(&one, host));
    assert_eq!(asked.map(|host| number(&other, host)), numbers, "the order of the hosts does not count");
    assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
}

#[test]
fn lasting_numbers_of_hosts_without_names_follow_from_their_listeners() {
    let numbers = |listeners: [&[u16]; 2]| {
        let mut builder = HostsBuilder::new();
        let ids = listeners.map(|ports| {
            let host = builder.add(None, Rules::default());
            let addrs = ports.iter().map(|&port| ListenAddr::Tcp(([127, 0, 0, 1], port).into()));
            builder.bind(host, addrs.collect(), true).unwrap();
            host
        });
        let hosts = builder.build(Unknown::Default).unwrap();
        ids.map(|id| hosts.lasting_number(id))
    };
    let [one, other] = numbers([&[80, 81], &[82]]);
    assert_ne!(one, other);
    assert_eq!(numbers([&[82], &[81, 80]]), [other, one]);
}

#[test]
fn wrong_host_name_is_refused_with_reason() {
    use NameError::{Character, Empty, Length, NotAlone, NotAscii, Star};
    for (text, why) in [
        ("", Empty),
        (".", Empty),
        ("http://a.example", NotAlone),
        ("a.example:80", NotAlone),
        ("[::1]:80", NotAlone),
        ("*", Star),
        ("a.*.example", Star),
        ("*a.example", Star),
        ("*.*.example", Star),
        ("münchen.example", NotAscii),
        ("a..example", Length),
        (".example", Length),
        ("a b", Character),
        ("[::1", Character),
    ] {
        assert_eq!(text.parse::<HostName>(), Err(why), "{text}");
    }
    assert_eq!("x".repeat(64).parse::<HostName>(), Err(Length));
    assert_eq!(vec!["x".repeat(63); 5].join(".").parse::<HostName>(), Err(Length));
    assert_eq!(name("*.Example.org.").to_string(), "*.example.org");
}

/// Lookup stays fast for the last host: the length of probe sequences does not grow with the number
/// of hosts, and hosts with the same rules share them.
#[test]
fn a_hundred_thousand_hosts_take_little_memory_each() {
    let mut builder = HostsBuilder::new();
    for i in 0..100_000 {
        let host = builder.add(Some(std::path::Path::new(&format!("/srv/www/{i}"))), Rules::default());
        builder.name(host, &name(&format!("site{i}.example.org"))).unwrap();
    }
    let hosts = builder.build(Unknown::Refuse).unwrap();
    for i in [0, 1, 50_000, 99_999] {
        assert_eq!(find(&hosts, &format!("site{i}.example.org")), Some(i));
    }
    let (bytes, rules) = hosts.footprint();
    assert_eq!(rules, 1);
    assert!(bytes < 12_000_000, "{bytes} bytes");
}

proptest! {
    /// Compares with a plain list, searched from the most to the least exact name.
    #[test]
    fn lookup_agrees_with_linear_search(
        names in prop::collection::vec("(\\*\\.)?[ab]{1,2}(\\.[ab]{1,2}){0,3}", 1..20),
        asked in prop::collection::vec("[abAB]{1,2}(\\.[ab]{1,2}){0,5}\\.?(:[0-9]{1,3})?", 20),
    ) {
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut builder = HostsBuilder::new();
        for text in &names {
            let host = builder.add(None, Rules::default());
            if builder.name(host, &name(text)).is_ok() {
                by_name.insert(text.clone(), host.index());
            }
        }
        let hosts = builder.build(Unknown::Refuse).unwrap();
        for asked in asked {
            let plain = asked.split(':').next().unwrap().trim_end_matches('.').to_ascii_lowercase();
            let mut wildcards = plain.match_indices('.').map(|(dot, _)| format!("*{}", &plain[dot..]));
            let expected = by_name.get(&plain).or_else(|| wildcards.find_map(|name| by_name.get(&name)));
            prop_assert_eq!(find(&hosts, &asked), expected.copied(), "{}", asked);
        }
    }

    #[test]
    fn no_host_panics(host in prop::collection::vec(any::<u8>(), 0..400)) {
        hosts(Unknown::Refuse, &[&["*.example.org"]]).find(Some(&host));
    }
}

#[test]
fn routes_take_whole_segments() {
    let route = |prefix: Option<&str>, suffix: Option<&str>| Route {
        prefix: prefix.map(Into::into),
        suffix: suffix.map(Into::into),
        ..Route::new(Action::Files)
    };
    for (route, taken, left) in [
        (route(Some("/old"), None), vec!["/old", "/old/", "/old/x"], vec!["/older", "/", "/x/old"]),
        (route(Some("/old/"), None), vec!["/old/", "/old/x"], vec!["/old", "/older"]),
        (route(Some("/"), None), vec!["/", "/x"], vec![]),
        (route(None, Some(".php")), vec!["/a.php", "/a.php/x", "/b/.php"], vec!["/a.phps", "/php", "/"]),
        (route(Some("/app"), Some(".php")), vec!["/app/a.php"], vec!["/a.php", "/app/a", "/apps/a.php"]),
        (route(None, None), vec!["/", "/x"], vec![]),
    ] {
        for (paths, matches) in [(taken, true), (left, false)] {
            for path in paths {
                assert_eq!(route.covers(path.as_bytes()), matches, "{route:?} {path}");
            }
        }
    }
}

#[test]
fn redirects_lead_to_target() {
    for (to, prefix, decoded, query, expected) in [
        ("/new", Some("/old"), "/old/x", Some("q"), "/new"),
        ("/new{rest}{query}", Some("/old"), "/old/x y", Some("q=1"), "/new/x%20y?q=1"),
        ("/new{rest}{query}", Some("/old"), "/old", None, "/new"),
        ("https://{host}{path}{query}", None, "/a/b", Some(""), "https://h.example:80/a/b?"),
        // Never another host, whatever the path.
        ("/{rest}", Some("/old"), "/old/evil.example", None, "/evil.example"),
        ("{path}", None, "/x", None, "/x"),
        (
            "https://new.example{rest}{query}",
            Some("/"),
            "/.evil.example",
            None,
            "https://new.example/.evil.example",
        ),
        ("https://new.example{rest}{query}", Some("/"), "/", Some("q"), "https://new.example/?q"),
        ("https://new.example{rest}", Some("/old"), "/old", None, "https://new.example/"),
        ("http://{host}{rest}", Some("/old/"), "/old/x", None, "http://h.example:80/x"),
        ("{scheme}://{name}:8443{path}", None, "/x", None, "https://h.example:8443/x"),
        ("{scheme}://www.example{rest}", Some("/old/"), "/old/x", None, "https://www.example/x"),
        ("/x?by={scheme}&of={name}", None, "/", None, "/x?by=https&of=h.example"),
        ("https://new.example{path}", Some("/"), "/x", None, "https://new.example/x"),
        // The rest keeps the slash at the end of the prefix if the address has no other slash. A
        // query has no slash.
        ("/new{rest}", Some("/old/"), "/old/x", None, "/new/x"),
        ("/new/{rest}", Some("/old/"), "/old/x", None, "/new/x"),
        ("{path}{rest}", Some("/"), "/x", None, "/x/x"),
        ("https://new.example?page={rest}", Some("/old/"), "/old/x", None, "https://new.example?page=x"),
    ] {
        let template: TextTemplate = to.parse().unwrap();
        assert_eq!(template.to_string(), to);
        let path = Path {
            scheme: ClientScheme::Https,
            host: Some(b"h.example:80"),
            decoded: decoded.as_bytes(),
            query: query.map(str::as_bytes),
        };
        let mut out = b"before ".to_vec();
        let route = Route { prefix: prefix.map(Into::into), ..Route::new(Action::Files) };
        template.write(&route, &path, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("before {expected}"));
    }
    let route = Route { pattern: Some("^/(.*)$".parse().unwrap()), ..Route::new(Action::Files) };
    for (to, decoded, expected) in [
        ("/x/{1}", "/a b", "/x/a%20b"),
        ("/{1}", "//evil.example", "/evil.example"),
        // A group cannot add a parameter.
        ("/x?t={1}", "/a&admin=1#b", "/x?t=a%26admin%3D1%23b"),
    ] {
        let mut out = Vec::new();
        let path = Path { scheme: ClientScheme::Http, host: None, decoded: decoded.as_bytes(), query: None };
        to.parse::<TextTemplate>().unwrap().write(&route, &path, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    let nameless = Path { scheme: ClientScheme::Http, host: None, decoded: b"/x", query: None };
    for (to, written) in [("https://{host}{path}", false), ("{path}", true)] {
        let template: TextTemplate = to.parse().unwrap();
        let route = Route::new(Action::Files);
        assert_eq!(template.write(&route, &nameless, &mut Vec::new()).is_some(), written, "{to}");
    }
    for wrong in [
        "",
        "x",
        "https://new.example{1}",
        "https://{1}.example/",
        "/{0}",
        "/{10}",
        "//evil",
        "{host}",
        "{rest}",
        "{query}",
        "ftp://a",
        "https://",
        "/a b",
        "/{x}",
        "/{",
        "/}",
        "https://{rest}",
        "https://{path}",
        "https://{query}",
        "https:///{rest}",
        "https://?x",
        "https://a.{rest}.example",
        "https://user@{rest}",
        "https://new.example:{rest}",
        "https://{host}:8443{path}",
        "{scheme}",
        "{scheme}:/x",
        "{scheme}://{path}",
        "{scheme}//new.example",
        "/{schema}",
    ] {
        assert!(wrong.parse::<TextTemplate>().is_err(), "{wrong}");
    }
}

/// Regression: each start and each reload read the certificates of other hosts.
#[test]
fn certificates_come_in_order_of_hosts() {
    let mut builder = HostsBuilder::new();
    for number in 0..100 {
        let host = builder.add(None, Rules::default());
        let certificate = format!("{number}.pem").into();
        let pair = CertificatePair { certificate, key: "key.pem".into(), staple: None };
        builder
            .secure(host, HostTls { certificates: vec![pair], client_issuers: None, requires_client: false });
    }
    let hosts = builder.build(Unknown::Default).unwrap();
    assert!(hosts.all_certificates().map(|(host, _)| host.index()).eq(0..100));
}

#[test]
fn routes_share_equal_folders() {
    let mut builder = HostsBuilder::new();
    let mut folder = |root: &str, index: &str| {
        let options = SiteOptions { index_names: vec![index.to_owned()], ..SiteOptions::default() };
        builder.folder(std::path::Path::new(root), options)
    };
    let first = folder("/a", "index.html");
    let others = [folder("/b", "index.html"), folder("/a", "home.html")];
    assert!(others[0] != others[1] && !others.contains(&first));
    assert_eq!(folder("/a", "index.html"), first);
}
