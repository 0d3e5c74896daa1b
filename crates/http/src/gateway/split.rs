//! Which part of a path names the program, and which is left for it as `PATH_INFO` (RFC 3875 §3.3).
//!
//! Only a segment that ends in the program's extension can be the program: of `/image.jpg/x.php` that is `x.php`,
//! never the picture. Which candidate it is, the file system says: the first that is a regular file.

/// A way to cut a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    /// The path of the program; starts with a slash.
    pub script: &'a [u8],
    /// What follows it: empty, or starts with a slash.
    pub path_info: &'a [u8],
}

/// The candidates of `path`, decoded, whose program's name ends in `extension` (such as `.php`), shortest first. A name
/// that is the extension alone is none. Case does not matter: on file systems where it does not, `x.PHP` is the text of
/// `x.php`.
pub fn candidates<'a>(path: &'a [u8], extension: &'a [u8]) -> impl Iterator<Item = Cut<'a>> {
    let ends = path.iter().enumerate().skip(1).filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
    ends.chain([path.len()]).filter_map(move |end| {
        let (script, path_info) = path.split_at(end);
        let name = script.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let is_program = name.len() > extension.len()
            && name[name.len() - extension.len()..].eq_ignore_ascii_case(extension);
        is_program.then_some(Cut { script, path_info })
    })
}
