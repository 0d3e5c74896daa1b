//! Programs' inputs, descriptors that programs must not get, and refusals.

use crate::fixture::{
    PATIENCE, ProgramFolder, SpawnerFixture, children, descriptors, name_of, pid, read_line, status, until,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
    process::{Signal, kill_process},
};
use std::{
    fs::{self, File, Permissions},
    io::{Read as _, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    time::Duration,
};
use vermeil_spawn::{
    Directory, Profile, Program, ProgramEnd, ProgramEvent, ProgramRequest, SendObstacle, SpawnError,
};

pub(crate) fn arguments_environment_and_folder_arrive(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("a/b/show", "pwd; echo \"$0\"; printf '<%s>' \"$@\"; echo; env | sort");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let mut request = spawner.request("a/b/show");
    request.argument(b"one two").argument(b"").variable(b"NAME", b"a=b").variable(b"EMPTY", b"");
    let output = spawner.run(request);
    let (folder, program) = (site.path("a/b"), site.path("a/b/show"));
    // The shell adds PWD.
    let expected = format!(
        "{}\n{}\n<one two><>\nEMPTY=\nNAME=a=b\nPWD={}\n",
        folder.display(),
        program.display(),
        folder.display()
    );
    assert_eq!((output.stdout, output.stderr.as_str()), (expected, ""));

    for (directory, expected) in
        [(Directory::Root, site.path("")), (Directory::Below(Path::new("a")), site.path("a"))]
    {
        let mut request = spawner.request("a/b/show");
        request.directory(directory);
        let shown = spawner.run(request).stdout;
        assert_eq!(Path::new(shown.lines().next().expect("a line")), expected);
    }
}

pub(crate) fn standard_descriptors_arrive_and_no_others(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("show", "ls -l /proc/self/fd | sed 's/.* \\([0-9]* ->\\)/\\1/' >&2; cat");
    // Without CLOEXEC, so that the kernel does not close these by itself.
    let open = |_| {
        let file = File::open("/dev/zero").expect("it is there");
        fcntl_setfd(&file, FdFlags::empty()).expect("an open file");
        file
    };
    let kept: Vec<File> = (0..100).map(open).collect();
    let mut spawner = SpawnerFixture::start(&site.profile());
    let (stdin, mut input) =
        rustix::pipe::pipe().map(|(read, write)| (read, File::from(write))).expect("a pipe");
    input.write_all(b"input").expect("room");
    drop(input);
    let mut asked = spawner.spawn_with_stdin(stdin, spawner.request("show")).expect("a sent request");
    spawner.started(&asked);
    let (mut output, mut shown) = (String::new(), String::new());
    asked.stdout.read_to_string(&mut output).expect("text");
    asked.stderr.read_to_string(&mut shown).expect("text");
    assert_eq!(output, "input");
    let numbers: Vec<_> = shown.lines().filter_map(|line| line.split_once(" ->")).collect();
    let (names, _): (Vec<_>, Vec<_>) = numbers.iter().copied().unzip();
    assert_eq!(names, ["0", "1", "2", "3"], "and the folder that ls reads: {shown}");
    assert!(!shown.contains("zero") && !shown.contains("socket"), "{shown}");
    drop(kept);
}

pub(crate) fn program_starts_with_default_signals(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("show", "exec cat /proc/self/status");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let shown = spawner.run(spawner.request("show")).stdout;
    for field in ["SigBlk", "SigIgn", "SigCgt"] {
        let line = shown.lines().find(|line| line.starts_with(field)).expect("a field");
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
}

pub(crate) fn a_listening_socket_can_be_descriptor_0(_: &[String]) {
    let site = ProgramFolder::new();
    let profile = Profile { listed: vec!["/usr/bin/python3".into()], ..site.profile() };
    if !Path::new("/usr/bin/python3").exists() {
        return crate::fixture::skip("no python3");
    }
    let mut spawner = SpawnerFixture::start(&profile);
    let listener = UnixListener::bind(site.path("socket")).expect("bound");
    let mut request = ProgramRequest::new(spawner.profile, Program::Listed(0));
    request
        .directory(Directory::Root)
        .argument(b"-c")
        .argument(b"import socket; c, _ = socket.socket(fileno=0).accept(); c.sendall(b'hello from 0')");
    let asked = spawner.spawn_with_stdin(listener.into(), request).expect("a sent request");
    spawner.started(&asked);
    let mut said = String::new();
    UnixStream::connect(site.path("socket"))
        .and_then(|mut it| it.read_to_string(&mut said))
        .expect("an answer");
    assert_eq!(said, "hello from 0");
    assert_eq!(spawner.exited(&asked).end, ProgramEnd::Code(0));
}

pub(crate) fn unwanted_start_report_is_not_sent(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("wait", "cat");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let (stdin, ours) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let mut request = spawner.request("wait");
    request.untold();
    let mut asked = spawner.spawn_with_stdin(stdin, request).expect("a sent request");
    rustix::io::write(&ours, b"runs\n").expect("there is room");
    assert_eq!(read_line(&mut asked.stdout), "runs");
    assert!(spawner.channel.receive().expect("a sound socket").is_none(), "nothing is said of it");
    drop(ours);
    assert_eq!(spawner.exited(&asked).end, ProgramEnd::Code(0));

    let mut request = spawner.request("missing");
    request.untold();
    assert!(spawner.refused(request).is_missing());

    // The server can kill the program although the server was not told that the program runs.
    let (stdin, ours) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let mut request = spawner.request("wait");
    request.untold();
    let asked = spawner.spawn_with_stdin(stdin, request).expect("a sent request");
    spawner.channel.kill(asked.job);
    assert_eq!(spawner.exited(&asked).end, ProgramEnd::Signal(9));
    drop(ours);
}

pub(crate) fn every_failure_names_step_and_cure(_: &[String]) {
    let site = ProgramFolder::new();
    site.file("plain", "no program", 0o644);
    site.file("nonsense", "no program", 0o755);
    site.file("orphan", "#!/no/such/interpreter\n", 0o755);
    site.script("good", "echo good");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let mut nowhere = spawner.request("good");
    nowhere.directory(Directory::Below(Path::new("no/such")));
    let cases = [
        (spawner.request("missing"), "looking for it: No such file"),
        (spawner.request("good/below"), "not a folder; name a program below a folder"),
        (
            spawner.request("plain"),
            "executing it: Permission denied (os error 13); make it executable (chmod +x)",
        ),
        (spawner.request("nonsense"), "executing it: Exec format error (os error 8); begin a script with #!"),
        (
            spawner.request("orphan"),
            "executing it: No such file or directory (os error 2); does the interpreter",
        ),
        (nowhere, "opening the folder to run in: No such file"),
        (ProgramRequest::new(spawner.profile, Program::Listed(0)), "finding its profile"),
    ];
    for (request, words) in cases {
        // The spawner does not wait for the start of an untold program.
        let mut untold = request.clone();
        untold.untold();
        for request in [request, untold] {
            let error = spawner.refused(request);
            assert!(error.to_string().contains(words), "{error}");
            assert!(!error.is_passing(), "{error}");
        }
    }
    assert!(spawner.refused(spawner.request("missing")).is_missing());
    assert!(spawner.refused(spawner.request("plain")).is_refused());

    let mut long = spawner.request("good");
    long.argument(&vec![b'x'; vermeil_spawn::REQUEST_BYTES_MAX]);
    assert!(matches!(spawner.spawn(long), Err(SpawnError::TooLong { .. })));
    let mut invalid = spawner.request("good");
    invalid.variable(b"A\0B", b"");
    assert!(matches!(spawner.spawn(invalid), Err(SpawnError::Invalid { .. })));

    assert_eq!(spawner.run(spawner.request("good")).stdout, "good\n", "none of that did any harm");
    until("the spawner has forgotten them", || children(spawner.spawner_pid()).is_empty().then_some(()));
}

pub(crate) fn refused_programs_are_not_started(_: &[String]) {
    let site = ProgramFolder::new();
    let script = "echo > ../ran";
    for name in ["open", "setid", "open-folder/program", "folder/program", "program"] {
        site.script(name, script);
    }
    let mode =
        |name: &str, mode| fs::set_permissions(site.path(name), Permissions::from_mode(mode)).expect("set");
    mode("open", 0o775);
    mode("setid", 0o4755);
    mode("open-folder", 0o777);
    symlink("program", site.path("link")).expect("a link");
    symlink("folder", site.path("folder-link")).expect("a link");
    symlink("/bin", site.path("out")).expect("a link");
    let mut spawner = SpawnerFixture::start(&site.profile());
    for (name, words) in [
        ("open", "chmod go-w"),
        ("setid", "chmod ug-s"),
        ("open-folder/program", "chmod go-w"),
        ("link", "a symbolic link"),
        ("folder-link/program", "a symbolic link"),
        ("out/sh", "a symbolic link"),
        ("folder", "not a regular file"),
        ("../x", "out of the folder"),
        ("/bin/sh", "out of the folder"),
    ] {
        let error = spawner.refused(spawner.request(name));
        assert!(error.is_refused() && error.to_string().contains(words), "{name}: {error}");
    }
    mode("", 0o777);
    let error = spawner.refused(spawner.request("program"));
    assert!(error.to_string().contains("chmod go-w"), "the root itself: {error}");
    assert!(!site.path("ran").exists());
}

/// Starts many programs and counts the descriptors left in each process concerned.
pub(crate) fn nothing_leaks_in_ten_thousand_starts(_: &[String]) {
    const STARTS: usize = 10_000;
    const AT_ONCE: usize = 16;
    let site = ProgramFolder::new();
    let profile = Profile { listed: vec!["/bin/true".into()], ..site.profile() };
    let mut spawner = SpawnerFixture::start(&profile);
    let mut request = ProgramRequest::new(spawner.profile, Program::Listed(0));
    request.directory(Directory::Root).with_descriptor().time_limit(Duration::from_secs(60));
    let one = spawner.run(request.clone());
    assert_eq!(one.exit.end, ProgramEnd::Code(0));
    let spawners = spawner.spawner_pid();
    let before = (descriptors(spawners), descriptors(std::process::id()));
    let (mut asked, mut ended) = (0, 0);
    while ended < STARTS {
        while asked < STARTS && asked - ended < AT_ONCE {
            drop(spawner.spawn(request.clone()).expect("a sent request"));
            asked += 1;
        }
        match spawner.event() {
            ProgramEvent::Started { descriptor, .. } => assert!(descriptor.is_some()),
            ProgramEvent::Exited { exit, .. } => {
                assert_eq!(exit.end, ProgramEnd::Code(0));
                ended += 1;
            }
            ProgramEvent::Failed { error, .. } => panic!("{error}"),
        }
    }
    assert_eq!(descriptors(std::process::id()), before.1);
    // Fewer are right, because the first program's descriptors may have been open still at the
    // first count.
    until("the spawner has closed the last one's", || (descriptors(spawners) <= before.0).then_some(()));
    until("the spawner has forgotten the last one", || children(spawners).is_empty().then_some(()));
    assert_eq!(spawner.channel.unfinished(), 0);
    let kilobytes = |pid| -> u64 {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it runs");
        let dirty = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).expect("a field");
        dirty.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    let memory = (kilobytes(spawners), kilobytes(spawner.keeper.pid()));
    println!("private memory of spawner and keeper: {memory:?} KB");
    assert!(memory.0 < 1024 && memory.1 < 1024, "{memory:?} KB");
}

/// More requests than the socket holds: the rest waits, and is sent as the spawner takes others.
pub(crate) fn a_full_socket_makes_requests_wait(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("quick", "exit 3");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let padding = vec![b'x'; 60_000];
    let mut asked = Vec::new();
    let busy = loop {
        let mut request = spawner.request("quick");
        request.argument(&padding);
        match spawner.spawn(request) {
            Ok(one) => asked.push(one.job),
            Err(error) => break error,
        }
        assert!(asked.len() < 10_000, "the spawner is faster than we are");
    };
    assert!(busy.is_passing() && matches!(busy, SpawnError::Busy { .. }), "{busy}");
    let mut ended = Vec::new();
    while ended.len() < asked.len() {
        if let ProgramEvent::Exited { job, exit } = spawner.event() {
            assert_eq!(exit.end, ProgramEnd::Code(3));
            ended.push(job);
        }
    }
    ended.sort();
    assert_eq!(ended, asked);
}

/// Regression: requests that waited for room were sent only after an event of the spawner, and
/// programs that run cause none.
pub(crate) fn waiting_requests_are_sent_when_there_is_room(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("wait", "exec cat");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let process = pid(spawner.spawner_pid());
    kill_process(process, Signal::STOP).expect("our own");
    let (stdin, hold) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let mut asked = 0;
    while spawner.channel.obstacle().is_none() {
        let mut request = spawner.request("wait");
        request.untold().argument(&[b'x'; 60_000]);
        spawner.spawn_with_stdin(stdin.try_clone().expect("a descriptor"), request).expect("a sent request");
        asked += 1;
    }
    assert_eq!(spawner.channel.obstacle(), Some(SendObstacle::FullSocket));
    kill_process(process, Signal::CONT).expect("our own");
    let readiness = spawner.channel.readiness().expect("a descriptor");
    while spawner.channel.obstacle().is_some() {
        let patience = Timespec::try_from(PATIENCE).expect("short");
        let mut polled = [PollFd::new(&readiness, PollFlags::IN | PollFlags::OUT)];
        assert_eq!(poll(&mut polled, Some(&patience)), Ok(1), "room is an event");
        assert!(spawner.channel.receive().expect("a sound socket").is_none(), "no program has ended");
    }
    drop(hold);
    for _ in 0..asked {
        assert!(matches!(spawner.event(), ProgramEvent::Exited { .. }));
    }
}

/// Answers that find no room in the socket are kept, in order.
pub(crate) fn answers_wait_for_slow_reader(_: &[String]) {
    const STARTS: usize = 1500;
    let site = ProgramFolder::new();
    let mut spawner = SpawnerFixture::start(&site.profile());
    let mut jobs = Vec::new();
    while jobs.len() < STARTS {
        match spawner.spawn(spawner.request("missing")) {
            Ok(asked) => jobs.push(asked.job),
            // The spawner's answers have no room, so the spawner takes no more requests. The next
            // receive makes room.
            Err(SpawnError::Busy { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    for expected in jobs {
        match spawner.event() {
            ProgramEvent::Failed { job, error } => assert!(job == expected && error.is_missing(), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    let keeper = spawner.keeper.pid();
    assert_eq!(name_of(keeper), "vermeil-keeper");
    until("the spawner sleeps", || status(spawner.spawner_pid(), "State").starts_with('S').then_some(()));
}
