//! A disk that answers each read after a fixed time, for the bench of files that are not in memory.
//!
//! A thread serves a FUSE file system with a single file, the image of the disk, and answers each
//! read late. A loop device with direct I/O makes the file a disk that serves many reads at once,
//! and the kernel mounts its ext4 read-only. The files, their metadata and the page cache are those
//! of any disk. Needs root, `mkfs.ext4`, `losetup` and `mount`. The protocol is in `linux/fuse.h`;
//! the thread knows only the messages that a loop device causes. Tested by the smoke size of bench
//! `tail`.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Advice;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::thread::{CpuSet, sched_setaffinity};
use tempfile::TempDir;

use crate::network::run;
use crate::{BenchError, BenchResult};

/// The device on which the kernel asks.
const FUSE: &str = "/dev/fuse";
/// The name of the image in the FUSE file system.
const IMAGE: &str = "image";
/// Room of a disk for the file system itself, in bytes.
const ROOM_BYTES: u64 = 16 << 20;
/// Room of a small file in an image: its content and its share of folders and inodes, in bytes.
const FILE_ROOM_BYTES: u64 = 2 * 4096;

/// The longest message of the kernel is a request to write, which a read-only file does not get.
const MESSAGE_BYTES: usize = 128 * 1024;
const HEAD_BYTES: usize = 40;
const ROOT: u64 = 1;
const FILE: u64 = 2;
/// Seconds for which the kernel keeps names and attributes.
const KEPT_S: u64 = 3600;

/// Numbers of messages.
mod message {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
}

/// A mounted slow disk. Dropping the disk unmounts it.
#[derive(Debug)]
pub(crate) struct SlowDisk {
    /// With the image and both mount points.
    folder: TempDir,
    device: Option<String>,
}

impl SlowDisk {
    /// Makes a disk with the `files` files below `content`, and mounts it. Each read takes
    /// `delay`. The work of the disk is done on `cpu`.
    ///
    /// # Errors
    /// This user may not mount, or a program is missing.
    pub(crate) fn new(content: &Path, files: usize, (delay, cpu): (Duration, usize)) -> BenchResult<Self> {
        let folder = tempfile::tempdir().map_err(BenchError::thing("make", "a temporary folder"))?;
        let mut disk = Self { folder, device: None };
        for at in [disk.fuse(), disk.root()] {
            fs::create_dir(&at).map_err(BenchError::path("make", &at))?;
        }
        // The servers give up root and must be able to look inside.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        let path = disk.folder.path();
        fs::set_permissions(path, open).map_err(BenchError::path("open", path))?;
        let image = path.join(IMAGE);
        let bytes = ROOM_BYTES + files as u64 * FILE_ROOM_BYTES;
        let made = File::create(&image).and_then(|file| file.set_len(bytes));
        made.map_err(BenchError::path("make", &image))?;
        // Without a journal, because the mount is read-only.
        run(Command::new("mkfs.ext4")
            .args(["-q", "-O", "^has_journal", "-i", "4096", "-d"])
            .arg(content)
            .arg(&image))?;
        serve(&image, &disk.fuse(), (delay, cpu))?;
        let attached = Command::new("losetup")
            .args(["--show", "--find", "--read-only", "--direct-io=on"])
            .arg(disk.fuse().join(IMAGE))
            .output()
            .map_err(BenchError::thing("run", "losetup"))?;
        let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        if device.is_empty() {
            let said = String::from_utf8_lossy(&attached.stderr).into_owned();
            return Err(BenchError::form("losetup", said));
        }
        disk.device = Some(device.clone());
        run(Command::new("mount").args(["-o", "ro", &device]).arg(disk.root()))?;
        Ok(disk)
    }

    fn fuse(&self) -> PathBuf {
        self.folder.path().join("fuse")
    }

    /// The folder with the content of the disk.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Reads `files` below the root.
    pub(crate) fn read(&self, files: &[String]) -> BenchResult<()> {
        files.iter().try_for_each(|name| {
            let path = self.root().join(name);
            fs::read(&path).map(drop).map_err(BenchError::path("read", &path))
        })
    }

