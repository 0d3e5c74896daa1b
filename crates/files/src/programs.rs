//! Which files are programs. The server never sends the text of a program, whatever path leads to
//! the file.
//!
//! A file is a program because of its name, or because a route gives its path to CGI. The check
//! runs where a look-up opens a file (`load/look.rs`). Therefore folders' index pages, 404.html,
//! precompressed siblings, links and the folders of X-Sendfile share the same check. `gateway` and
//! `cgi` run programs. A hard link with another name is a separate file. Tested below, in
//! `tests/programs.rs`, and through the binary.

/// Extensions of programs on every host, with or without PHP. `.php` runs on hosts with PHP; no
/// host runs the others.
const EXTENSIONS: [&str; 7] = ["php", "phtml", "phar", "phps", "pht", "cgi", "fcgi"];

/// Extensions of copies: precompressed siblings, and the backups that editors and package managers
/// leave beside a file.
const COPIES: [&str; 10] =
    ["br", "gz", "zst", "bak", "old", "orig", "save", "dpkg-old", "dpkg-dist", "rpmsave"];

/// A part of a site's paths. Without prefix and suffix, the part is all paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SitePart {
    /// Start of the path, in whole segments.
    pub prefix: Option<Box<str>>,
    /// End of a segment of the path.
    pub suffix: Option<Box<str>>,
}

/// The effect of a route on the programs of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteEffect {
    /// CGI runs the files.
    ToCgi,
    /// The server sends the files, although a later part belongs to CGI.
    ToFiles,
}

/// The programs of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SitePrograms {
    /// Last index page to try, if that file exists: PHP's own index page on hosts with PHP.
    pub last_index: Option<Box<str>>,
    /// In the order of the routes.
    pub parts: Vec<(SitePart, RouteEffect)>,
}

impl SitePrograms {
    /// Whether the file at `path`, decoded and beginning with a slash, is a program.
    pub(crate) fn include(&self, path: &[u8]) -> bool {
        has_program_name(path) || self.is_given_to_cgi(path)
    }

    /// A `files` route overrides only a later route with a prefix. If a suffix gives a name to CGI,
    /// the name stays a program's everywhere.
    fn is_given_to_cgi(&self, path: &[u8]) -> bool {
        let path = original(path);
        let mut is_for_files = false;
        for (SitePart { prefix, suffix }, given) in &self.parts {
            let ends = suffix.as_ref().is_none_or(|suffix| has_segment(suffix.as_bytes(), path));
            match given {
                RouteEffect::ToFiles => {
                    let begins = prefix.as_ref().is_none_or(|prefix| rest(prefix.as_bytes(), path).is_some());
                    is_for_files |= begins && ends;
                }
                RouteEffect::ToCgi => {
                    // In any case of letters, because some file systems ignore the case of a
                    // folder's name.
                    let prefix = prefix.as_ref().map(|prefix| prefix.as_bytes().to_ascii_lowercase());
                    let begins =
                        prefix.is_none_or(|prefix| rest(&prefix, &path.to_ascii_lowercase()).is_some());
                    if begins && ends && (suffix.is_some() || !is_for_files) {
                        return true;
                    }
                }
            }
        }
        false
    }
}

/// Whether the last segment of `path` is a program's name on every host, or the name of a copy of
/// such a program.
pub fn has_program_name(path: &[u8]) -> bool {
    let name = name(original(path));
    let mut parts = name.rsplitn(2, |&byte| byte == b'.');
    let extension = parts.next().unwrap_or_default();
    let is_versioned = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    parts.next().is_some_and(|stem| !stem.is_empty())
        && (EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known.as_bytes()))
            || (extension.len() > 3
                && extension[..3].eq_ignore_ascii_case(b"php")
                && is_versioned(&extension[3..])))
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// `path` without the extension of a copy, and without the dots and spaces at its end that some
/// file systems ignore.
fn original(mut path: &[u8]) -> &[u8] {
    loop {
        let before = path.len();
        while let [rest @ .., b'.' | b' ' | b'~'] = path {
            path = rest;
        }
        for copy in COPIES {
            let at = path.len().saturating_sub(copy.len() + 1);
            if path[at..].first() == Some(&b'.')
                && path[at + 1..].eq_ignore_ascii_case(copy.as_bytes())
                && !path[..at].ends_with(b"/")
            {
                path = &path[..at];
            }
        }
        if path.len() == before {
            return path;
        }
    }
}

/// The rest of `path` behind `prefix`, if `path` begins with `prefix` in whole segments.
pub fn rest<'p>(prefix: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(prefix)?;
    (prefix.ends_with(b"/") || rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

/// Whether a segment of `path` ends in `suffix`. Case does not matter, as for the names of PHP
/// programs, because a route that guards a name must guard all its spellings.
pub fn has_segment(suffix: &[u8], path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|segment| ends_with(segment, suffix))
}

/// Whether `name` ends in `suffix`, in any case of letters.
pub fn ends_with(name: &[u8], suffix: &[u8]) -> bool {
    name.len() >= suffix.len() && name[name.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_are_known_in_every_spelling() {
        for name in [
            "x.php",
            "x.PHP",
            "x.Php",
            "x.phtml",
            "x.PHTML",
            "x.phar",
            "x.phps",
            "x.pht",
            "x.php3",
            "x.php7",
            "x.PHP82",
            "x.cgi",
            "x.fcgi",
            "x.php.gz",
            "x.php.br",
            "x.PHP.ZST",
            "x.php~",
            "x.php.bak",
            "x.php.old",
            "x.php.orig",
            "x.php.save",
            "x.php.bak.gz",
            "x.php.",
            "x.php . ",
            "a.b.php",
        ] {
            assert!(has_program_name(format!("/a/{name}").as_bytes()), "{name}");
        }
        for name in [
            "php",
            "x",
            "x.html",
            "x.php.html",
            "x.php.txt",
            "x.phpx",
            "x.php5x",
            "phpinfo",
            "x.gz",
            "x.js",
            "x.inc",
            "cgi",
            "x.tar.gz",
            "x.ophp",
            "",
        ] {
            assert!(!has_program_name(format!("/a.php/{name}").as_bytes()), "{name}");
        }
    }

    #[test]
    fn cgi_folders_hold_programs_unless_route_matches() {
        let part = |prefix: Option<&str>, suffix: Option<&str>| SitePart {
            prefix: prefix.map(Into::into),
            suffix: suffix.map(Into::into),
        };
        let programs = SitePrograms {
            last_index: None,
            parts: vec![
                (part(Some("/bin/icons"), None), RouteEffect::ToFiles),
                (part(Some("/bin"), None), RouteEffect::ToCgi),
                (part(Some("/src"), None), RouteEffect::ToFiles),
                (part(None, Some(".pl")), RouteEffect::ToCgi),
            ],
        };
        for path in [
            "/bin/x",
            "/BIN/x",
            "/bin/x.gz",
            "/bin/sub/x",
            "/x.pl",
            "/x.PL",
            "/x.pl.gz",
            "/x.pl~",
            "/src/x.pl",
        ] {
            assert!(programs.include(path.as_bytes()), "{path}");
        }
        for path in ["/bin/icons/x.png", "/binary", "/x.plx", "/src/x.c", "/pl"] {
            assert!(!programs.include(path.as_bytes()), "{path}");
        }
    }
}
