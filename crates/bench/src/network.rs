//! The path of packets between load and server: the loopback device, or a pair of virtual cards
//! between two network namespaces.
//!
//! On loopback the kernel receives a packet on the sender's cpu, so the server's receive work is
//! charged to the load. With the pair, each side receives its packets on its cpu (RPS,
//! Documentation/networking/scaling.rst), as two machines would. Namespaces have this process's id
//! in their names; `Drop` always removes these namespaces and no others. Leaves the programs inside
//! to the callers.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::machine::BenchCpus;
use crate::{BenchError, BenchResult};

/// The server's and the load's address on the pair, from the block reserved for tests of network
/// devices (RFC 2544).
const VETH_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const VETH_CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Device names are local to their namespace, so the names need no process id.
const SERVER_DEVICE: &str = "bench-server";
const CLIENT_DEVICE: &str = "bench-client";

/// The cpus of a server and its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// On a separate cpu.
    OneCpu,
    /// On all cpus, shared with the load.
    AllCpus,
}

/// The network of servers and load.
#[derive(Debug)]
pub enum BenchNetwork {
    /// The loopback device of the current namespace.
    Loopback,
    /// A pair of virtual cards between two private namespaces.
    Veth(Veth),
}

impl BenchNetwork {
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

    /// An address with a port that is free at this moment.
    pub fn free_address(&self) -> BenchResult<SocketAddr> {
        Ok(SocketAddr::new(self.server_ip(), free_port()?))
    }

    /// As [`free_address`](Self::free_address), on the load's side.
    pub fn free_client_address(&self) -> BenchResult<SocketAddr> {
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

    /// taskset and nsenter exec the program, so in the end the process is the program's.
    fn command(&self, program: impl AsRef<OsStr>, cpu: usize, side: fn(&Veth) -> &BenchNamespace) -> Command {
        let mut command = match self {
            Self::Loopback => Command::new("taskset"),
            Self::Veth(veth) => side(veth).command("taskset"),
        };
        command.arg("-c").arg(cpu.to_string()).arg(program);
        command
    }

    /// Runs `work` on the load's side, so that connections come from there.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn from_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> BenchResult<T> {
        match self {
            Self::Loopback => Ok(work()),
            Self::Veth(veth) => veth.client.enter(work),
        }
    }
}

fn free_port() -> BenchResult<u16> {
    let found = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    Ok(found.map_err(BenchError::thing("find", "a free port"))?.port())
}

/// Two private namespaces with a pair of virtual cards between the two; removed when dropped.
#[derive(Debug)]
pub struct Veth {
    server: BenchNamespace,
    client: BenchNamespace,
}

impl Veth {
    /// Makes the pair; each side's received packets are handled on that side's cpu.
    ///
    /// # Errors
    /// A step is refused; everything made until then is removed. Needs the rights of root
    /// (CAP_NET_ADMIN and CAP_SYS_ADMIN) and the `ip` program.
    pub fn new(cpus: BenchCpus) -> BenchResult<Self> {
        let veth = Self { server: BenchNamespace::new("server")?, client: BenchNamespace::new("client")? };
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

/// A hexadecimal cpu mask in the form of sysfs: words of 32 bits, the highest first, separated by
/// commas.
fn cpu_mask(cpu: usize) -> String {
    format!("{:x}{}", 1u32 << (cpu % 32), ",00000000".repeat(cpu / 32))
}

/// A private network namespace; removed when dropped.
#[derive(Debug)]
pub(crate) struct BenchNamespace {
    name: String,
}

impl BenchNamespace {
    /// Makes a namespace.
    pub(crate) fn new(side: &str) -> BenchResult<Self> {
        let name = format!("vermeil-bench-{}-{side}", std::process::id());
        ip(["netns", "add", &name])?;
        Ok(Self { name })
    }

    /// The namespace's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// A command that will run `program` in the namespace.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }

    /// Runs `work` in the namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> BenchResult<T> {
        let path = self.path();
        let enter = || -> io::Result<T> {
            let namespace = File::open(&path)?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        // A namespace belongs to a thread, so a separate thread leaves the namespace of this thread
        // unchanged.
        let result = thread::scope(|scope| scope.spawn(enter).join());
        match result {
            Ok(value) => value.map_err(BenchError::path("enter", &path)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for BenchNamespace {
    fn drop(&mut self) {
        if let Err(error) = ip(["netns", "delete", &self.name]) {
            eprintln!("warning: a network namespace is left behind: {error}");
        }
    }
}

/// Runs `ip`.
pub(crate) fn ip<'a>(arguments: impl IntoIterator<Item = &'a str>) -> BenchResult<()> {
    run(Command::new("ip").args(arguments))
}

/// Runs a command to its end; a failure is an error with the command's output.
pub(crate) fn run(command: &mut Command) -> BenchResult<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(BenchError::thing("run", program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(BenchError::Command { command: format!("{command:?}"), output: format!("{}: {said}", output.status) })
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
        assert_eq!(BenchNetwork::Loopback.from_client(|| thread::current().id()).expect("runs"), here);
    }

    #[test]
    fn commands_are_pinned() {
        let command = BenchNetwork::Loopback.server_command("true", 3);
        assert_eq!(format!("{command:?}"), r#""taskset" "-c" "3" "true""#);
    }
}
