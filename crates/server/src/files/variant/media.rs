//! The media type of a file, from its name.
//!
//! The table is the crate `mime_guess`'s; added here is the charset of what is text. Tested here.

use std::path::Path;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

/// The value of `Content-Type` for a file called `name`. What is text is said to be UTF-8.
pub(super) fn media_type(name: &[u8]) -> Box<str> {
    let guess = mime_guess::from_path(Path::new(OsStr::from_bytes(name))).first_raw();
    let media_type = match guess {
        // RFC 9239 §6 leaves one name for scripts.
        Some("application/javascript") => "text/javascript",
        Some(known) => known,
        None => "application/octet-stream",
    };
    if is_text(media_type) { format!("{media_type}; charset=utf-8").into() } else { media_type.into() }
}

fn is_text(media_type: &str) -> bool {
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
        ] {
            assert_eq!(&*media_type(name.as_bytes()), expected, "{name}");
        }
    }
}
