//! The system programs that tests and benches need, in one list with reasons, and their
//! installation.
//!
//! On Debian and as root, missing packages are installed without questions and without starting
//! services. While apt-get runs, `policy-rc.d` answers every start of a service with "forbidden"
//! (invoke-rc.d(8)). On other systems the missing programs are listed and the tests that need them
//! skip themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use vermeil_bench::peers::find_program;

use crate::error::{Error, Result};
use crate::steps::run_command;

/// A program, its Debian package, and the reason.
struct Need {
    program: &'static str,
    package: &'static str,
    reason: &'static str,
}

const NEEDS: [Need; 28] = [
    Need { program: "wrk", package: "wrk", reason: "the load of the benches" },
    Need { program: "nginx", package: "nginx", reason: "a peer of bench serve" },
    Need { program: "ab", package: "apache2-utils", reason: "a peer of bench load" },
    Need { program: "hey", package: "hey", reason: "a peer of bench load" },
    Need { program: "openssl", package: "openssl", reason: "certificates of the TLS tests" },
    Need { program: "apache2", package: "apache2-bin", reason: "a peer of bench serve" },
    Need { program: "h2o", package: "h2o", reason: "a peer of bench tls" },
    Need {
        program: "ip",
        package: "iproute2",
        reason: "network namespaces of bench serve and of load agents",
    },
    Need { program: "taskset", package: "util-linux", reason: "pins servers and load" },
    Need { program: "chrt", package: "util-linux", reason: "priorities of the loads of bench tls" },
    Need { program: "nsenter", package: "util-linux", reason: "starts servers in a namespace" },
    Need { program: "curl", package: "curl", reason: "end-to-end tests with a client we did not write" },
    Need { program: "h2load", package: "nghttp2-client", reason: "loads axum on the runtime over HTTP/2" },
    Need { program: "wget", package: "wget", reason: "mirrors a site in the end-to-end tests" },
    Need { program: "php-fpm8.2", package: "php-fpm", reason: "PHP, end to end" },
    Need { program: "php-cgi", package: "php-cgi", reason: "PHP, end to end, the other way" },
    Need { program: "cc", package: "gcc", reason: "the programs of bench cgi" },
    Need { program: "lighttpd", package: "lighttpd", reason: "a peer of bench cgi" },
    Need { program: "fcgiwrap", package: "fcgiwrap", reason: "a peer of bench cgi, behind nginx" },
    Need { program: "perf", package: "linux-perf", reason: "says where the time goes, in bench cgi" },
    Need { program: "haproxy", package: "haproxy", reason: "a balancer in front of two servers, end to end" },
    Need { program: "prometheus", package: "prometheus", reason: "reads the metrics, end to end" },
    Need { program: "ethtool", package: "ethtool", reason: "virtual cards that are polled, in bench knet" },
    Need { program: "strace", package: "strace", reason: "counts system calls per request" },
    Need { program: "clang-14", package: "clang-14", reason: "compares kernel programs with their sources" },
    Need { program: "redis-server", package: "redis-server", reason: "a Redis client on the runtime" },
    Need { program: "pg_ctlcluster", package: "postgresql", reason: "a PostgreSQL client on the runtime" },
    Need { program: "python3", package: "python3", reason: "changes files through a mapping" },
];

const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The emulator: not needed by `cargo xtask test`, and large.
const EMULATOR: [Need; 3] = [
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86", reason: "a machine with four nodes" },
    Need { program: "curl", package: "curl", reason: "sends it requests" },
    Need { program: "ip", package: "iproute2", reason: "connects it" },
];

/// Installs the programs of the emulated machine, if missing.
///
/// # Errors
/// The installation failed.
pub(crate) fn install_emulator() -> Result<()> {
    install_all(&EMULATOR)
}

fn install_all(needs: &[Need]) -> Result<()> {
    let missing = missing(needs);
    if missing.is_empty() { Ok(()) } else { apt_get(names_of(&missing)) }
}

fn missing(needs: &[Need]) -> Vec<&Need> {
    needs.iter().filter(|need| find_program(need.program).is_none()).collect()
}

/// The programs of the real applications: not needed by `cargo xtask test`, and large.
const APPS: [Need; 8] = [
    Need { program: "chromium", package: "chromium", reason: "uses applications as a person does" },
    Need { program: "php-fpm8.2", package: "php-fpm", reason: "runs applications" },
    Need { program: "php", package: "php-cli", reason: "installs applications" },
    Need { program: "dpkg-deb", package: "dpkg", reason: "unpacks applications" },
    Need { program: "mariadbd", package: "mariadb-server-core", reason: "the database of applications" },
    Need { program: "mariadb", package: "mariadb-client-core", reason: "makes databases" },
    Need { program: "nginx", package: "nginx", reason: "a TLS proxy" },
    Need { program: "git", package: "git", reason: "repositories, and gitweb" },
];

/// Libraries that applications need: a file of the package, and the package.
const LIBRARIES: [(&str, &str); 9] = [
    ("/etc/php/8.2/fpm/conf.d/20-mysqli.ini", "php-mysql"),
    ("/etc/php/8.2/fpm/conf.d/20-gd.ini", "php-gd"),
    ("/etc/php/8.2/fpm/conf.d/20-intl.ini", "php-intl"),
    ("/etc/php/8.2/fpm/conf.d/20-sqlite3.ini", "php-sqlite3"),
    ("/etc/php/8.2/fpm/conf.d/20-mbstring.ini", "php-mbstring"),
    ("/etc/php/8.2/fpm/conf.d/15-xml.ini", "php-xml"),
    ("/etc/php/8.2/fpm/conf.d/20-curl.ini", "php-curl"),
    ("/etc/php/8.2/fpm/conf.d/20-soap.ini", "php-soap"),
    ("/usr/share/perl5/CGI.pm", "libcgi-pm-perl"),
];

