//! The broker's side: the work of each order, and the names in the configuration.

use super::logs::ConfiguredLogs;
use super::{BoundAddress, BrokerAnswer, BrokerOrder, Knowledge, path_of};
use crate::messages::Messages;
use crate::order_line::OrderLine;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};
use vermeil_accept::listen::{Published, Unpublished, bind_all, unix};
use vermeil_address::{ListenAddr, UnixAddr};
use vermeil_config::{ConfigError, GivenParts, ServeOptions, Surroundings};
use vermeil_log::{Rotation, open_log_file, operator_log::log_line};
use vermeil_spawn::fork_beside;

/// How long reading the configuration file may take: a hundred times the fifth of a second that a
/// hundred thousand hosts take (`bench tail`).
const READ_PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of the paths of all logs: those of a million hosts with paths of 250 bytes.
const LOG_PATHS_BYTES_MAX: u64 = 256 << 20;

/// Longest reason of a refusal, in bytes, because messages are bounded.
const REASON_BYTES_MAX: usize = 64 << 10;

/// Carries out orders until the server closes the line.
pub(super) fn run(messages: Messages, knowledge: &Knowledge<'_>) {
    let mut line = OrderLine::new(messages);
    let mut names = ConfiguredNames::of_start(knowledge);
    while let Ok(Some(order)) = line.next_order::<BrokerOrder>() {
        let (answer, descriptors) = match carry_out(order, knowledge, &mut names) {
            Ok(done) => done,
            Err(error) => (refused(&error), Vec::new()),
        };
        let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        if line.answer(&answer, &descriptors).is_err() {
            return;
        }
    }
}

fn refused(error: &io::Error) -> BrokerAnswer {
    let mut why = error.to_string();
    why.truncate(why.floor_char_boundary(REASON_BYTES_MAX));
    BrokerAnswer::Refused { why, code: error.raw_os_error() }
}

fn carry_out(
    order: BrokerOrder,
    knowledge: &Knowledge<'_>,
    names: &mut ConfiguredNames,
) -> io::Result<(BrokerAnswer, Vec<OwnedFd>)> {
    match order {
        BrokerOrder::OpenLog(path) => {
            let path = path_of(&path);
            names.judge(
                knowledge.options,
                |names| names.logs.have(&path),
                || format!("the log {}", path.display()),
            )?;
            Ok((BrokerAnswer::Opened, vec![open_log_file(&path)?.into()]))
        }
        BrokerOrder::RotateLog { path, file, rotation } => {
            let path = path_of(&path);
            names.judge(
                knowledge.options,
                |names| names.logs.have(&path) && names.logs.have_rotation(rotation),
                || format!("this rotation of the log {}", path.display()),
            )?;
            Ok((BrokerAnswer::Rotated(names.logs.rotate(&path, file, rotation)?), Vec::new()))
        }
        BrokerOrder::Learn => {
            names.reread(knowledge.options, names.read)?;
            Ok((BrokerAnswer::Learned, Vec::new()))
        }
        BrokerOrder::Listen { addrs, ours } => {
            let missing =
                |names: &ConfiguredNames| addrs.iter().find(|addr| !names.listen.contains(addr)).copied();
            let all = || addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            names.judge(knowledge.options, |names| missing(names).is_none(), all)?;
            listen(&addrs, &ours, knowledge, names)
        }
        BrokerOrder::Publish => {
            let published = std::mem::take(&mut names.pending).publish().map_err(io::Error::other)?;
            names.note_published(published.keep());
            Ok((BrokerAnswer::Published, Vec::new()))
        }
        BrokerOrder::Withdraw => {
            drop(std::mem::take(&mut names.pending));
            Ok((BrokerAnswer::Removed, Vec::new()))
        }
        BrokerOrder::Keep => {
            std::mem::take(&mut names.published).keep();
            Ok((BrokerAnswer::Kept, Vec::new()))
        }
        BrokerOrder::RemoveSocket(addr) => {
            if let Some(addr) = addr.unix().filter(|addr| names.sockets.contains(addr)) {
                names.sockets.retain(|other| *other != addr);
                unix::remove(addr);
            }
            Ok((BrokerAnswer::Removed, Vec::new()))
        }
        BrokerOrder::RemoveControl => {
            if let Some(control) = knowledge.control {
                control.remove_name();
            }
            Ok((BrokerAnswer::Removed, Vec::new()))
        }
        BrokerOrder::RemoveFolder => {
            if let Some(folder) = knowledge.folder {
                fs::remove_dir_all(folder)?;
            }
            Ok((BrokerAnswer::Removed, Vec::new()))
        }
    }
}

