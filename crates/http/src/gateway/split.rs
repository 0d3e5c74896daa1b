//! The part of a path that names the program, and the rest, which becomes `PATH_INFO` (RFC 3875
//! §3.3).
//!
//! Only a segment that ends in the program's extension can be the program: for example in
//! `/image.jpg/x.php` that is `x.php`, never the picture. The file system decides between the
//! candidates: the first regular file is the program.

/// A way to cut a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    /// The path of the program; starts with a slash.
    pub script: &'a [u8],
    /// The rest of the path: empty, or starts with a slash.
    pub path_info: &'a [u8],
}

/// The candidates of the decoded `path`, shortest first. The program's name ends in `extension`
/// (such as `.php`), and is longer than the extension. Case is ignored, because on file systems
/// that ignore case `x.PHP` is the text of `x.php`.
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
