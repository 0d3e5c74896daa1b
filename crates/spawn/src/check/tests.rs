//! Each rule alone, and every mode against a plain restatement of the rules.

use super::*;

const USER: u32 = 1000;

fn found(kind: FileKind, mode: u32, uid: u32) -> StatResult {
    StatResult { kind, mode, uid }
}

#[test]
fn ordinary_programs_are_started() {
    for mode in [0o755, 0o700, 0o555, 0o711, 0o500, 0o644] {
        for uid in [0, USER] {
            assert_eq!(program(found(FileKind::File, mode, uid), USER), Ok(()));
            assert_eq!(folder(found(FileKind::Folder, mode, uid), USER), Ok(()));
        }
    }
}

#[test]
fn file_writable_by_others_is_refused() {
    for mode in [0o775, 0o757, 0o777, 0o722] {
        assert_eq!(program(found(FileKind::File, mode, USER), USER), Err(ProgramRefusal::Writable { mode }));
        assert_eq!(folder(found(FileKind::Folder, mode, USER), USER), Err(ProgramRefusal::Writable { mode }));
    }
    let sticky = 0o1777;
    assert_eq!(
        folder(found(FileKind::Folder, sticky, 0), USER),
        Err(ProgramRefusal::Writable { mode: sticky }),
        "whoever may add a program may not run it as somebody else"
    );
}

#[test]
fn program_of_another_identity_is_refused() {
    for mode in [0o4755, 0o2755, 0o6755] {
        assert_eq!(program(found(FileKind::File, mode, 0), USER), Err(ProgramRefusal::SetId { mode }));
    }
    let set_group = 0o2755;
    assert_eq!(
        folder(found(FileKind::Folder, set_group, 0), USER),
        Ok(()),
        "on folders it means something else"
    );
}

#[test]
fn file_of_another_user_is_refused() {
    let refused = Err(ProgramRefusal::Owner { owner: 1001, runs_as: USER });
    assert_eq!(program(found(FileKind::File, 0o755, 1001), USER), refused);
    assert_eq!(folder(found(FileKind::Folder, 0o755, 1001), USER), refused);
    assert_eq!(
        program(found(FileKind::File, 0o755, USER), 0),
        Err(ProgramRefusal::Owner { owner: USER, runs_as: 0 }),
        "the superuser runs nobody else's programs"
    );
}

#[test]
fn file_of_wrong_kind_is_refused() {
    assert_eq!(program(found(FileKind::Link, 0o777, 0), USER), Err(ProgramRefusal::Link));
    assert_eq!(folder(found(FileKind::Link, 0o777, 0), USER), Err(ProgramRefusal::Link));
    assert_eq!(program(found(FileKind::Folder, 0o755, 0), USER), Err(ProgramRefusal::NotFile));
    assert_eq!(program(found(FileKind::Other, 0o755, 0), USER), Err(ProgramRefusal::NotFile));
    assert_eq!(folder(found(FileKind::File, 0o755, 0), USER), Err(ProgramRefusal::NotFolder));
    assert_eq!(folder(found(FileKind::Other, 0o755, 0), USER), Err(ProgramRefusal::NotFolder));
}

#[test]
fn names_stay_below_the_root() {
    let split = |path| names(Path::new(path)).map(|names| names.len());
    assert_eq!(split("hello"), Ok(1));
    assert_eq!(split("a/b/c.cgi"), Ok(3));
    assert_eq!(split("a//b"), Ok(2));
    for outside in ["", "/", "/bin/sh", "../sh", "a/../../sh", "a/..", "..", ".", "./a"] {
        assert_eq!(split(outside), Err(ProgramRefusal::Outside), "{outside:?}");
    }
}

#[test]
fn every_mode_of_every_kind() {
    for mode in 0..0o10_000 {
        for uid in [0, USER, 1001] {
            let owner = uid == 0 || uid == USER;
            let closed = mode & 0o020 == 0 && mode & 0o002 == 0;
            let plain = mode & 0o4000 == 0 && mode & 0o2000 == 0;
            let verdict = |kind| program(found(kind, mode, uid), USER).is_ok();
            assert_eq!(verdict(FileKind::File), owner && closed && plain);
            assert!(!verdict(FileKind::Folder) && !verdict(FileKind::Link) && !verdict(FileKind::Other));
            assert_eq!(folder(found(FileKind::Folder, mode, uid), USER).is_ok(), owner && closed);
        }
    }
}
