//! A real nginx with TLS, HTTP/2 and new certificates; ends on drop.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use vermeil_load::TlsVerify;

/// Longest time of a start. Generous, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of attempts with other ports, because another process may take a free port before nginx.
const ATTEMPTS: u32 = 5;

/// A running nginx.
pub(crate) struct Nginx {
    child: Child,
    folder: tempfile::TempDir,
    /// The ports: TLS with HTTP/2, plain TCP with HTTP/2 by prior knowledge, TLS without HTTP/2,
    /// TLS with the root certificate.
    ports: [u16; 4],
}

/// The path of an installed program.
fn installed(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/bin"].map(Path::new);
    folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

impl Nginx {
    /// Starts an nginx that closes a connection after `requests`. Without nginx or openssl, prints
    /// a note and returns `None`.
    pub(crate) fn start(requests: u32) -> Option<Self> {
        let (Some(nginx), Some(openssl)) = (installed("nginx"), installed("openssl")) else {
            eprintln!("SKIPPED: no nginx or no openssl on this machine");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        make_certificates(&openssl, folder.path());
        fs::create_dir(folder.path().join("root")).expect("a folder");
        fs::write(folder.path().join("root/page"), "content").expect("ours");
        // The worker is another user, so the folder must be readable for all users.
        Command::new("chmod").arg("755").arg(folder.path()).status().expect("it runs");
        for _ in 0..ATTEMPTS {
            let ports = free_ports();
            fs::write(folder.path().join("nginx.conf"), configuration(folder.path(), ports, requests))
                .expect("ours");
            let mut child = Command::new(&nginx)
                .arg("-p")
                .arg(folder.path())
                .arg("-c")
                .arg(folder.path().join("nginx.conf"))
                .arg("-e")
                .arg(folder.path().join("error.log"))
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it runs");
            if listens(&mut child, &folder.path().join("nginx.pid")) {
                return Some(Self { child, folder, ports });
            }
        }
        panic!("nginx does not start: {:?}", fs::read_to_string(folder.path().join("error.log")));
    }

    /// A URL over TLS.
    pub(crate) fn tls(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.ports[0])
    }

    /// A URL over plain TCP with HTTP/2.
    pub(crate) fn plain(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports[1])
    }

    /// A URL over TLS without HTTP/2.
    pub(crate) fn without_http2(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.ports[2])
    }

    /// A URL over TLS whose server shows the root certificate.
    pub(crate) fn with_root(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.ports[3])
    }

    /// The root certificate of the server's certificate.
    pub(crate) fn trust(&self) -> TlsVerify {
        let ca = fs::read(self.folder.path().join("ca.pem")).expect("written at start");
        TlsVerify::from_pem(&ca).expect("a certificate")
    }

    /// The served folder.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // On SIGTERM the master ends its workers. After SIGKILL the workers would stay.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _told = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _status = self.child.wait();
    }
}

fn free_ports() -> [u16; 4] {
    let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("bound").port())
}

/// Waits until nginx listens; nginx writes the pid file after that. Returns false if nginx has
/// ended, because another process uses a port.
fn listens(child: &mut Child, number: &Path) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if child.try_wait().expect("ours").is_some() {
            return false;
        }
        if fs::read(number).is_ok_and(|number| !number.is_empty()) {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("nginx does not listen");
}

/// A root certificate, and a certificate that the root has signed.
fn make_certificates(openssl: &Path, folder: &Path) {
    let run = |words: &str| {
        let output =
            Command::new(openssl).args(words.split(' ')).current_dir(folder).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3";
    run(&format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=root"));
    run(&format!(
        "req -x509 -CA ca.pem -CAkey ca.key {key} -keyout key.pem -out cert.pem -subj /CN=server \
         -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    ));
}

fn configuration(folder: &Path, ports: [u16; 4], requests: u32) -> String {
    let [tls, plain, old, root] = ports;
    let folder = folder.display();
    format!(
        "daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
events {{ worker_connections 512; }}
http {{
    access_log off;
    keepalive_requests {requests};
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{tls} ssl http2;
        ssl_certificate {folder}/cert.pem;
        ssl_certificate_key {folder}/key.pem;
        root {folder}/root;
    }}
    server {{
        listen 127.0.0.1:{plain} http2;
        root {folder}/root;
    }}
    server {{
        listen 127.0.0.1:{old} ssl;
        ssl_certificate {folder}/cert.pem;
        ssl_certificate_key {folder}/key.pem;
        root {folder}/root;
    }}
    server {{
        listen 127.0.0.1:{root} ssl;
        ssl_certificate {folder}/ca.pem;
        ssl_certificate_key {folder}/ca.key;
        root {folder}/root;
    }}
}}
"
    )
}