    /// Takes the contents of `files` below the root out of memory, and leaves their metadata there.
    pub(crate) fn forget(&self, files: impl Iterator<Item = String>) -> BenchResult<()> {
        for name in files {
            let path = self.root().join(name);
            let file = File::open(&path).map_err(BenchError::path("open", &path))?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
                .map_err(|error| BenchError::path("forget", &path)(error.into()))?;
        }
        Ok(())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // As far as the disk was made. A leftover shows in `findmnt` and `losetup`.
        let _ = unmount(self.root(), UnmountFlags::DETACH);
        if let Some(device) = &self.device {
            let _ = run(Command::new("losetup").args(["--detach", device]));
        }
        let _ = unmount(self.fuse(), UnmountFlags::DETACH);
    }
}

/// Serves the file `image` below `at` until the file system is unmounted.
fn serve(image: &Path, at: &Path, (delay, cpu): (Duration, usize)) -> BenchResult<()> {
    let image = File::open(image).map_err(BenchError::path("open", image))?;
    let bytes = image.metadata().map_err(BenchError::thing("look at", "an image"))?.len();
    let device = File::options().read(true).write(true).open(FUSE);
    let device = device.map_err(BenchError::thing("open", FUSE))?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = std::ffi::CString::new(options).expect("text without a zero");
    mount("slow disk", at, "fuse", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))
        .map_err(|error| BenchError::path("mount", at)(error.into()))?;
    let reads = Arc::new(LateReads { queue: Mutex::default(), more: Condvar::new(), image, delay });
    let answers = device.try_clone().map_err(BenchError::thing("share", FUSE))?;
    let late = reads.clone();
    thread::spawn(move || {
        run_on(cpu);
        late.answer(&answers);
    });
    thread::spawn(move || {
        run_on(cpu);
        answer_all(&device, bytes, &reads);
        reads.push(None);
    });
    Ok(())
}

/// Leaves the other cpus to the server.
fn run_on(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    // Anywhere else the disk is the same, and the server has less of its cpu.
    let _ = sched_setaffinity(None, &cpus);
}

/// Answers everything but reads at once, until the file system is gone.
fn answer_all(mut device: &File, bytes: u64, reads: &LateReads) {
    let mut buffer = vec![0; MESSAGE_BYTES];
    loop {
        let length = match device.read(&mut buffer) {
            Ok(length) if length >= HEAD_BYTES => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            // The kernel took the message back.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
            Ok(_) | Err(_) => return,
        };
        let (head, body) = buffer[..length].split_at(HEAD_BYTES);
        let (kind, id, node) = (number(&head[4..8]) as u32, number(&head[8..16]), number(&head[16..24]));
        let answer = match kind {
            message::INIT => Ok(initial(body)),
            message::LOOKUP if body.starts_with(IMAGE.as_bytes()) => Ok(entry(bytes)),
            message::LOOKUP => Err(libc::ENOENT),
            message::GETATTR => Ok(attributes(node, bytes)),
            // `FOPEN_DIRECT_IO`: the kernel keeps no copy, so each read comes here.
            message::OPEN => Ok(words(&[0, 1])),
            message::READ => {
                let (offset, count) = (number(&body[8..16]), number(&body[16..20]) as usize);
                reads.push(Some(LateRead { due: Instant::now() + reads.delay, id, offset, count }));
                continue;
            }
            message::FORGET | message::BATCH_FORGET | message::INTERRUPT => continue,
            message::FLUSH | message::RELEASE | message::FSYNC => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        };
        send(device, id, answer);
    }
}

/// The number in the bytes of a message.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The answer to the first message: `fuse_init_out`.
fn initial(asked: &[u8]) -> Vec<u8> {
    /// Asynchronous reads, long messages, and asynchronous direct I/O.
    const FLAGS: u64 = 1 | 1 << 5 | 1 << 15;
    const VERSION: u64 = 7 | 31 << 32;
    const IN_FLIGHT: u64 = 1024 | 1024 << 16;
    const WRITE_BYTES: u64 = MESSAGE_BYTES as u64 / 2;
    let ahead = number(&asked[8..12]);
    words(&[VERSION, ahead | FLAGS << 32, IN_FLIGHT | WRITE_BYTES << 32, 1, 0, 0, 0, 0])
}

