//! The variables of a request, and the variables that no client may set.

use crate::gateway::{ClientLink, ClientScheme, Invocation, ProxiedClient, ProxiedEnds, ScriptPaths};
use crate::{ConnectionLimits, ParsedPart, parse};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const SCRIPT: ScriptPaths<'static> = ScriptPaths {
    name: b"/app/index.php",
    filename: b"/srv/www/app/index.php",
    path_info: b"",
    document_root: b"/srv/www",
};

/// The two ends of a connection, and the security of the connection.
#[derive(Clone, Copy)]
struct TestEnds {
    local: SocketAddr,
    remote: SocketAddr,
    scheme: ClientScheme,
}

fn link(scheme: ClientScheme) -> TestEnds {
    TestEnds {
        local: "192.0.2.1:8080".parse().unwrap(),
        remote: "203.0.113.9:50123".parse().unwrap(),
        scheme,
    }
}

struct TestCall<'a> {
    script: ScriptPaths<'a>,
    link: TestEnds,
    content_length: Option<u64>,
}

impl TestCall<'_> {
    fn variables(&self, head: &str) -> BTreeMap<String, String> {
        let ParsedPart::Complete { request, .. } = parse(head.as_bytes(), &ConnectionLimits::default())
        else {
            panic!("{head:?} is a request")
        };
        let invocation = Invocation {
            request: &request,
            script: self.script,
            uri: None,
            link: &ClientLink::new(self.link.local, self.link.remote, self.link.scheme),
            content_length: self.content_length,
            user: None,
            software: "vermeil",
        };
        let mut variables = BTreeMap::new();
        invocation.variables(|name, value| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8 in this test");
            assert_eq!(variables.insert(text(name), text(value)), None, "a name twice");
        });
        variables
    }
}

const PLAIN: TestCall<'static> = TestCall {
    script: SCRIPT,
    link: TestEnds {
        local: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80),
        remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 81),
        scheme: ClientScheme::Http,
    },
    content_length: None,
};

