//! The users and the limits of programs.

use crate::fixture::{NOBODY, ProgramFolder, SpawnerFixture, is_root, skip};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::Path,
};
use tempfile::TempDir;
use vermeil_spawn::{
    Cgroup, Confinement, DefineError, Identity, NewPrivileges, Profile, ProgramEnd, ResourceLimits,
};

/// Where version 2 of cgroups is, alone or beside version 1.
const CGROUPS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// A folder that all may write to.
fn open_folder() -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("its mode");
    folder
}

pub(crate) fn user_and_groups_are_taken_on(_: &[String]) {
    if !is_root() {
        return skip("only the superuser changes users");
    }
    let site = ProgramFolder::new();
    site.script("show", "id -u; id -g; id -G; grep ^Cap /proc/self/status | grep -v Bnd");
    let identity = Identity { uid: 4242, gid: 4343, groups: vec![4444, 4545] };
    let mut spawner = SpawnerFixture::start(&Profile { identity: Some(identity), ..site.profile() });
    let shown = spawner.run(spawner.request("show")).stdout;
    assert!(shown.starts_with("4242\n4343\n4343 4444 4545\n"), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.ends_with("\t0000000000000000")).count(), 4, "{shown}");

    chown(site.path("show"), Some(4242), Some(4343)).expect("superuser");
    assert!(spawner.run(spawner.request("show")).exit.end == ProgramEnd::Code(0), "its own program");
    chown(site.path("show"), Some(4243), Some(4343)).expect("superuser");
    let error = spawner.refused(spawner.request("show"));
    assert!(error.is_refused() && error.to_string().contains("belongs to user 4243"), "{error}");
}

pub(crate) fn limits_hold(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("show", "ulimit -v; ulimit -t; ulimit -f; ulimit -n; ulimit -c; ulimit -Hn");
    site.script("fill", "head -c 2000000 /dev/zero > \"$1\"; echo $?");
    site.script("burn", "while :; do :; done");
    let limits = ResourceLimits {
        address_space_bytes: Some(1 << 30),
        cpu_seconds: Some(1),
        file_bytes: Some(1 << 20),
        descriptors: Some(77),
        processes: None,
        core_bytes: Some(0),
    };
    let mut spawner = SpawnerFixture::start(&Profile { limits, ..site.profile() });
    let shown = spawner.run(spawner.request("show")).stdout;
    assert_eq!(shown, "1048576\n1\n2048\n77\n0\n77\n");
    let out = open_folder();
    let file = out.path().join("file");
    let mut request = spawner.request("fill");
    request.argument(file.to_str().expect("text").as_bytes());
    let filled = spawner.run(request);
    assert_ne!(filled.stdout, "0\n", "{filled:?}");
    assert_eq!(fs::metadata(file).expect("a part of it").len(), 1 << 20);
    let burned = spawner.run(spawner.request("burn"));
    assert!(matches!(burned.exit.end, ProgramEnd::Signal(9 | 24)), "{burned:?}");
    assert!(burned.exit.usage.user.as_millis() > 500, "{burned:?}");
}

pub(crate) fn new_privileges_are_refused_unless_allowed(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("show", "grep NoNewPrivs /proc/self/status");
    for (choice, expected) in [(NewPrivileges::Refused, "1\n"), (NewPrivileges::Allowed, "0\n")] {
        let mut spawner = SpawnerFixture::start(&Profile { new_privileges: choice, ..site.profile() });
        let shown = spawner.run(spawner.request("show")).stdout;
        assert!(shown.ends_with(expected), "{shown}");
        spawner.keeper.stop();
    }
}

pub(crate) fn programs_reach_allowed_paths_only(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("try", "cat secret 2>&1; cat \"$1\" 2>&1; echo out > \"$2\"/file; echo $?");
    site.file("secret", "inside\n", 0o644);
    let around = ProgramFolder::new();
    around.file("outside", "outside\n", 0o644);
    let write = open_folder();
    let system = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/dev/null"].map(std::path::PathBuf::from);
    // A missing path is skipped.
    let read: Vec<_> = system.into_iter().chain([site.path(""), around.path("missing")]).collect();
    let confinement = Confinement { read, write: vec![write.path().into()] };
    let mut spawner = SpawnerFixture::start(&Profile { confinement: Some(confinement), ..site.profile() });
    let mut request = spawner.request("try");
    request.argument(around.path("outside").to_str().expect("text").as_bytes());
    request.argument(write.path().to_str().expect("text").as_bytes());
    let asked = spawner.spawn(request).expect("a sent request");
    match spawner.event() {
        vermeil_spawn::ProgramEvent::Failed { error, .. } if error.to_string().contains("no Landlock") => {
            return skip("this kernel has no Landlock");
        }
        vermeil_spawn::ProgramEvent::Started { .. } => {}
        other => panic!("{other:?}"),
    }
    let shown = std::io::read_to_string(&asked.stdout).expect("text");
    assert!(shown.starts_with("inside\n") && shown.contains("Permission denied"), "{shown}");
    assert!(shown.ends_with("\n0\n") && !shown.contains("outside\n"), "{shown}");
}