fn listen(
    addrs: &[ListenAddr],
    ours: &[ListenAddr],
    knowledge: &Knowledge<'_>,
    names: &mut ConfiguredNames,
) -> io::Result<(BrokerAnswer, Vec<OwnedFd>)> {
    let Knowledge { options, balancing, .. } = knowledge;
    // The server may be captured, and then name another server's socket.
    let ours: Vec<_> = ours.iter().copied().filter(|addr| names.has_bound(addr)).collect();
    let (bound, pending) = bind_all(addrs, &options.cpus, balancing, &ours).map_err(io::Error::other)?;
    names.pending = pending;
    names.tcp.extend(bound.iter().filter_map(|listening| listening.addr.tcp()));
    let (mut all, mut descriptors) = (Vec::new(), Vec::new());
    for listening in bound {
        let count = listening.sockets.len();
        descriptors.extend(listening.sockets);
        let group = listening.addr.tcp().and_then(|_| balancing.group());
        let chooser = group.map(|group| match group {
            Ok(group) => {
                descriptors.extend(group.into_parts());
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        });
        let (asked, addr) = (listening.asked, listening.addr);
        all.push(BoundAddress { asked, addr, sockets: count, chooser });
    }
    Ok((BrokerAnswer::Listening(all), descriptors))
}

/// The logs and addresses that the configuration names.
struct ConfiguredNames {
    logs: ConfiguredLogs,
    listen: Vec<ListenAddr>,
    /// Unix sockets, as bound, whose files the server may have removed.
    sockets: Vec<UnixAddr>,
    /// TCP addresses, as bound, on which the server listens or has listened.
    tcp: HashSet<SocketAddr>,
    /// The unix sockets of the last order to listen, which have no paths yet.
    pending: Unpublished,
    /// The names that the start published, until the server serves.
    published: Published,
    /// The fingerprint of the text that was read last, if the file was read.
    read: Option<u64>,
}

/// The addresses that the configuration file names now. The paths of its logs come in a file.
#[derive(Serialize, Deserialize)]
struct Reread {
    listen: Vec<ListenAddr>,
    rotation: Option<Rotation>,
    /// The fingerprint of the text.
    read: u64,
}

impl ConfiguredNames {
    fn of_start(knowledge: &Knowledge<'_>) -> Self {
        let options = knowledge.options;
        let sockets = knowledge.sockets.clone();
        let (logs, listen) = (ConfiguredLogs::of(options), options.listen.clone());
        let (pending, published) = (Unpublished::default(), knowledge.take_published());
        let tcp = knowledge.listening.iter().filter_map(ListenAddr::tcp).collect();
        Self { logs, listen, sockets, tcp, pending, published, read: None }
    }

    /// Whether this server or this broker has bound the address.
    fn has_bound(&self, addr: &ListenAddr) -> bool {
        match addr {
            ListenAddr::Tcp(addr) => self.tcp.contains(addr),
            ListenAddr::Unix(addr) => self.sockets.contains(addr),
        }
    }

    /// New sockets have their paths, in place of former sockets.
    fn note_published(&mut self, new: Vec<UnixAddr>) {
        self.sockets.retain(|former| new.iter().all(|new| new.path() != former.path()));
        self.sockets.extend(new);
    }

    /// Checks whether a log or address is named. If not, reads the file again and repeats the
    /// check.
    fn judge(
        &mut self,
        options: &ServeOptions,
        is_named: impl Fn(&Self) -> bool,
        what: impl Fn() -> String,
    ) -> io::Result<()> {
        if is_named(self) {
            return Ok(());
        }
        let unnamed = || io::Error::other(format!("the configuration does not name {}", what()));
        if options.file.is_none() {
            log_line(format_args!(
                "the broker refuses to open {}, which the command line does not name",
                what()
            ));
            return Err(unnamed());
        }
        // Also with the same text, because the name of an address may have moved.
        self.reread(options, None)?;
        if is_named(self) { Ok(()) } else { Err(unnamed()) }
    }

    /// Takes the names in the file, if there is a file and its text has another fingerprint than
    /// `known`.
    fn reread(&mut self, options: &ServeOptions, known: Option<u64>) -> io::Result<()> {
        let Some(file) = &options.file else { return Ok(()) };
        if let Some((reread, logs)) = reread(file, options, known)? {
            self.listen = reread.listen;
            self.logs.learn(&logs, reread.rotation);
            self.read = Some(reread.read);
        }
        Ok(())
    }
}

/// Reads the file in a separate process, because the memory is freed with that process. The paths
/// of logs come back in a file without a name, because a message has no room for the logs of a
/// hundred thousand hosts. `None` if the text has the fingerprint `known`.
fn reread(file: &Path, options: &ServeOptions, known: Option<u64>) -> io::Result<Option<(Reread, Vec<u8>)>> {
    let (child, socket) = fork_beside(c"vermeil-reread", &[], |socket| {
        // If this fails, the broker sees that the process ended without an answer.
        let _ = answer(&Messages::new(socket), file, options, known);
    })
    .map_err(io::Error::other)?;
    let heard = Messages::new(socket)
        .receive::<Result<Option<Reread>, String>>(Some(Instant::now() + READ_PATIENCE))
        .and_then(|heard| heard.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()));
    child.end();
    let (reread, descriptors) = heard?;
    let Some(reread) = reread.map_err(io::Error::other)? else { return Ok(None) };
    let mut logs = Vec::new();
    let list = File::from(descriptors.into_iter().next().ok_or(io::ErrorKind::UnexpectedEof)?);
    list.take(LOG_PATHS_BYTES_MAX).read_to_end(&mut logs)?;
    Ok(Some((reread, logs)))
}

