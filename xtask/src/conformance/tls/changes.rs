//! Requests over HTTPS during reloads, take-overs and changes of certificates: none fails.
//!
//! `vermeil load` sends the requests at a constant rate, so that they last as long as the changes:
//! most over kept connections, some over a connection each, with resumed sessions or full
//! handshakes.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::authority::{TestKey, Validity};
use super::server::{ConformanceServer, ConformanceSite, NAME, until};
use super::{CommandOutput, Verdicts};
use crate::error::{Error, Result};

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangesSize {
    pub(super) is_release: bool,
    requests: u64,
    requests_per_s: u64,
    reloads: usize,
    take_overs: usize,
    certificates: usize,
    /// The pause behind each change, during which the new state serves.
    pause: Duration,
}

impl ChangesSize {
    /// Twenty seconds.
    pub(super) const SMALL: Self = Self {
        is_release: false,
        requests: 20_000,
        requests_per_s: 1000,
        reloads: 3,
        take_overs: 1,
        certificates: 1,
        pause: Duration::from_millis(500),
    };

    /// Three minutes.
    pub(super) const FULL: Self = Self {
        is_release: true,
        requests: 1_000_000,
        requests_per_s: 6000,
        reloads: 20,
        take_overs: 5,
        certificates: 5,
        pause: Duration::from_secs(2),
    };

    /// All changes, with each kind spread over the whole time.
    fn order(self) -> Vec<ServerChange> {
        let spread = |change: ServerChange, count: usize| {
            (0..count).map(move |at| ((at * 2 + 1) as f64 / (count * 2) as f64, change))
        };
        let mut order: Vec<(f64, ServerChange)> = spread(ServerChange::Reload, self.reloads)
            .chain(spread(ServerChange::TakeOver, self.take_overs))
            .chain(spread(ServerChange::Certificate, self.certificates))
            .collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        order.into_iter().map(|(_, change)| change).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerChange {
    Reload,
    TakeOver,
    Certificate,
}

/// A part of the load: its share of the requests in hundredths, connections, options of `vermeil
/// load`.
const SHARES: [(&str, u64, &str, &[&str]); 3] = [
    ("kept connections", 90, "64", &[]),
    ("resumed sessions", 6, "32", &["--no-keepalive", "--resume"]),
    ("full handshakes", 4, "32", &["--no-keepalive"]),
];

/// Runs the load and the changes.
pub(super) fn run(site: &ConformanceSite, size: ChangesSize, verdicts: &mut Verdicts) -> Result<()> {
    let mut server = site.start()?;
    let mut loads = SHARES
        .iter()
        .map(|(name, hundredths, connections, options)| {
            let share = |of: u64| (of * hundredths / 100).to_string();
            let mut command = Command::new(&site.program);
            command.args(["load", "--quiet", "--json", "-", "-c", connections]).args(*options);
            command.args(["-n", &share(size.requests)]);
            command.args(["--rate", &format!("constant:{}", share(size.requests_per_s))]);
            command.arg("--ca").arg(site.authority.certificate());
            command.args(["--address", &site.address.to_string()]);
            command.arg(format!("https://{NAME}:{}/", site.address.port()));
            let output = site.path(&format!("{name}.json"));
            let file = std::fs::File::create(&output).map_err(Error::path("create", &output))?;
            command.stdin(Stdio::null()).stdout(file);
            let process = command.spawn().map_err(Error::path("start", &site.program))?;
            Ok(RunningLoad { name, process, requests: size.requests * hundredths / 100 })
        })
        .collect::<Result<Vec<RunningLoad>>>()?;
    let mut reloads = 0;
    let order = size.order();
    for change in &order {
        thread::sleep(size.pause);
        let over = loads.iter_mut().find_map(|load| load.has_ended().then_some(load.name));
        if let Some(name) = over {
            verdicts.add("changes", Err(format!("the load ended before the changes: {name}")));
            break;
        }
        match change {
            ServerChange::Reload => {
                let output = site.control("reload")?;
                reloads += 1;
                if !output.succeeded {
                    verdicts.add("reload", Err(output.tail()));
                }
            }
            ServerChange::TakeOver => {
                let before = std::mem::replace(&mut server, site.take_over()?);
                before.ends()?;
            }
            ServerChange::Certificate => replace(site, &server)?,
        }
    }
    let changes = format!(
        "{reloads} reloads, {} take-overs, {} changes of certificates",
        size.take_overs, size.certificates
    );
    for load in loads {
        load.judge(site, &changes, verdicts)?;
    }
    server.stop()
}

/// Replaces the certificate that clients get, and waits until the server uses the new certificate.
fn replace(site: &ConformanceSite, server: &ConformanceServer) -> Result<()> {
    let serial = |text: &str| text.lines().find(|line| line.starts_with("serial=")).map(str::to_owned);
    let openssl = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script, &site.address.to_string()]).arg(site.path("site-p256.crt"));
        CommandOutput::of(&mut command)
    };
    site.authority.certify("site-p256", NAME, TestKey::P256, Validity::Present)?;
    let own = serial(&openssl("openssl x509 -noout -serial -in \"$1\"")?.text);
    let ask = "openssl s_client -connect \"$0\" -servername site.test </dev/null 2>&1 | openssl x509 -noout -serial";
    until("the server uses the new certificate", || {
        Ok((own.is_some() && serial(&openssl(ask)?.text) == own).then_some(()))
    })
    .map_err(|error| Error::form(error, server.said()))
}

/// A part of the load that runs.
struct RunningLoad {
    name: &'static str,
    process: Child,
    requests: u64,
}

impl RunningLoad {
    fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// Waits for the end of the load. Every request must have got its answer.
    fn judge(mut self, site: &ConformanceSite, changes: &str, verdicts: &mut Verdicts) -> Result<()> {
        self.process.wait().map_err(Error::path("wait for", &site.program))?;
        let path = site.path(&format!("{}.json", self.name));
        let text = std::fs::read_to_string(&path).map_err(Error::path("read", &path))?;
        let record: Value =
            serde_json::from_str(&text).map_err(|error| Error::form(path.display(), error))?;
        let count = |key: &str| record[key].as_u64().unwrap_or_default();
        let (good, failed, unfinished) = (count("good"), count("failed"), count("unfinished"));
        let words = format!(
            "{good} requests answered of {}, {failed} failed, {unfinished} unfinished, handshakes {}, repeated {}, during {changes}",
            self.requests, record["handshakes"], record["repeated"]
        );
        let is_whole = good == self.requests && failed == 0 && unfinished == 0;
        let result = if is_whole { Ok(words) } else { Err(format!("{words}: {}", record["faults"])) };
        verdicts.add(&format!("requests over {}", self.name), result);
        Ok(())
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
