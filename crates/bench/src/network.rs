//! The way packets take between load and server: the loopback device, or a pair of virtual cards between two network
//! namespaces.
//!
//! On loopback the kernel receives a packet on the cpu that sent it, so the server's receive work is charged to the load.
//! The pair hands each side's received packets to that side's own cpu (RPS, Documentation/networking/scaling.rst), as
//! two machines would have it. Namespaces carry this process's id in their names; only those are removed, and always, by
//! `Drop`. Leaves what runs inside to its callers.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::machine::Cpus;
use crate::{Error, Result};

/// The server's and the load's address on the pair, from the block reserved for tests of network devices (RFC 2544).
const VETH_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const VETH_CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Device names are local to their namespace, so these need no process id.
const SERVER_DEVICE: &str = "bench-server";
const CLIENT_DEVICE: &str = "bench-client";

/// Where a server and its programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// On a cpu of their own.
    OneCpu,
    /// On all, which they share with the load.
    AllCpus,
}

/// Where servers listen and the load comes from.
#[derive(Debug)]
pub enum Network {
    /// The loopback device of the namespace we are in.
    Loopback,
    /// A pair of virtual cards between two namespaces of our own.
    Veth(Veth),
}

impl Network {
    /// The address servers listen on.
    pub fn server_ip(&self) -> IpAddr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Veth(_) => VETH_SERVER.into(),
        }
    }

    /// The address of the load's side.
    fn client_ip(&self) -> IpAddr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Veth(_) => VETH_CLIENT.into(),
        }
    }

    /// An address with a port nobody listens on at this moment.
    pub fn free_address(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(self.server_ip(), free_port()?))
    }

    /// As [`free_address`](Self::free_address), on the load's side.
    pub fn free_client_address(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(self.client_ip(), free_port()?))
    }

    /// A command that will run `program` on the server's side, pinned to `cpu`.
    pub fn server_command(&self, program: impl AsRef<OsStr>, cpu: usize) -> Command {
        self.command(program, cpu, |veth| &veth.server)
    }

    /// A command that will run `program` on the server's side, on `cpu` or on all.
    pub fn spread_command(&self, program: impl AsRef<OsStr>, cpu: usize, spread: Spread) -> Command {
        match (spread, self) {
            (Spread::OneCpu, _) => self.server_command(program, cpu),
            (Spread::AllCpus, Self::Loopback) => Command::new(program),
            (Spread::AllCpus, Self::Veth(veth)) => veth.server.command(program),
        }
    }

    /// A command that will run `program` on the load's side, pinned to `cpu`.
    pub fn client_command(&self, program: impl AsRef<OsStr>, cpu: usize) -> Command {
        self.command(program, cpu, |veth| &veth.client)
    }

    /// taskset and nsenter replace themselves by what they start, so the process is the program's own in the end.
    fn command(&self, program: impl AsRef<OsStr>, cpu: usize, side: fn(&Veth) -> &Namespace) -> Command {
        let mut command = match self {
            Self::Loopback => Command::new("taskset"),
            Self::Veth(veth) => side(veth).command("taskset"),
        };
        command.arg("-c").arg(cpu.to_string()).arg(program);
        command
    }

    /// Runs `work` where connections come from the load's side.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn from_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        match self {
            Self::Loopback => Ok(work()),
            Self::Veth(veth) => veth.client.enter(work),
        }
    }
}

fn free_port() -> Result<u16> {
    let found = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    Ok(found.map_err(Error::thing("find", "a free port"))?.port())
}

/// Two namespaces of our own with a pair of virtual cards between them; removed when dropped.
#[derive(Debug)]
pub struct Veth {
    server: Namespace,
    client: Namespace,
}

impl Veth {
    /// Makes the pair, each side's received packets handled on that side's cpu.
    ///
    /// # Errors
    /// When a step is refused; what was made until then is removed. Needs the rights of root (CAP_NET_ADMIN and
    /// CAP_SYS_ADMIN) and the `ip` program.
    pub fn new(cpus: Cpus) -> Result<Self> {
        let veth = Self { server: Namespace::new("server")?, client: Namespace::new("client")? };
        let (server, client) = (&veth.server.name, &veth.client.name);
        let pair = ["link", "add", SERVER_DEVICE, "netns", server, "type", "veth"];
        ip(pair.into_iter().chain(["peer", "name", CLIENT_DEVICE, "netns", client]))?;
        for (side, device, address, cpu) in [
            (server, SERVER_DEVICE, VETH_SERVER, cpus.server),
            (client, CLIENT_DEVICE, VETH_CLIENT, cpus.client),
        ] {
            ip(["-n", side, "address", "add", &format!("{address}/30"), "dev", device])?;
            ip(["-n", side, "link", "set", "lo", "up"])?;
            ip(["-n", side, "link", "set", device, "up"])?;
            // Within `ip netns exec` the folder /sys shows the namespace's own devices.
            let queue = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
            let write = format!("echo {} > {queue}", cpu_mask(cpu));
            ip(["netns", "exec", side, "sh", "-c", &write])?;
        }
        Ok(veth)
    }
}

/// A hexadecimal cpu mask in the form of sysfs: words of 32 bits, the highest first, separated by commas.
fn cpu_mask(cpu: usize) -> String {
    format!("{:x}{}", 1u32 << (cpu % 32), ",00000000".repeat(cpu / 32))
}

/// A network namespace of our own; removed when dropped.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one.
    pub(crate) fn new(side: &str) -> Result<Self> {
        let name = format!("vermeil-bench-{}-{side}", std::process::id());
        ip(["netns", "add", &name])?;
        Ok(Self { name })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// A command that will run `program` in it.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }

    /// Runs `work` in it.
    ///
    /// # Errors
    /// When it cannot be entered.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = self.path();
        let enter = || -> io::Result<T> {
            let namespace = File::open(&path)?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        // A namespace belongs to a thread, so a thread of its own leaves ours where it is.
        let result = thread::scope(|scope| scope.spawn(enter).join());
        match result {
            Ok(value) => value.map_err(Error::path("enter", &path)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(["netns", "delete", &self.name]) {
            eprintln!("warning: a network namespace is left behind: {error}");
        }
    }
}

/// Runs `ip`.
pub(crate) fn ip<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    run(Command::new("ip").args(arguments))
}

/// Runs a command to its end; its failure is an error with what it said.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(Error::thing("run", program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Command { command: format!("{command:?}"), output: format!("{}: {said}", output.status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_the_form_of_sysfs() {
        assert_eq!(cpu_mask(0), "1");
        assert_eq!(cpu_mask(5), "20");
        assert_eq!(cpu_mask(33), "2,00000000");
    }

    #[test]
    fn the_loopback_needs_no_thread_to_be_on() {
        let here = thread::current().id();
        assert_eq!(Network::Loopback.from_client(|| thread::current().id()).expect("runs"), here);
    }

    #[test]
    fn commands_are_pinned() {
        let command = Network::Loopback.server_command("true", 3);
        assert_eq!(format!("{command:?}"), r#""taskset" "-c" "3" "true""#);
    }
}
