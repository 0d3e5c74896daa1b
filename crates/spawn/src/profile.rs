//! The user and the limits of a program: the part of starting a program that is decided before a
//! server serves.
//!
//! Plain data, sent once to the keeper (`wire.rs`). Leaves out applying the profile (`child.rs`,
//! `cgroup.rs`, `confine.rs`).

use crate::wire::{MalformedMessage, WireReader, WireWriter};
use rustix::process::Resource;
use std::path::PathBuf;

/// Number of a defined [`Profile`], named by requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProfileId(pub(crate) u32);

/// The user and the limits of programs, for one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The folder below which programs stand, absolute.
    pub root: PathBuf,
    /// Programs elsewhere that may be started too, absolute, such as interpreters. Named by their
    /// position.
    pub listed: Vec<PathBuf>,
    /// The user that programs run as. Without an identity programs run as the spawner's user, which
    /// is refused to the superuser.
    pub identity: Option<Identity>,
    /// Bounds the kernel enforces for each process.
    pub limits: ResourceLimits,
    /// The cgroup programs are born in.
    pub cgroup: Option<Cgroup>,
    /// Whether programs may gain privileges by executing others.
    pub new_privileges: NewPrivileges,
    /// The part of the file system that programs reach, if access is bounded.
    pub confinement: Option<Confinement>,
    /// Permissions that files made by programs lack. Default 0o022, as in suexec.
    pub umask: u32,
    /// Whether descriptor 3 is standard input too. php-fpm replaces its standard input before
    /// php-fpm looks for its inherited socket. Default: no.
    pub input_at_3: bool,
    /// Whether the program ends its children when it gets SIGTERM, as the first process of a PHP
    /// pool does. Such a program gets SIGTERM if the spawner dies, and others get SIGKILL, of which
    /// their children learn nothing. Default: no.
    pub ends_children: bool,
}

impl Profile {
    /// Programs below `root`, as the user of the defining process, with default bounds.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            listed: Vec::new(),
            identity: None,
            limits: ResourceLimits::default(),
            cgroup: None,
            new_privileges: NewPrivileges::Refused,
            confinement: None,
            umask: 0o022,
            input_at_3: false,
            ends_children: false,
        }
    }
}

/// User and groups by number. [`Identity::of_user`] finds the numbers by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// All supplementary groups; the server's groups are dropped.
    pub groups: Vec<u32>,
}

/// Bounds of one process by `setrlimit(2)`, soft and hard alike. A limit that is `None` stays as
/// the server was started with. A bound above the server's own bound is lowered to the server's
/// bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceLimits {
    /// Bytes of address space (`RLIMIT_AS`).
    pub address_space_bytes: Option<u64>,
    /// Seconds of processor time (`RLIMIT_CPU`).
    pub cpu_seconds: Option<u64>,
    /// Bytes of the largest file that a process writes (`RLIMIT_FSIZE`).
    pub file_bytes: Option<u64>,
    /// Descriptors (`RLIMIT_NOFILE`). Default 1,024, the kernel's own, because servers raise their
    /// limit. Programs that use `select(2)`, or close all possible descriptors, should not pay for
    /// that.
    pub descriptors: Option<u64>,
    /// Processes of the user, all programs together (`RLIMIT_NPROC`).
    pub processes: Option<u64>,
    /// Bytes of a core dump (`RLIMIT_CORE`). Default 0: dumps of programs belong into no site.
    pub core_bytes: Option<u64>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            address_space_bytes: None,
            cpu_seconds: None,
            file_bytes: None,
            descriptors: Some(1024),
            processes: None,
            core_bytes: Some(0),
        }
    }
}

impl ResourceLimits {
    /// No bounds except those that the server was started with.
    pub const NONE: Self = Self {
        address_space_bytes: None,
        cpu_seconds: None,
        file_bytes: None,
        descriptors: None,
        processes: None,
        core_bytes: None,
    };

    /// These bounds; each missing bound comes from `others`.
    pub fn or(self, others: Self) -> Self {
        Self {
            address_space_bytes: self.address_space_bytes.or(others.address_space_bytes),
            cpu_seconds: self.cpu_seconds.or(others.cpu_seconds),
            file_bytes: self.file_bytes.or(others.file_bytes),
            descriptors: self.descriptors.or(others.descriptors),
            processes: self.processes.or(others.processes),
            core_bytes: self.core_bytes.or(others.core_bytes),
        }
    }

    /// The bounds in the order in which they are sent, with the kernel's names.
    pub(crate) fn each(&self) -> [(Resource, Option<u64>); 6] {
        [
            (Resource::As, self.address_space_bytes),
            (Resource::Cpu, self.cpu_seconds),
            (Resource::Fsize, self.file_bytes),
            (Resource::Nofile, self.descriptors),
            (Resource::Nproc, self.processes),
            (Resource::Core, self.core_bytes),
        ]
    }
}

