//! Paths: a table, and the properties on which everything behind relies.

use proptest::prelude::*;

use super::*;

fn decoded(raw: &[u8]) -> Result<(String, bool, bool), PathError> {
    let mut out = Vec::new();
    decode(raw, &mut out).map(|path| (path.bytes.escape_ascii().to_string(), path.is_dir, path.has_dotfile))
}

#[test]
fn table() {
    let cases: &[(&str, &str)] = &[
        ("/", "/"),
        ("/a", "/a"),
        ("/a/b.html", "/a/b.html"),
        ("/a/", "/a/"),
        ("//a", "/a"),
        ("/a//b///c//", "/a/b/c/"),
        ("/.", "/"),
        ("/./", "/"),
        ("/a/.", "/a/"),
        ("/a/./b", "/a/b"),
        ("/..", "/"),
        ("/../", "/"),
        ("/../../etc/passwd", "/etc/passwd"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/a/b/../", "/a/"),
        ("/a/b/../c", "/a/c"),
        ("/a/b/../../../c", "/c"),
        ("/a//../b", "/b"),
        ("/%2e%2e/a", "/a"),
        ("/a/%2E%2e/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e/b", "/a/b"),
        ("/a%20b", "/a b"),
        ("/%61", "/a"),
        ("/caf%C3%A9", "/caf\\xc3\\xa9"),
        ("/%ff", "/\\xff"),
        ("/a%0ab", "/a\\nb"),
        ("/%25", "/%"),
        ("/%252e%252e/a", "/%2e%2e/a"),
        ("/a%3fb", "/a?b"),
        ("/a+b", "/a+b"),
        ("/a\\..\\b", "/a\\\\..\\\\b"),
        ("/a/...", "/a/..."),
        ("/a/..b", "/a/..b"),
        ("/a/b..", "/a/b.."),
        ("/a.b/", "/a.b/"),
    ];
    for (raw, expected) in cases {
        let (path, is_dir, _) = decoded(raw.as_bytes()).unwrap();
        assert_eq!(path, *expected, "{raw}");
        assert_eq!(is_dir, expected.ends_with('/'), "{raw}");
    }
}

#[test]
fn path_that_names_no_file_is_refused() {
    let cases: &[(&[u8], PathError, u16)] = &[
        (b"", PathError::NotAbsolute, 400),
        (b"*", PathError::NotAbsolute, 400),
        (b"a/b", PathError::NotAbsolute, 400),
        (b"%2fa", PathError::NotAbsolute, 400),
        (b"/%", PathError::BadEscape, 400),
        (b"/%1", PathError::BadEscape, 400),
        (b"/%g0", PathError::BadEscape, 400),
        (b"/%0g", PathError::BadEscape, 400),
        (b"/%u0041", PathError::BadEscape, 400),
        (b"/a%/b", PathError::BadEscape, 400),
        (b"/a%00.html", PathError::Nul, 400),
        (b"/a\0", PathError::Nul, 400),
        (b"/a%2fb", PathError::EncodedSlash, 404),
        (b"/..%2F..%2fetc/passwd", PathError::EncodedSlash, 404),
    ];
    for &(raw, error, code) in cases {
        assert_eq!(decoded(raw), Err(error), "{}", raw.escape_ascii());
        assert_eq!(error.status().code(), code);
        assert!(error.to_string().starts_with("decoding a path: "));
    }
}

#[test]
fn the_limit_is_exact_decoded() {
    let longest = format!("/{}", "a".repeat(PATH_BYTES_MAX - 1));
    assert!(decoded(longest.as_bytes()).is_ok());
    assert!(decoded(longest.replace("aa", "a%61").as_bytes()).is_ok());
    assert_eq!(decoded(format!("{longest}a").as_bytes()), Err(PathError::TooLong));
    assert_eq!(decoded(format!("{longest}%61").as_bytes()), Err(PathError::TooLong));
    assert_eq!(PathError::TooLong.status().code(), 414);
}

#[test]
fn dotfiles() {
    let hidden = [
        "/.git/config",
        "/a/.htaccess",
        "/a/.b/c",
        "/%2egit",
        "/...",
        "/..a",
        "/.well-known/.a",
        "/a/.well-known/b",
        "/.well-knownx",
    ];
    for raw in hidden {
        assert!(decoded(raw.as_bytes()).unwrap().2, "{raw}");
    }
    let plain = [
        "/",
        "/a",
        "/a.b",
        "/.well-known/acme-challenge/x",
        "/%2ewell-known/x",
        "/.well-known",
        "/a/./b",
        "/.git/../a",
        "/a./b.",
    ];
    for raw in plain {
        assert!(!decoded(raw.as_bytes()).unwrap().2, "{raw}");
    }
}

#[test]
fn a_plain_path_is_not_copied() {
    let mut out = b"untouched".to_vec();
    assert_eq!(decode(b"/a/b.c/d", &mut out).unwrap().bytes, b"/a/b.c/d");
    assert_eq!(out, b"untouched");
}

#[test]
fn encoding_leaves_nothing_that_could_be_misread() {
    let mut out = Vec::new();
    percent_encode_path(b"/a b/javascript:x?y#z%\"<\xc3\xa9\r\n\\&'.-_~", &mut out);
    let expected = "/a%20b/javascript%3Ax%3Fy%23z%25%22%3C%C3%A9%0D%0A%5C%26%27.-_~";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// Pieces that meet each other in all ways.
fn raw_path() -> impl Strategy<Value = Vec<u8>> {
    let pieces = vec![
        "/",
        ".",
        "..",
        "%2e",
        "%2E",
        "%2f",
        "a",
        "b.c",
        "%",
        "%25",
        "%20",
        "%00",
        "\\",
        "%C3%A9",
        ".well-known",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..12)
        .prop_map(|pieces| format!("/{}", pieces.concat()).into_bytes())
}

proptest! {
    #![proptest_config(crate::fixed_cases(2_000))]

    #[test]
    fn no_result_climbs(raw in prop_oneof![raw_path(), prop::collection::vec(any::<u8>(), 0..40)]) {
        let mut out = Vec::new();
        let Ok(path) = decode(&raw, &mut out) else { return Ok(()) };
        let inner = path.bytes.strip_prefix(b"/").expect("a slash first");
        let inner = if path.is_dir && !inner.is_empty() { &inner[..inner.len() - 1] } else { inner };
        let mut segments = inner.split(|&b| b == b'/');
        let valid = |segment: &[u8]| !segment.is_empty() && segment != b"." && segment != b".." && !segment.contains(&0);
        prop_assert!(inner.is_empty() || segments.all(valid), "{}", path.bytes.escape_ascii());
        let top_is_exempt = inner.split(|&b| b == b'/').enumerate();
        let dotted = top_is_exempt.filter(|(i, s)| s.starts_with(b".") && !(*i == 0 && *s == b".well-known")).count();
        prop_assert_eq!(path.has_dotfile, dotted > 0);
    }

    #[test]
    fn encoded_path_decodes_unchanged(raw in raw_path()) {
        let mut out = Vec::new();
        let Ok(path) = decode(&raw, &mut out) else { return Ok(()) };
        let mut encoded = Vec::new();
        percent_encode_path(path.bytes, &mut encoded);
        let mut again = Vec::new();
        prop_assert_eq!(decode(&encoded, &mut again), Ok(path));
    }

    /// The stack of segments that RFC 3986 §5.2.4 describes.
    #[test]
    fn dot_segments_go_as_the_rfc_says(raw in raw_path()) {
        let mut out = Vec::new();
        let Ok(path) = decode(&raw, &mut out) else { return Ok(()) };
        let text: Vec<u8> = percent_encoding::percent_decode(&raw).collect();
        let mut stack: Vec<&[u8]> = Vec::new();
        let segments: Vec<&[u8]> = text[1..].split(|&b| b == b'/').collect();
        for segment in &segments {
            match *segment {
                b"" | b"." => {}
                b".." => { stack.pop(); }
                name => stack.push(name),
            }
        }
        let is_dir = matches!(segments.last(), Some(&(b"" | b"." | b"..")));
        let mut expected = [b"/".as_slice(), &stack.join(&b'/')].concat();
        if is_dir && !stack.is_empty() {
            expected.push(b'/');
        }
        prop_assert_eq!(path.bytes, &expected[..]);
    }
}

#[test]
fn program_is_named_before_any_encoded_slash() {
    for (raw, expected, name_len, may) in [
        ("/x.php/a/b", "/x.php/a/b", 6, true),
        ("/x.php/a%2Fb", "/x.php/a/b", 6, true),
        ("/x.php/%2fa", "/x.php/a", 6, true),
        ("/x.php/%2F", "/x.php/", 6, true),
        ("/x.php/a%2F..", "/x.php/", 6, true),
        // The slash after the name must be a plain slash.
        ("/x.php%2Fa", "/x.php/a", 6, false),
        ("/a%2Fx.php/b", "/a/x.php/b", 8, false),
        ("/%2Fx.php", "/x.php", 6, false),
        // Also if the encoded slash has gone.
        ("/a%2F../x.php", "/x.php", 6, false),
        ("/long-name%2F../x.php", "/x.php", 6, false),
        ("/x.php/a%2Fb/../../../x.php", "/x.php", 6, false),
        ("/a/b%2Fc/../../../x.php", "/x.php", 6, false),
    ] {
        let mut out = Vec::new();
        let path = decode_for_program(raw.as_bytes(), &mut out).expect("a path");
        assert_eq!(path.bytes.escape_ascii().to_string(), expected, "{raw}");
        assert_eq!(name_len <= path.names_max(), may, "{raw}");
        assert_eq!(path.has_encoded_slash(), raw.to_lowercase().contains("%2f"), "{raw}");
    }
    assert_eq!(decode_for_program(b"/a%2", &mut Vec::new()), Err(PathError::BadEscape));
}

#[test]
fn slash_or_dot_segment_names_folder() {
    for raw in ["/", "/a/", "/a/.", "/a/%2e", "/a/..", "/a/b/.%2E"] {
        assert!(names_folder(raw.as_bytes()), "{raw}");
    }
    for raw in ["/a", "/a/...", "/a/.b", "/%zz/", "a/"] {
        assert!(!names_folder(raw.as_bytes()), "{raw}");
    }
}

#[test]
fn bytes_beyond_ascii_are_escaped() {
    assert_eq!(escaped("/café?q=%C3%A9".as_bytes()), b"/caf%C3%A9?q=%C3%A9".as_slice());
    assert!(matches!(escaped(b"/a"), Cow::Borrowed(b"/a")));
}
