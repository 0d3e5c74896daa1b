//! Numbers, texts and lists as bytes, for messages between processes that were forked from one
//! binary.
//!
//! Byte order is the machine's own. The reader checks every byte, because messages of the server
//! are not trusted. Tested in `profile.rs`, `reply.rs` and `request.rs`.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A message that violates the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedMessage;

#[derive(Default)]
pub(crate) struct WireWriter(Vec<u8>);

impl WireWriter {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("shorter than a message"));
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    pub(crate) fn paths(&mut self, paths: &[PathBuf]) {
        self.list(paths, |to, path| to.path(path));
    }

    pub(crate) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.u32(u32::try_from(items.len()).expect("shorter than a message"));
        for item in items {
            write(self, item);
        }
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }
}

pub(crate) struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes that were not read.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], MalformedMessage> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(MalformedMessage)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, MalformedMessage> {
        self.take().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MalformedMessage> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, MalformedMessage> {
        self.take().map(u64::from_ne_bytes)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], MalformedMessage> {
        let length = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(MalformedMessage)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn path(&mut self) -> Result<PathBuf, MalformedMessage> {
        Ok(OsStr::from_bytes(self.bytes()?).into())
    }

    pub(crate) fn paths(&mut self) -> Result<Vec<PathBuf>, MalformedMessage> {
        self.list(Self::path)
    }

    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, MalformedMessage>,
    ) -> Result<Vec<T>, MalformedMessage> {
        (0..self.u32()?).map(|_| read(self)).collect()
    }

    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, MalformedMessage>,
    ) -> Result<Option<T>, MalformedMessage> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(MalformedMessage),
        }
    }
}