fn answer(to: &Messages, file: &Path, options: &ServeOptions, known: Option<u64>) -> io::Result<()> {
    match read(file, options, known) {
        Ok(Some((new, read))) => {
            let mut list = File::from(memfd_create(c"logs", MemfdFlags::CLOEXEC)?);
            list.write_all(&ConfiguredLogs::listed(&new))?;
            list.rewind()?;
            let reread = Reread { listen: new.listen, rotation: new.log.rotation, read };
            to.send(&Ok::<_, String>(Some(reread)), &[list.as_fd()])
        }
        Ok(None) => to.send(&Ok::<Option<Reread>, String>(None), &[]),
        Err(why) => to.send(&Err::<Option<Reread>, _>(why), &[]),
    }
}

/// The options of the file, and the fingerprint of its text. `None` if that is `known`.
fn read(
    file: &Path,
    options: &ServeOptions,
    known: Option<u64>,
) -> Result<Option<(ServeOptions, u64)>, String> {
    let in_short = |error: ConfigError| {
        let mut why = error.to_string();
        why.truncate(why.floor_char_boundary(REASON_BYTES_MAX));
        why
    };
    let text = vermeil_config::text_of(file).map_err(in_short)?;
    let read = text.fingerprint();
    if known == Some(read) {
        return Ok(None);
    }
    let around = Surroundings::here().map_err(|error| error.to_string())?;
    // The cpus of an instance are decided already, and nothing here depends on them.
    let around = Surroundings { given: GivenParts::Instances(options.instances.clone()), ..around };
    let new = vermeil_config::take(file, &text, &around).map_err(in_short)?;
    Ok(Some((new, read)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: each reload to another log read the whole configuration once more than needed.
    #[test]
    fn known_text_is_not_taken_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("vermeil.toml");
        let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[host]]\nroot = \"/\"\n";
        fs::write(&file, text).expect("written");
        let around = Surroundings::here().expect("this machine has cpus");
        let options = vermeil_config::load(&file, &around).expect("a configuration");
        let reread = |known| {
            let (mut ours, theirs) = Messages::pair().expect("a pair");
            answer(&Messages::new(theirs), &file, &options, known).expect("there is room");
            let heard = ours.receive::<Result<Option<Reread>, String>>(None).expect("a message");
            let (reread, _logs) = heard.expect("a message");
            reread.expect("a configuration").map(|reread| reread.read)
        };
        let first = reread(None);
        assert!(first.is_some());
        assert_eq!(reread(first), None);
        fs::write(&file, format!("{text}# changed\n")).expect("written");
        assert!(reread(first).is_some_and(|changed| Some(changed) != first));
    }
}
