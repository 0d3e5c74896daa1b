//! Makes paths of options and configurations absolute.

use std::path::{Component, Path, PathBuf};

/// `path` from the root of the file system, without `..`, because PHP refuses `..` in the names of
/// its scripts. Only the part before the last `..` is followed. A symbolic link behind that part
/// remains a link, so that a deployment can switch it. A path that leads nowhere remains unchanged.
pub fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parents = path.components().enumerate().filter(|(_, part)| *part == Component::ParentDir);
    let Some((last, _)) = parents.last() else { return path };
    let followed = path.components().take(last + 1).collect::<PathBuf>().canonicalize();
    let Ok(mut followed) = followed else { return path };
    // Component by component, because joining an empty path would add a slash.
    followed.extend(path.components().skip(last + 1));
    followed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn link_before_last_parent_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let around = folder.path().canonicalize().expect("there");
        fs::create_dir_all(around.join("real/deep")).expect("folders");
        symlink("real/deep", around.join("link")).expect("a link");
        symlink("real", around.join("current")).expect("a link");

        assert_eq!(absolute(&around.join("link/../x")), around.join("real/x"), "not by its letters");
        assert_eq!(absolute(&around.join("real/../current")), around.join("current"), "the last link stays");
        assert_eq!(
            absolute(&around.join("real/./deep/..")).as_os_str(),
            around.join("real").as_os_str(),
            "to the letter"
        );
        for stays in ["real/deep", "current", "absent/../real"] {
            assert_eq!(absolute(&around.join(stays)), around.join(stays));
        }
        assert_eq!(absolute(Path::new("site")), std::env::current_dir().expect("there is one").join("site"));
    }
}