/// Installs the programs that run applications, and their libraries, if missing.
///
/// # Errors
/// The installation failed.
pub(crate) fn install_apps() -> Result<()> {
    let mut packages: Vec<&str> = missing(&APPS).iter().map(|need| need.package).collect();
    let libraries = LIBRARIES.iter().filter(|(file, _)| !Path::new(file).exists());
    packages.extend(libraries.map(|(_, package)| package));
    if packages.is_empty() { Ok(()) } else { apt_get(packages) }
}

/// The libraries of Sympa that Perl does not have. The packages that these need come with them.
const SYMPA: [&str; 19] = [
    "libarchive-zip-perl",
    "libcgi-fast-perl",
    "libcrypt-eksblowfish-perl",
    "libdatetime-format-mail-perl",
    "libdbd-sqlite3-perl",
    "libfile-copy-recursive-perl",
    "libfile-nfslock-perl",
    "libhtml-format-perl",
    "libhtml-stripscripts-parser-perl",
    "libintl-perl",
    "libio-stringy-perl",
    "libmime-encwords-perl",
    "libmime-lite-html-perl",
    "libmime-tools-perl",
    "libnet-cidr-perl",
    "libnet-dns-perl",
    "libtemplate-perl",
    "libunicode-linebreak-perl",
    "libxml-libxml-perl",
];

/// Installs the libraries of Sympa, if missing.
///
/// # Errors
/// The installation failed.
pub(crate) fn install_sympa() -> Result<()> {
    // Every installed package has this file (Debian Policy, section 12.5).
    let is_missing = |package: &&str| !Path::new(&format!("/usr/share/doc/{package}/copyright")).exists();
    let packages: Vec<&str> = SYMPA.into_iter().filter(is_missing).collect();
    if packages.is_empty() { Ok(()) } else { apt_get(packages) }
}

/// The scanners and clients of `cargo xtask conformance tls`: not needed by `cargo xtask test`, and
/// large.
const TLS_CLIENTS: [Need; 7] = [
    Need { program: "openssl", package: "openssl", reason: "certificates, and handshakes of every kind" },
    Need { program: "curl", package: "curl", reason: "a client" },
    Need { program: "testssl", package: "testssl.sh", reason: "a scanner" },
    Need { program: "go", package: "golang-go", reason: "a client" },
    Need { program: "python3", package: "python3-venv", reason: "a client, and the scanner sslyze" },
    Need { program: "chromium", package: "chromium", reason: "a client" },
    Need { program: "certutil", package: "libnss3-tools", reason: "makes the test authority known to it" },
];

/// Installs the scanners and clients of HTTPS, if missing.
///
/// # Errors
/// The installation failed.
pub(crate) fn install_tls_clients() -> Result<()> {
    install_all(&TLS_CLIENTS)
}

/// The programs of the load of `cargo xtask pgo`.
const PGO: [Need; 3] = [
    Need { program: "php-fpm8.2", package: "php-fpm", reason: "runs scripts" },
    Need { program: "openssl", package: "openssl", reason: "certificates" },
    Need { program: "taskset", package: "util-linux", reason: "pins servers and load" },
];

/// Installs the programs of the load of `cargo xtask pgo`, if missing.
///
/// # Errors
/// The installation failed.
pub(crate) fn install_for_pgo() -> Result<()> {
    install_all(&PGO)
}

/// Installs missing programs, or lists them.
///
/// # Errors
/// Never for a missing program: a failed installation is reported, and the tests that need the
/// program skip themselves.
pub(crate) fn install() -> Result<()> {
    let missing = missing(&NEEDS);
    if missing.is_empty() {
        println!("all {} programs are here", NEEDS.len());
        return Ok(());
    }
    for need in &missing {
        println!("missing: {} ({}; Debian package {})", need.program, need.reason, need.package);
    }
    if !is_root() || find_program("apt-get").is_none() {
        println!("going on without: installing needs root and apt-get");
        return Ok(());
    }
    if let Err(error) = apt_get(names_of(&missing)) {
        println!("going on without: {error}");
    }
    Ok(())
}

fn names_of(needs: &[&Need]) -> Vec<&'static str> {
    needs.iter().map(|need| need.package).collect()
}

fn apt_get(mut packages: Vec<&str>) -> Result<()> {
    let _no_services = ServicesStayOff::begin()?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-y"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run_command(&mut command(&["update"]))?;
    packages.dedup();
    run_command(command(&["install", "--no-install-recommends"]).args(packages))
}

/// While this value lives, installing a package starts no service.
struct ServicesStayOff {
    ours: Option<PathBuf>,
}

impl ServicesStayOff {
    fn begin() -> Result<Self> {
        let path = Path::new(POLICY);
        // An existing policy belongs to the administrator, and every container image has an equal
        // policy.
        if path.exists() {
            return Ok(Self { ours: None });
        }
        fs::write(path, "#!/bin/sh\nexit 101\n").map_err(Error::path("write", path))?;
        let guard = Self { ours: Some(path.into()) };
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .map_err(Error::path("make executable", path))?;
        Ok(guard)
    }
}

impl Drop for ServicesStayOff {
    fn drop(&mut self) {
        if let Some(path) = &self.ours
            && let Err(error) = fs::remove_file(path)
        {
            eprintln!("warning: {} is left behind: {error}", path.display());
        }
    }
}

/// Whether the superuser runs this program.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_need_has_a_reason_and_a_package() {
        for need in NEEDS {
            assert!(!need.reason.is_empty() && !need.package.is_empty(), "{}", need.program);
        }
    }
}
