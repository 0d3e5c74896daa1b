//! Users by name: numbers and groups from the system's user database.
//!
//! The server looks up the user once, when a profile is made. Tested below.

#![allow(unsafe_code)]

use crate::profile::Identity;
use std::{
    ffi::{CStr, CString},
    io, mem, ptr,
};
use thiserror::Error;

/// Bytes for the strings of an entry. A longer entry is read again with twice as much, up to the
/// maximum.
const ENTRY_BYTES: usize = 4096;
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Groups of a user; Linux allows as many (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

/// A user could not be found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UserError {
    /// There is no user of this name.
    #[error("cannot find user {0}: the system knows none of this name; `getent passwd` lists them")]
    Unknown(String),
    /// There is no group of this name.
    #[error("cannot find group {0}: the system knows none of this name; `getent group` lists them")]
    UnknownGroup(String),
    /// The system could not answer.
    #[error("cannot find user {name}: {source}")]
    System {
        /// The name.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl Identity {
    /// The user of this name, with its groups.
    ///
    /// # Errors
    ///
    /// When there is no such user, or the user database cannot be read.
    pub fn of_user(name: &str) -> Result<Self, UserError> {
        let failed = |source| UserError::System { name: name.to_owned(), source };
        let unknown = || UserError::Unknown(name.to_owned());
        let text = CString::new(name).map_err(|_| unknown())?;
        let (uid, gid) = entry(&text).map_err(failed)?.ok_or_else(unknown)?;
        let groups = groups(&text, gid).map_err(failed)?;
        Ok(Self { uid, gid, groups })
    }
}

impl Identity {
    /// The same user with another primary group, by name; the supplementary groups stay.
    ///
    /// # Errors
    ///
    /// When there is no such group, or the database cannot be read.
    pub fn in_group(self, name: &str) -> Result<Self, UserError> {
        let unknown = || UserError::UnknownGroup(name.to_owned());
        let text = CString::new(name).map_err(|_| unknown())?;
        let gid = group_entry(&text)
            .map_err(|source| UserError::System { name: name.to_owned(), source })?
            .ok_or_else(unknown)?;
        let first = self.gid;
        let groups = self.groups.into_iter().map(|group| if group == first { gid } else { group });
        Ok(Self { gid, groups: groups.collect(), ..self })
    }
}

/// The name of the user with this number, or the number itself if the database has no name: for
/// messages.
pub fn user_name(uid: u32) -> String {
    let mut bytes = ENTRY_BYTES;
    loop {
        let mut strings = vec![0; bytes];
        // SAFETY: all zeroes is a valid value of the type.
        let mut entry: libc::passwd = unsafe { mem::zeroed() };
        let mut found = ptr::null_mut();
        // SAFETY: all buffers are local and writable, with the given length.
        let error =
            unsafe { libc::getpwuid_r(uid, &raw mut entry, strings.as_mut_ptr(), bytes, &raw mut found) };
        match error {
            0 if !found.is_null() => {
                // SAFETY: the call has pointed the field at a string in `strings`, which ends with
                // a zero byte.
                return unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned();
            }
            libc::ERANGE if bytes < ENTRY_BYTES_MAX => bytes *= 2,
            _ => return uid.to_string(),
        }
    }
}

fn group_entry(name: &CStr) -> io::Result<Option<u32>> {
    let mut bytes = ENTRY_BYTES;
    loop {
        let mut strings = vec![0; bytes];
        // SAFETY: all zeroes is a valid value of the type.
        let mut entry: libc::group = unsafe { mem::zeroed() };
        let mut found = ptr::null_mut();
        // SAFETY: the name ends with a zero byte; all buffers are local and writable, with the
        // given length.
        let error = unsafe {
            libc::getgrnam_r(name.as_ptr(), &raw mut entry, strings.as_mut_ptr(), bytes, &raw mut found)
        };
        match error {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some(entry.gr_gid)),
            libc::ERANGE if bytes < ENTRY_BYTES_MAX => bytes *= 2,
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn entry(name: &CStr) -> io::Result<Option<(u32, u32)>> {
    let mut bytes = ENTRY_BYTES;
    loop {
        let mut strings = vec![0; bytes];
        // SAFETY: all zeroes is a valid value of the type.
        let mut entry: libc::passwd = unsafe { mem::zeroed() };
        let mut found = ptr::null_mut();
        // SAFETY: the name ends with a zero byte; all buffers are local and writable, with the
        // given length.
        let error = unsafe {
            libc::getpwnam_r(name.as_ptr(), &raw mut entry, strings.as_mut_ptr(), bytes, &raw mut found)
        };
        match error {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some((entry.pw_uid, entry.pw_gid))),
            libc::ERANGE if bytes < ENTRY_BYTES_MAX => bytes *= 2,
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = i32::try_from(groups.len()).expect("at most 65,536");
        // SAFETY: the name ends with a zero byte; the call writes at most `count` groups, which
        // have room.
        let listed = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let needed = usize::try_from(count).unwrap_or(0);
        if listed >= 0 {
            groups.truncate(needed);
            return Ok(groups);
        }
        if needed <= groups.len() || needed > GROUPS_MAX {
            return Err(io::Error::other("its groups cannot be listed"));
        }
        groups.resize(needed, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_group_takes_the_first_ones_place() {
        let root = Identity::of_user("root").expect("every system has one");
        let daemon = root.in_group("daemon").expect("most systems have it");
        assert!(
            daemon.gid != 0 && daemon.groups.contains(&daemon.gid) && !daemon.groups.contains(&0),
            "{daemon:?}"
        );
    }

    #[test]
    fn numbers_have_names() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_000), "4000000000");
    }

    #[test]
    fn the_superuser_is_known_and_others_are_not() {
        let root = Identity::of_user("root").expect("every system has one");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(root.clone().in_group("root").unwrap(), root);
        assert!(matches!(root.in_group("no such group"), Err(UserError::UnknownGroup(_))));
        for unknown in ["no such user", "", "ro\0ot"] {
            assert!(matches!(Identity::of_user(unknown), Err(UserError::Unknown(_))), "{unknown:?}");
        }
    }
}