/// A cgroup (version 2). The spawner makes the cgroup on first use. Its parent must exist, and must
/// have the controllers that the bounds need in its `cgroup.subtree_control`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cgroup {
    /// The folder, such as `/sys/fs/cgroup/vermeil/example.org`.
    pub folder: PathBuf,
    /// Bytes of memory, all programs together (`memory.max`).
    pub memory_bytes: Option<u64>,
    /// Processor time in thousandths of a cpu (`cpu.max`, periods of 100 ms).
    pub cpu_thousandths: Option<u32>,
    /// Processes and threads, all programs together (`pids.max`).
    pub processes: Option<u64>,
}

/// Whether programs may gain privileges by executing others (`no_new_privs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NewPrivileges {
    /// Set-user-ID programs and file capabilities give nothing.
    Refused,
    /// Set-user-ID programs and file capabilities work as from a shell, for example `sendmail` in
    /// some installations.
    Allowed,
}

/// The paths that programs reach in the file system, by Landlock; all other paths are refused. A
/// folder includes all entries below. [`NewPrivileges`] are then refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Confinement {
    /// Read and executed. Missing paths are skipped.
    pub read: Vec<PathBuf>,
    /// Read, executed, written, made and removed.
    pub write: Vec<PathBuf>,
}

impl Profile {
    pub(crate) fn write(&self, to: &mut WireWriter) {
        to.path(&self.root);
        to.paths(&self.listed);
        to.option(self.identity.as_ref(), |to, identity| {
            to.u32(identity.uid);
            to.u32(identity.gid);
            to.list(&identity.groups, |to, gid| to.u32(*gid));
        });
        for (_, limit) in self.limits.each() {
            to.option(limit, WireWriter::u64);
        }
        to.option(self.cgroup.as_ref(), |to, cgroup| {
            to.path(&cgroup.folder);
            to.option(cgroup.memory_bytes, WireWriter::u64);
            to.option(cgroup.cpu_thousandths, WireWriter::u32);
            to.option(cgroup.processes, WireWriter::u64);
        });
        to.u8(u8::from(self.new_privileges == NewPrivileges::Allowed));
        to.option(self.confinement.as_ref(), |to, confinement| {
            to.paths(&confinement.read);
            to.paths(&confinement.write);
        });
        to.u32(self.umask);
        to.u8(u8::from(self.input_at_3));
        to.u8(u8::from(self.ends_children));
    }

    pub(crate) fn read(from: &mut WireReader<'_>) -> Result<Self, MalformedMessage> {
        Ok(Self {
            root: from.path()?,
            listed: from.paths()?,
            identity: from.option(|from| {
                Ok(Identity { uid: from.u32()?, gid: from.u32()?, groups: from.list(WireReader::u32)? })
            })?,
            limits: ResourceLimits {
                address_space_bytes: from.option(WireReader::u64)?,
                cpu_seconds: from.option(WireReader::u64)?,
                file_bytes: from.option(WireReader::u64)?,
                descriptors: from.option(WireReader::u64)?,
                processes: from.option(WireReader::u64)?,
                core_bytes: from.option(WireReader::u64)?,
            },
            cgroup: from.option(|from| {
                Ok(Cgroup {
                    folder: from.path()?,
                    memory_bytes: from.option(WireReader::u64)?,
                    cpu_thousandths: from.option(WireReader::u32)?,
                    processes: from.option(WireReader::u64)?,
                })
            })?,
            new_privileges: match from.u8()? {
                0 => NewPrivileges::Refused,
                _ => NewPrivileges::Allowed,
            },
            confinement: from.option(|from| Ok(Confinement { read: from.paths()?, write: from.paths()? }))?,
            umask: from.u32()?,
            input_at_3: from.u8()? != 0,
            ends_children: from.u8()? != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_profile_arrives_unchanged() {
        let plain = Profile::new("/srv/www");
        let full = Profile {
            listed: vec!["/usr/bin/php-cgi".into(), "/bin/sh".into()],
            identity: Some(Identity { uid: 7, gid: 8, groups: vec![9, 10] }),
            limits: ResourceLimits { cpu_seconds: Some(3), core_bytes: None, ..Default::default() },
            cgroup: Some(Cgroup {
                folder: "/sys/fs/cgroup/x".into(),
                memory_bytes: Some(1 << 40),
                cpu_thousandths: Some(1500),
                processes: None,
            }),
            new_privileges: NewPrivileges::Allowed,
            confinement: Some(Confinement { read: vec!["/usr".into()], write: vec!["/tmp".into()] }),
            umask: 0o077,
            input_at_3: true,
            ends_children: true,
            ..plain.clone()
        };
        for profile in [plain, full] {
            let mut writer = WireWriter::default();
            profile.write(&mut writer);
            let bytes = writer.into_bytes();
            assert_eq!(Profile::read(&mut WireReader::new(&bytes)), Ok(profile.clone()));
            for cut in 0..bytes.len() {
                assert!(Profile::read(&mut WireReader::new(&bytes[..cut])).is_err(), "cut at {cut}");
            }
        }
    }
}
