//! The media type of a file, from its name.
//!
//! The site's own types come first, then the corrections here, then the table of the crate
//! `mime_guess`. The corrections cover types on which nginx and Debian agree against the table, and
//! extensions without a registered type in the table. Text types get a charset. Tested here.

use super::super::options::TypeOf;
use std::path::Path;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

/// Types of extensions for which the table of `mime_guess` has another type or none.
const CORRECTED: &[(&str, &str)] = &[
    ("cjs", "text/javascript"),
    ("deb", "application/vnd.debian.binary-package"),
    ("diff", "text/x-diff"),
    ("dmg", "application/x-apple-diskimage"),
    ("ipynb", "application/x-ipynb+json"),
    ("iso", "application/x-iso9660-image"),
    ("java", "text/x-java"),
    // RFC 9239 §6 keeps a single name for scripts.
    ("js", "text/javascript"),
    ("m2t", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript"),
    ("mts", "video/mp2t"),
    ("obj", "model/obj"),
    ("otf", "font/otf"),
    ("patch", "text/x-diff"),
    ("psd", "image/vnd.adobe.photoshop"),
    ("rar", "application/vnd.rar"),
    ("rpm", "application/x-redhat-package-manager"),
    ("stl", "model/stl"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("usdz", "model/vnd.usdz+zip"),
    ("vcf", "text/vcard"),
    ("woff", "font/woff"),
    ("zst", "application/zstd"),
];

/// The value of `Content-Type` for a file called `name`, with the site's own `types` first. Text
/// gets the charset UTF-8.
pub(in super::super) fn media_type(name: &[u8], types: &[TypeOf]) -> Box<str> {
    let extension =
        Path::new(OsStr::from_bytes(name)).extension().and_then(OsStr::to_str).unwrap_or_default();
    let own = types.iter().find(|of| extension.eq_ignore_ascii_case(&of.extension));
    let corrected = || CORRECTED.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known));
    let media_type = match own {
        Some(of) => &of.media_type,
        None => match corrected() {
            Some((_, corrected)) => corrected,
            None => mime_guess::from_ext(extension).first_raw().unwrap_or("application/octet-stream"),
        },
    };
    if is_text(media_type) { [media_type, "; charset=utf-8"].concat().into() } else { media_type.into() }
}

fn is_text(media_type: &str) -> bool {
    if media_type.contains(';') {
        return false;
    }
    media_type.starts_with("text/")
        || media_type.ends_with("+xml")
        || media_type.ends_with("+json")
        || matches!(media_type, "application/json" | "application/xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_name_and_text_has_a_charset() {
        for (name, expected) in [
            ("a/index.html", "text/html; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("STYLE.CSS", "text/css; charset=utf-8"),
            ("data.json", "application/json; charset=utf-8"),
            ("feed.xml", "text/xml; charset=utf-8"),
            ("logo.svg", "image/svg+xml; charset=utf-8"),
            ("notes.txt", "text/plain; charset=utf-8"),
            ("photo.webp", "image/webp"),
            ("font.woff2", "font/woff2"),
            ("code.wasm", "application/wasm"),
            ("archive.tar.gz", "application/gzip"),
            ("LICENSE", "application/octet-stream"),
            ("segment.ts", "video/mp2t"),
            ("SEGMENT.TS", "video/mp2t"),
            ("list.m3u8", "application/vnd.apple.mpegurl"),
            ("font.woff", "font/woff"),
            ("package.rpm", "application/x-redhat-package-manager"),
            ("tune.mid", "audio/midi"),
            ("data.zst", "application/zstd"),
            ("change.patch", "text/x-diff; charset=utf-8"),
        ] {
            assert_eq!(&*media_type(name.as_bytes(), &[]), expected, "{name}");
        }
    }

    #[test]
    fn types_of_the_site_come_first() {
        let types = ["ts=text/x-typescript", ".foo=x/y; v=1", "html=text/html; charset=iso-8859-1"]
            .map(|text| text.parse().expect("a type"));
        for (name, expected) in [
            ("a.ts", "text/x-typescript; charset=utf-8"),
            ("a.FOO", "x/y; v=1"),
            ("a.html", "text/html; charset=iso-8859-1"),
            ("a.css", "text/css; charset=utf-8"),
        ] {
            assert_eq!(&*media_type(name.as_bytes(), &types), expected, "{name}");
        }
        for unfit in ["ts", "ts=", "=a/b", "ts=video", "a/b=c/d", "a=b/c\r\nX: y", "a.b=c/d", "a=/b"] {
            assert!(unfit.parse::<TypeOf>().is_err(), "{unfit}");
        }
    }
}