pub(crate) fn the_umask_is_set(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("show", "umask");
    let mut spawner = SpawnerFixture::start(&Profile { umask: 0o137, ..site.profile() });
    assert_eq!(spawner.run(spawner.request("show")).stdout, "0137\n");
}

pub(crate) fn the_superuser_is_not_taken_for_granted(_: &[String]) {
    let site = ProgramFolder::new();
    let mut preparation = vermeil_spawn::start().expect("a keeper");
    let nameless = Profile { identity: None, ..site.profile() };
    let foreign = Identity { uid: NOBODY - 1, gid: NOBODY - 1, groups: Vec::new() };
    let other = Profile { identity: Some(foreign), ..site.profile() };
    if is_root() {
        let error = preparation.define(&nameless).expect_err("refused");
        assert!(matches!(error, DefineError::Superuser { .. }), "{error}");
        preparation.define(&other).expect("the superuser may");
    } else {
        preparation.define(&nameless).expect("as ourselves");
        let error = preparation.define(&other).expect_err("refused");
        assert!(matches!(error, DefineError::Identity { .. }), "{error}");
    }
    let missing = Profile { root: site.path("missing"), ..site.profile() };
    let error = preparation.define(&missing).expect_err("refused");
    assert!(error.to_string().contains("missing: opening the folder of programs"), "{error}");
    site.file("open", "", 0o777);
    let open = Profile { listed: vec![site.path("open")], ..site.profile() };
    let error = preparation.define(&open).expect_err("refused");
    assert!(error.to_string().contains("chmod go-w"), "{error}");
}

pub(crate) fn programs_are_born_in_their_cgroup(_: &[String]) {
    let Some(parent) = CGROUPS.iter().map(Path::new).find(|path| path.join("cgroup.procs").exists()) else {
        return skip("no cgroups of version 2");
    };
    let folder = parent.join(format!("vermeil-test-{}", std::process::id()));
    if !is_root() || fs::create_dir(&folder).and_then(|()| fs::remove_dir(&folder)).is_err() {
        return skip("no cgroup can be made here");
    }
    let site = ProgramFolder::new();
    site.script("show", "grep ^0: /proc/self/cgroup");
    let cgroup =
        Cgroup { folder: folder.clone(), memory_bytes: None, cpu_thousandths: None, processes: None };
    let mut spawner = SpawnerFixture::start(&Profile { cgroup: Some(cgroup.clone()), ..site.profile() });
    let shown = spawner.run(spawner.request("show"));
    assert!(
        shown.stdout.trim_end().ends_with(folder.file_name().expect("named").to_str().expect("text")),
        "{shown:?}"
    );
    assert_eq!(fs::metadata(&folder).expect("it stays").uid(), 0);
    spawner.keeper.stop();
    fs::remove_dir(&folder).expect("nothing is in it");

    let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).expect("it is there");
    let bounded = Cgroup { processes: Some(9), ..cgroup.clone() };
    let mut spawner = SpawnerFixture::start(&Profile { cgroup: Some(bounded), ..site.profile() });
    if controllers.contains("pids") {
        assert_eq!(spawner.run(spawner.request("show")).exit.end, ProgramEnd::Code(0));
        assert_eq!(fs::read_to_string(folder.join("pids.max")).expect("bounded"), "9\n");
        spawner.keeper.stop();
        // The next spawner applies its own bounds to the cgroup that the last run left.
        let bounded = Cgroup { processes: Some(8), ..cgroup };
        let mut spawner = SpawnerFixture::start(&Profile { cgroup: Some(bounded), ..site.profile() });
        assert_eq!(spawner.run(spawner.request("show")).exit.end, ProgramEnd::Code(0));
        assert_eq!(fs::read_to_string(folder.join("pids.max")).expect("bounded"), "8\n");
        spawner.keeper.stop();
        fs::remove_dir(&folder).expect("nothing is in it");
    } else {
        let error = spawner.refused(spawner.request("show"));
        assert!(error.to_string().contains("cgroup.subtree_control"), "{error}");
        assert!(error.to_string().contains("pids.max"), "{error}");
        assert!(!folder.exists(), "a cgroup without its bounds is not left behind");
        // A folder that exists already is not used without the controllers either.
        fs::create_dir(&folder).expect("as before");
        let error = spawner.refused(spawner.request("show"));
        assert!(error.to_string().contains("pids.max"), "{error}");
        spawner.keeper.stop();
        fs::remove_dir(&folder).expect("nothing is in it");
    }
}
