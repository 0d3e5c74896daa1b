//! A wiki: DokuWiki from Debian's packages, without being installed.
//!
//! A real application in PHP for the benches of servers: the packages are fetched and unpacked into
//! a temporary folder, and the wiki is set up there with a user and with the page about its syntax
//! as the start page. All files of the wiki, sessions too, are in that folder and are removed with
//! the folder. Leaves out the server of the wiki.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::debian;
use crate::network::run;
use crate::{BenchError, BenchResult};

/// The user with write access, and the password.
pub const USER: (&str, &str) = ("painter", "pearl");
/// The path of the start page, and a text on that page.
pub const START: (&str, &str) = ("/doku.php", "Formatting Syntax");

/// The wiki and the dependencies that its pages need; none of the packages is installed.
const PACKAGES: [&str; 8] = [
    "dokuwiki",
    "libjs-jquery",
    "libjs-jquery-cookie",
    "libjs-jquery-ui",
    "libphp-simplepie",
    "php-geshi",
    "php-phpseclib",
    "php-random-compat",
];

/// Builds the wiki `$1` from the packages unpacked in `$2`, with the user `$3` and the password
/// `$4`. Copies replace links, because the links lead out of the served folder.
const SET_UP: &str = r#"set -e
mkdir -p "$1/conf" "$1/sessions"
cp -r "$2/usr/share/dokuwiki" "$1/site"
rm -f "$1/site/lib/tpl" "$1/site/lib/plugins" "$1/site/.htaccess"
cp -rL "$2/var/lib/dokuwiki/lib/tpl" "$2/var/lib/dokuwiki/lib/plugins" "$1/site/lib/"
cp -r "$2/var/lib/dokuwiki/data" "$1/data"
cp "$1/data/pages/wiki/syntax.txt" "$1/data/pages/start.txt"
find "$2/etc/dokuwiki" -type f -exec cp {} "$1/conf/" \;
grep -rlE '/usr/share/(php|javascript)' "$1/site" | xargs sed -i "s,/usr/share/\(php\|javascript\),$2/usr/share/\1,g"
cat > "$1/site/inc/preload.php" <<END
<?php if (!defined('DOKU_CONF')) { define('DOKU_CONF', '$1/conf/'); define('DOKU_MAIN_CONF', '$1/conf/'); }
ini_set('session.save_path', '$1/sessions');
END
cat > "$1/conf/local.php" <<END
<?php
\$conf['savedir'] = '$1/data';
\$conf['useacl'] = 1;
END
printf '%s:%s:Painter:painter@example.org:user\n' "$3" "$(printf %s "$4" | md5sum | cut -d' ' -f1)" > "$1/conf/users.auth.php"
printf '*\t@ALL\t1\n*\t@user\t8\n' > "$1/conf/acl.auth.php"
chmod -R a+rX "$1" "$2"
chmod -R a+rwX "$1/data" "$1/conf" "$1/sessions"
"#;

/// The wiki in a temporary folder that every server may read; the folder is removed with the value.
#[derive(Debug)]
pub struct Wiki(TempDir);

impl Wiki {
    /// Fetches the packages, and sets up the wiki.
    ///
    /// # Errors
    /// The tools are missing, the packages cannot be fetched, or the packages have unexpected
    /// contents.
    pub fn prepare() -> BenchResult<Self> {
        let wiki = tempfile::Builder::new().prefix("vermeil-dokuwiki-").tempdir();
        let wiki = Self(wiki.map_err(BenchError::path("make a folder in", &std::env::temp_dir()))?);
        let folder = wiki.folder();
        fs::set_permissions(folder, Permissions::from_mode(0o755))
            .map_err(BenchError::path("open to all", folder))?;
        let unpacked = debian::unpack(folder, &PACKAGES)?;
        let mut set_up = Command::new("sh");
        run(set_up
            .args(["-c", SET_UP, "sh"])
            .arg(folder.join("wiki"))
            .arg(&unpacked)
            .args([USER.0, USER.1]))?;
        Ok(wiki)
    }

    /// A folder for files related to the wiki, removed with the wiki.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Removes the session files of visitors without a cookie.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn forget_visitors(&self) -> BenchResult<()> {
        let sessions = self.folder().join("wiki/sessions");
        let left = fs::read_dir(&sessions).map_err(BenchError::path("list", &sessions))?;
        for file in left.flatten() {
            fs::remove_file(file.path()).map_err(BenchError::path("remove", &file.path()))?;
        }
        Ok(())
    }

    /// The folder to serve.
    pub fn site(&self) -> PathBuf {
        self.folder().join("wiki/site")
    }
}
