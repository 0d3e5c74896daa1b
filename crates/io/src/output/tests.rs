//! The superuser against a user that plants links, with real files. Passes without a check for
//! other users, whose rights the kernel bounds.

use super::*;
use std::{
    fs::{self, Permissions},
    io::Read as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::PathBuf,
};
use tempfile::TempDir;

/// The user that plants links.
const THEM: u32 = 65_534;
const THEIRS: FileOwner = FileOwner { uid: THEM, gid: THEM };

/// A folder of the superuser, and in it a folder of another user, one for all users, and a file
/// with a secret.
struct OutputWorld {
    top: TempDir,
}

impl OutputWorld {
    /// Nothing if this process is not the superuser's.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: only the superuser's rights can be abused");
            return None;
        }
        let top = tempfile::tempdir().expect("a folder");
        let world = Self { top };
        for (name, mode) in [("safe", 0o755), ("theirs", 0o755), ("sticky", 0o1777), ("everybody", 0o777)] {
            fs::create_dir(world.at(name)).expect("made");
            fs::set_permissions(world.at(name), Permissions::from_mode(mode)).expect("set");
        }
        chown(world.at("theirs"), Some(THEM), Some(THEM)).expect("given");
        fs::write(world.at("safe/secret"), "secret").expect("written");
        fs::set_permissions(world.at("safe/secret"), Permissions::from_mode(0o600)).expect("set");
        Some(world)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.path().join(path)
    }

    /// A link of the other user.
    fn their_link(&self, target: &str, link: &str) {
        symlink(self.at(target), self.at(link)).expect("linked");
        std::os::unix::fs::lchown(self.at(link), Some(THEM), Some(THEM)).expect("given");
    }

    fn secret_is_untouched(&self) {
        let found = fs::metadata(self.at("safe/secret")).expect("there");
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600));
        assert_eq!(fs::read_to_string(self.at("safe/secret")).expect("read"), "secret");
        assert!(!self.at("safe/new").exists(), "a file was made in the superuser's folder");
    }
}

fn refusal(result: io::Result<File>) -> String {
    let error = result.expect_err("refused");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    error.to_string()
}

#[test]
fn planted_links_are_refused() {
    let Some(world) = OutputWorld::new() else { return };
    for folder in ["theirs", "sticky", "everybody"] {
        let file = format!("{folder}/file");
        for how in [Output::append(), Output::replace(), Output::append().owned_by(Some(THEIRS))] {
            world.their_link("safe/secret", &file);
            let said = refusal(how.open(&world.at(&file)));
            assert!(said.contains("is a symbolic link") && said.contains(folder), "{said}");
            fs::remove_file(world.at(&file)).expect("removed");

            world.their_link("safe/new", &file);
            refusal(how.open(&world.at(&file)));
            fs::remove_file(world.at(&file)).expect("removed");

            fs::hard_link(world.at("safe/secret"), world.at(&file)).expect("linked");
            let said = refusal(how.open(&world.at(&file)));
            assert!(said.contains("hard links"), "{said}");
            fs::remove_file(world.at(&file)).expect("removed");

            world.their_link("safe", &format!("{folder}/way"));
            for name in ["secret", "new"] {
                refusal(how.open(&world.at(&format!("{folder}/way/{name}"))));
            }
            refusal(
                NameInFolder::find(&world.at(&format!("{folder}/way/new"))).map(|place| place.folder.into()),
            );
            fs::remove_file(world.at(&format!("{folder}/way"))).expect("removed");
            world.secret_is_untouched();
        }
    }
}

#[test]
fn links_below_their_folder_are_refused() {
    let Some(world) = OutputWorld::new() else { return };
    // The folder itself is the superuser's, but its parent's owner may have moved it there.
    fs::create_dir(world.at("theirs/deep")).expect("made");
    symlink(world.at("safe/secret"), world.at("theirs/deep/file")).expect("linked");
    refusal(Output::append().open(&world.at("theirs/deep/file")));
    let said = refusal(Output::append().open(&world.at("theirs/deep/../file")));
    assert!(said.contains(".."), "{said}");
    world.secret_is_untouched();
}

