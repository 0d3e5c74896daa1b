//! The program's file in a path, and the request of a local redirect.

use crate::gateway::{BadHead, redirect, split};
use crate::{ConnectionLimits, ParsedPart, parse};

#[test]
fn only_a_segment_with_the_extension_can_be_the_program() {
    let cases: [(&str, &[(&str, &str)]); 12] = [
        ("/index.php", &[("/index.php", "")]),
        ("/index.php/", &[("/index.php", "/")]),
        ("/index.php/a/b", &[("/index.php", "/a/b")]),
        ("/image.jpg/x.php", &[("/image.jpg/x.php", "")]),
        ("/image.jpg/.php", &[]),
        ("/image.jpg", &[]),
        ("/a.php/b.php/c", &[("/a.php", "/b.php/c"), ("/a.php/b.php", "/c")]),
        ("/a.phpx", &[]),
        ("/a.php.txt", &[]),
        ("/a.PHP/b", &[("/a.PHP", "/b")]),
        ("/", &[]),
        ("/.php", &[]),
    ];
    for (path, expected) in cases {
        let cuts: Vec<_> = split::candidates(path.as_bytes(), b".php")
            .map(|cut| (str::from_utf8(cut.script).unwrap(), str::from_utf8(cut.path_info).unwrap()))
            .collect();
        assert_eq!(cuts, expected, "{path}");
    }
}

fn redirected(request: &str, location: &str) -> Result<String, BadHead> {
    let ParsedPart::Complete { request, .. } = parse(request.as_bytes(), &ConnectionLimits::default()) else {
        panic!("{request} is a request")
    };
    let mut out = Vec::new();
    redirect::write_request(&request, location.as_bytes(), &mut out)?;
    assert!(matches!(parse(&out, &ConnectionLimits::default()), ParsedPart::Complete { .. }));
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn a_local_redirect_is_a_get_without_the_content() {
    let post = "POST /form.cgi HTTP/1.1\r\nHost: h:81\r\nContent-Length: 5\r\nContent-Type: x/y\r\nExpect: 100-continue\r\n\
        Cookie: a=b\r\nConnection: close\r\n\r\n";
    let expected = "GET /done?x=1 HTTP/1.1\r\nHost: h:81\r\nCookie: a=b\r\nConnection: close\r\n\r\n";
    assert_eq!(redirected(post, "/done?x=1").as_deref(), Ok(expected));
    let head = "HEAD http://named/x HTTP/1.1\r\nHost: other\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(redirected(head, "/y").as_deref(), Ok("HEAD /y HTTP/1.1\r\nHost: named\r\n\r\n"));
    assert_eq!(redirected("GET / HTTP/1.0\r\n\r\n", "/y").as_deref(), Ok("GET /y HTTP/1.0\r\n\r\n"));
}

#[test]
fn wrong_target_is_no_redirect() {
    for location in ["/a#b", "a", ""] {
        assert_eq!(redirected("GET / HTTP/1.1\r\nHost: h\r\n\r\n", location), Err(BadHead::Location));
    }
}

#[test]
fn redirect_escapes_bytes_outside_request_line() {
    for (location, escaped) in
        [("/a b", "/a%20b"), ("/\u{e9}", "/%C3%A9"), ("/a\tb", "/a%09b"), ("/a%20b", "/a%20b")]
    {
        let expected = format!("GET {escaped} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(redirected("GET / HTTP/1.1\r\nHost: h\r\n\r\n", location), Ok(expected));
    }
}