/// A `fuse_attr` of the folder, or of the file with `bytes`.
fn attr(node: u64, bytes: u64) -> Vec<u8> {
    let (mode, bytes) = if node == ROOT { (0o040_755_u64, 0) } else { (0o100_600, bytes) };
    // inode, size, blocks, three times, their nanoseconds, mode and links, owner, device and block.
    words(&[node, bytes, bytes / 512, 0, 0, 0, 0, mode << 32, 1, 0, 4096])
}

/// `fuse_attr_out`.
fn attributes(node: u64, bytes: u64) -> Vec<u8> {
    [words(&[KEPT_S, 0]), attr(node, bytes)].concat()
}

/// `fuse_entry_out` of the file.
fn entry(bytes: u64) -> Vec<u8> {
    [words(&[FILE, 0, KEPT_S, KEPT_S, 0]), attr(FILE, bytes)].concat()
}

fn send(mut device: &File, id: u64, answer: Result<Vec<u8>, i32>) {
    let (errno, content) = match answer {
        Ok(content) => (0, content),
        Err(errno) => (-errno, Vec::new()),
    };
    let mut message = Vec::with_capacity(16 + content.len());
    message.extend_from_slice(&(16 + content.len() as u32).to_le_bytes());
    message.extend_from_slice(&errno.to_le_bytes());
    message.extend_from_slice(&id.to_le_bytes());
    message.extend_from_slice(&content);
    // The kernel no longer waits for an answer that was interrupted.
    let _ = device.write_all(&message);
}

/// A read that is answered later.
struct LateRead {
    due: Instant,
    id: u64,
    offset: u64,
    count: usize,
}

/// All reads that are not answered yet, the oldest first.
struct LateReads {
    /// `None` ends the answers.
    queue: Mutex<VecDeque<Option<LateRead>>>,
    more: Condvar,
    image: File,
    delay: Duration,
}

impl LateReads {
    fn push(&self, read: Option<LateRead>) {
        self.queue.lock().expect("nothing panics under this lock").push_back(read);
        self.more.notify_one();
    }

    /// Answers each read when its time has come.
    fn answer(&self, device: &File) {
        loop {
            let mut queue = self.queue.lock().expect("nothing panics under this lock");
            let next = loop {
                match queue.pop_front() {
                    Some(next) => break next,
                    None => queue = self.more.wait(queue).expect("nothing panics under this lock"),
                }
            };
            drop(queue);
            let Some(LateRead { due, id, offset, count }) = next else { return };
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let mut content = vec![0; count];
            let read = self.image.read_at(&mut content, offset);
            let answer = read.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO));
            send(device, id, answer.map(|read| content[..read].to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the right to mount.
    #[test]
    fn slow_disk_has_the_files_whether_in_memory_or_not() {
        let content = tempfile::tempdir().unwrap();
        let names = ["page".to_owned(), "folder/page".to_owned()];
        fs::create_dir(content.path().join("folder")).unwrap();
        for name in &names {
            fs::write(content.path().join(name), name).unwrap();
        }
        let disk = match SlowDisk::new(content.path(), names.len(), (Duration::from_millis(1), 0)) {
            Ok(disk) => disk,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        for _ in 0..3 {
            disk.read(&names).unwrap();
            assert_eq!(fs::read_to_string(disk.root().join("folder/page")).unwrap(), "folder/page");
            disk.forget(names.iter().cloned()).unwrap();
        }
        let (root, device) = (disk.root(), disk.device.clone().unwrap());
        drop(disk);
        assert!(!root.exists(), "unmounted and removed");
        let devices = Command::new("losetup").args(["--list", "--noheadings", "--output", "NAME"]).output();
        let devices = String::from_utf8(devices.unwrap().stdout).unwrap();
        assert!(!devices.lines().any(|line| line.trim() == device), "{device} is still in use");
    }
}
