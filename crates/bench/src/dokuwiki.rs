//! A wiki: DokuWiki, as Debian packages it, without being installed.
//!
//! A real application in PHP, for whoever wants to serve one: the packages are fetched and unpacked into a temporary folder, and the
//! wiki is set up there with a user and the page that explains its syntax as its start page. All it writes, sessions too, is in
//! that folder and goes with it. Leaves out who serves it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::network::run;
use crate::peers::find_program;
use crate::{Error, Result};

/// Who may write pages, and the password.
pub const USER: (&str, &str) = ("painter", "pearl");
/// The path of the start page, and a text on it.
pub const START: (&str, &str) = ("/doku.php", "Formatting Syntax");

/// What fetches and unpacks it, and the Debian packages that hold that.
const TOOLS: [(&str, &str); 2] = [("apt-get", "apt"), ("dpkg-deb", "dpkg")];

/// The wiki, and what of its dependencies it needs for pages; none of them is installed.
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

/// Makes the wiki `$1` out of the packages unpacked in `$2`, with the user `$3` and the password `$4`. Links lead out of the served
/// folder, so copies replace them.
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

/// The wiki in a folder of its own, which every server may read; it goes with the value.
#[derive(Debug)]
pub struct Wiki(TempDir);

impl Wiki {
    /// Fetches the packages, and sets the wiki up.
    ///
    /// # Errors
    /// When the tools are missing, the packages cannot be fetched, or they are not as expected.
    pub fn prepare() -> Result<Self> {
        for (program, package) in TOOLS {
            find_program(program).ok_or(Error::Missing { program, package })?;
        }
        let wiki = tempfile::Builder::new().prefix("vermeil-dokuwiki-").tempdir();
        let wiki = Self(wiki.map_err(Error::path("make a folder in", &std::env::temp_dir()))?);
        let folder = wiki.folder();
        fs::set_permissions(folder, Permissions::from_mode(0o755))
            .map_err(Error::path("open to all", folder))?;
        let fetch =
            || run(Command::new("apt-get").args(["-q", "download"]).args(PACKAGES).current_dir(folder));
        if fetch().is_err() {
            // The lists may be older than what there is to fetch, or missing.
            run(Command::new("apt-get").args(["-q", "update"]))?;
            fetch()?;
        }
        let unpacked = folder.join("packages");
        for package in packages_in(folder)? {
            run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked))?;
        }
        let mut set_up = Command::new("sh");
        run(set_up
            .args(["-c", SET_UP, "sh"])
            .arg(folder.join("wiki"))
            .arg(&unpacked)
            .args([USER.0, USER.1]))?;
        Ok(wiki)
    }

    /// A folder for what has to do with it, and goes with it.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Takes away what visitors without a cookie have left, each a file.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn forget_visitors(&self) -> Result<()> {
        let sessions = self.folder().join("wiki/sessions");
        let left = fs::read_dir(&sessions).map_err(Error::path("list", &sessions))?;
        for file in left.flatten() {
            fs::remove_file(file.path()).map_err(Error::path("remove", &file.path()))?;
        }
        Ok(())
    }

    /// The folder to serve.
    pub fn site(&self) -> PathBuf {
        self.folder().join("wiki/site")
    }
}

fn packages_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::path("list", folder))?;
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect();
    // The wiki first: it links to what others bring as folders.
    files.sort();
    Ok(files)
}