#[test]
fn links_of_the_superuser_are_followed() {
    let Some(world) = OutputWorld::new() else { return };
    symlink("secret", world.at("safe/link")).expect("linked");
    symlink(world.at("safe"), world.at("way")).expect("linked");
    symlink(world.at("safe/made"), world.at("dangling")).expect("linked");
    for path in ["safe/link", "way/link", "safe/../way/../way/secret", "dangling"] {
        Output::append().open(&world.at(path)).expect(path).write_all(b"+").expect("written");
    }
    assert_eq!(fs::read_to_string(world.at("safe/secret")).expect("read"), "secret+++");
    assert_eq!(fs::read_to_string(world.at("safe/made")).expect("read"), "+");
    symlink(world.at("loop"), world.at("loop")).expect("linked");
    let errno = Output::append().open(&world.at("loop")).expect_err("a loop").raw_os_error();
    assert_eq!(errno, Some(Errno::LOOP.raw_os_error()));
}

#[test]
fn only_new_files_change_owner() {
    let Some(world) = OutputWorld::new() else { return };
    let owner_of = |path: &str| fs::metadata(world.at(path)).expect("there").uid();
    for folder in ["safe", "theirs", "sticky"] {
        let file = format!("{folder}/file");
        let open = || Output::append().owned_by(Some(THEIRS)).open(&world.at(&file));
        open().expect("made");
        assert_eq!(owner_of(&file), THEM, "{file}");
        open().expect("opened again");
        chown(world.at(&file), Some(0), Some(0)).expect("taken back");
        open().expect("opened");
        assert_eq!(owner_of(&file), 0, "{file}");
    }
    let stranger = world.at("sticky/file");
    chown(&stranger, Some(THEM - 1), None).expect("given");
    let said = refusal(Output::append().owned_by(Some(THEIRS)).open(&stranger));
    assert!(said.contains("belongs to user 65533"), "{said}");
}

#[test]
fn content_is_replaced_or_kept() {
    let top = tempfile::tempdir().expect("a folder");
    let path = top.path().join("file");
    write(&path, "long text").expect("written");
    write(&path, "text").expect("written");
    Output::append().open(&path).expect("opened").write_all(b"!").expect("written");
    assert_eq!(fs::read_to_string(&path).expect("read"), "text!");
    let place = NameInFolder::find(&path).expect("found");
    assert_eq!(fs::read_to_string(place.way()).expect("read"), "text!");
    let other = NameInFolder::find(&top.path().join("other")).expect("found");
    place.rename(&other).and_then(|()| other.sync_folder()).and_then(|()| other.remove()).expect("done");
    assert_eq!(fs::read_dir(top.path()).expect("listed").count(), 0);
    let missing = Output::append().open(&top.path().join("no/file")).expect_err("no folder");
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    for folder in ["", "/", "..", "."] {
        assert!(Output::append().open(&top.path().join(folder)).is_err(), "{folder:?}");
    }
}

#[test]
fn streams_of_the_process_are_opened() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer)));
    Output::append().open(&path).expect("opened").write_all(b"line").expect("written");
    drop(writer);
    let mut read = String::new();
    reader.read_to_string(&mut read).expect("read");
    assert_eq!(read, "line");
    Output::append().open(Path::new("/dev/null")).expect("opened");
}

#[test]
fn folders_are_made_beneath_open_folder() {
    let Some(world) = OutputWorld::new() else { return };
    make_folders(&world.at("safe/a/b")).expect("made");
    make_folders(&world.at("safe/a/b")).expect("there");
    assert!(world.at("safe/a/b").is_dir());
    world.their_link("safe", "theirs/way");
    let error = make_folders(&world.at("theirs/way/new")).expect_err("a link");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    let place = NameInFolder::find(&world.at("theirs/made")).expect("found");
    place.make_folder(0o710, Some(THEIRS)).expect("made");
    let found = fs::metadata(world.at("theirs/made")).expect("there");
    assert_eq!((found.uid(), found.mode() & 0o7777), (THEM, 0o710));
    world.secret_is_untouched();
}