#[test]
fn all_of_a_request() {
    let call = TestCall {
        script: ScriptPaths { path_info: b"/a b/c", ..SCRIPT },
        link: link(ClientScheme::Https),
        content_length: Some(11),
    };
    let head = "POST /app/index.php/a%20b/c?x=1&y=%20 HTTP/1.1\r\nHost: example.org:8443\r\nContent-Length: 11\r\n\
        Content-Type: application/x-www-form-urlencoded\r\nUser-Agent: test\r\nAuthorization: Basic dTpw\r\n\r\n";
    let expected = [
        ("CONTENT_LENGTH", "11"),
        ("CONTENT_TYPE", "application/x-www-form-urlencoded"),
        ("DOCUMENT_ROOT", "/srv/www"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTPS", "on"),
        ("HTTP_AUTHORIZATION", "Basic dTpw"),
        ("HTTP_HOST", "example.org:8443"),
        ("HTTP_USER_AGENT", "test"),
        ("PATH_INFO", "/a b/c"),
        ("PATH_TRANSLATED", "/srv/www/a b/c"),
        ("QUERY_STRING", "x=1&y=%20"),
        ("REDIRECT_STATUS", "200"),
        ("REMOTE_ADDR", "203.0.113.9"),
        ("REMOTE_HOST", "203.0.113.9"),
        ("REMOTE_PORT", "50123"),
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_SCHEME", "https"),
        ("REQUEST_URI", "/app/index.php/a%20b/c?x=1&y=%20"),
        ("SCRIPT_FILENAME", "/srv/www/app/index.php"),
        ("SCRIPT_NAME", "/app/index.php"),
        ("SERVER_ADDR", "192.0.2.1"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_PORT", "8080"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_SOFTWARE", "vermeil"),
    ];
    let expected: BTreeMap<_, _> = expected.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    assert_eq!(call.variables(head), expected);
}

/// The `HTTP_` variables of a request with `fields`, without the host.
fn http(fields: &str) -> Vec<String> {
    let variables = PLAIN.variables(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    let http = variables.iter().filter(|(name, _)| name.starts_with("HTTP_") && *name != "HTTP_HOST");
    http.map(|(name, value)| format!("{name}={value}")).collect()
}

#[test]
fn fields_reach_programs_under_names_of_their_own_only() {
    for (fields, expected) in [
        ("X-Forwarded-For: 1.2.3.4\r\n", &["HTTP_X_FORWARDED_FOR=1.2.3.4"][..]),
        ("Proxy: http://evil\r\nPROXY: x\r\n", &[]),
        ("X_Forwarded_For: 1.2.3.4\r\n", &[]),
        ("X-Real-IP: a\r\nX_Real-IP: b\r\n", &["HTTP_X_REAL_IP=a"]),
        ("Odd!Name: x\r\nOdd.Name: x\r\nOdd'Name: x\r\n", &[]),
        ("Connection: close\r\nKeep-Alive: x\r\nTE: trailers\r\nUpgrade: h2c\r\n", &[]),
        ("Proxy-Authorization: x\r\nProxy-Connection: x\r\n", &[]),
        ("Content-Type: a/b\r\n", &[]),
        ("Accept: a/b\r\naccept: c/d\r\n", &["HTTP_ACCEPT=a/b, c/d"]),
        ("Cookie: a=1\r\nX: y\r\nCOOKIE: b=2\r\ncookie: c=3\r\n", &["HTTP_COOKIE=a=1; b=2; c=3", "HTTP_X=y"]),
        ("X-Empty:\r\n", &["HTTP_X_EMPTY="]),
    ] {
        assert_eq!(http(fields), expected, "{fields:?}");
    }
}

#[test]
fn names_of_the_server() {
    for (host, name) in [
        ("example.org", "example.org"),
        ("example.org:81", "example.org"),
        ("example.org:", "example.org"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("[2001:db8::1]:8080", "[2001:db8::1]"),
    ] {
        let variables = PLAIN.variables(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((&*variables["SERVER_NAME"], &*variables["HTTP_HOST"]), (name, host));
    }
    let old = PLAIN.variables("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((&*old["SERVER_NAME"], old.contains_key("HTTP_HOST")), ("127.0.0.1", false));
    assert_eq!(&*old["SERVER_PROTOCOL"], "HTTP/1.0");
    let six = TestCall { link: TestEnds { local: "[::1]:80".parse().unwrap(), ..PLAIN.link }, ..PLAIN };
    let six = six.variables("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((&*six["SERVER_NAME"], &*six["SERVER_ADDR"]), ("[::1]", "::1"));
    let mapped = TestCall {
        link: TestEnds { remote: "[::ffff:192.0.2.7]:9".parse().unwrap(), ..PLAIN.link },
        ..PLAIN
    };
    assert_eq!(&*mapped.variables("GET / HTTP/1.0\r\n\r\n")["REMOTE_ADDR"], "192.0.2.7");
}

#[test]
fn client_of_unix_socket_has_no_address() {
    let head = "GET / HTTP/1.0\r\n\r\n";
    let ParsedPart::Complete { request, .. } = parse(head.as_bytes(), &ConnectionLimits::default()) else {
        panic!("{head}")
    };
    let link = ClientLink::unix(Some("/run/v.sock".as_ref()), ClientScheme::Http);
    let call = Invocation {
        request: &request,
        script: SCRIPT,
        uri: None,
        link: &link,
        content_length: None,
        user: None,
        software: "vermeil",
    };
    let mut found = BTreeMap::new();
    call.variables(|name, value| {
        drop(found.insert(name.to_vec(), String::from_utf8(value.to_vec()).unwrap()))
    });
    for (name, value) in [
        ("REMOTE_ADDR", "unix:"),
        ("REMOTE_HOST", "unix:"),
        ("REMOTE_PORT", ""),
        ("SERVER_ADDR", "unix:/run/v.sock"),
        ("SERVER_NAME", "localhost"),
        ("SERVER_PORT", "80"),
    ] {
        assert_eq!(found[name.as_bytes()], value, "{name}");
    }
}

#[test]
fn checked_user_is_named_and_password_withheld() {
    let head = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpi\r\nX-Other: x\r\n\r\n";
    let ParsedPart::Complete { request, .. } = parse(head.as_bytes(), &ConnectionLimits::default()) else {
        panic!("{head}")
    };
    let link = ClientLink::unix(None, ClientScheme::Http);
    for (user, expected) in [
        (None, [None, None, Some("Basic YTpi"), Some("x")]),
        (Some(&b"a"[..]), [Some("Basic"), Some("a"), None, Some("x")]),
    ] {
        let call = Invocation {
            request: &request,
            script: SCRIPT,
            link: &link,
            content_length: None,
            uri: None,
            user,
            software: "vermeil",
        };
        let mut found = BTreeMap::new();
        call.variables(|name, value| {
            drop(found.insert(name.to_vec(), String::from_utf8(value.to_vec()).unwrap()))
        });
        let of = |name: &str| found.get(name.as_bytes()).map(String::as_str);
        assert_eq!(["AUTH_TYPE", "REMOTE_USER", "HTTP_AUTHORIZATION", "HTTP_X_OTHER"].map(of), expected);
    }
}

#[test]
fn proxy_names_ends_and_scheme() {
    let socket = ClientLink::new(
        "192.0.2.1:8080".parse().unwrap(),
        "203.0.113.9:50123".parse().unwrap(),
        ClientScheme::Http,
    );
    let client = "198.51.100.7".parse().unwrap();
    let https = Some(ClientScheme::Https);
    let nothing = ProxiedEnds::default();
    for (ends, host, expected) in [
        (nothing, "example.org", ["203.0.113.9", "50123", "192.0.2.1", "8080", "http"]),
        (
            ProxiedEnds { client: Some(ProxiedClient::Ip(client, None)), ..nothing },
            "example.org:99",
            ["198.51.100.7", "", "192.0.2.1", "8080", "http"],
        ),
        (
            ProxiedEnds { client: Some(ProxiedClient::Ip(client, Some(7))), scheme: https, ..nothing },
            "example.org",
            ["198.51.100.7", "7", "192.0.2.1", "443", "https"],
        ),
        (
            ProxiedEnds { client: Some(ProxiedClient::Unix), scheme: https, ..nothing },
            "example.org",
            ["unix:", "", "192.0.2.1", "443", "https"],
        ),
        (
            ProxiedEnds { client: Some(ProxiedClient::Unknown), ..nothing },
            "example.org",
            ["", "", "192.0.2.1", "8080", "http"],
        ),
        (
            ProxiedEnds { scheme: https, ..nothing },
            "example.org:8443",
            ["203.0.113.9", "50123", "192.0.2.1", "8443", "https"],
        ),
        (
            ProxiedEnds { scheme: Some(ClientScheme::Http), ..nothing },
            "[::1]",
            ["203.0.113.9", "50123", "192.0.2.1", "80", "http"],
        ),
        (
            ProxiedEnds { destination: Some("[2001:db8::1]:444".parse().unwrap()), scheme: https, ..nothing },
            "example.org:8443",
            ["203.0.113.9", "50123", "2001:db8::1", "444", "https"],
        ),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let ParsedPart::Complete { request, .. } = parse(head.as_bytes(), &ConnectionLimits::default())
        else {
            panic!("{head}")
        };
        let link = socket.behind_proxy(&ends);
        let call = Invocation {
            request: &request,
            script: SCRIPT,
            link: &link,
            content_length: None,
            user: None,
            software: "vermeil",
            uri: None,
        };
        let mut found = BTreeMap::new();
        call.variables(|name, value| {
            drop(found.insert(name.to_vec(), String::from_utf8(value.to_vec()).unwrap()))
        });
        let of = |name: &str| found[name.as_bytes()].as_str();
        let names = ["REMOTE_ADDR", "REMOTE_PORT", "SERVER_ADDR", "SERVER_PORT", "REQUEST_SCHEME"];
        assert_eq!(names.map(of), expected, "{ends:?}");
        assert_eq!(found.contains_key(&b"HTTPS"[..]), expected[4] == "https");
    }
}

#[test]
fn targets() {
    for (target, uri, query) in
        [("/", "/", ""), ("/?", "/?", ""), ("/a?b?c", "/a?b?c", "b?c"), ("http://named:82/a?b", "/a?b", "b")]
    {
        let variables = PLAIN.variables(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!((&*variables["REQUEST_URI"], &*variables["QUERY_STRING"]), (uri, query));
        let named = target.starts_with("http");
        assert_eq!(variables["HTTP_HOST"], if named { "named:82" } else { "h" });
        for absent in ["PATH_INFO", "PATH_TRANSLATED", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTPS"] {
            assert!(!variables.contains_key(absent), "{absent}");
        }
    }
}

/// Regression: a program could not tell an empty content from none, unlike behind other servers.
#[test]
fn announced_empty_content_has_length_zero() {
    let variables = PLAIN.variables("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(variables["CONTENT_LENGTH"], "0");
}
