//! The ends of programs: by themselves, killed, late, and with the processes they depend on.

use crate::fixture::{
    FixtureProgram, ProgramFolder, SpawnerFixture, name_of, pid, read_line, runs, status, until,
};
use rustix::process::{Signal, kill_process};
use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use vermeil_spawn::{ProgramEnd, ProgramEvent, SpawnError};

/// Starts a child in the background, which starts a child of its own, prints the process numbers,
/// and waits for ever.
const FAMILY: &str = "sh -c 'sleep 1000 & echo $!; wait' & echo $!; echo $$; wait";

/// The processes of a program made of [`FAMILY`].
fn family(asked: &mut FixtureProgram) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        (0..3).map(|_| read_line(&mut asked.stdout).parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().all(|number| runs(*number)), "{numbers:?}");
    numbers
}

#[track_caller]
fn all_end(numbers: &[u32]) {
    until("all have ended", || (!numbers.iter().any(|number| runs(*number))).then_some(()));
}

pub(crate) fn exit_status_and_usage_are_reported(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("code", "exit 7");
    site.script("signal", "kill -SEGV $$");
    site.script("work", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done");
    let mut spawner = SpawnerFixture::start(&site.profile());
    assert_eq!(spawner.run(spawner.request("code")).exit.end, ProgramEnd::Code(7));
    assert_eq!(spawner.run(spawner.request("signal")).exit.end, ProgramEnd::Signal(11));
    let usage = spawner.run(spawner.request("work")).exit.usage;
    assert!(usage.user + usage.system > Duration::ZERO && usage.memory_bytes_max > 100_000, "{usage:?}");
}

pub(crate) fn a_killed_program_takes_its_children_along(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("family", FAMILY);
    let mut spawner = SpawnerFixture::start(&site.profile());
    let mut asked = spawner.spawn(spawner.request("family")).expect("a sent request");
    spawner.started(&asked);
    let family = family(&mut asked);
    spawner.channel.kill(asked.job);
    assert_eq!(spawner.exited(&asked).end, ProgramEnd::Signal(9));
    all_end(&family);
    spawner.channel.kill(asked.job);
    assert!(spawner.channel.receive().expect("a sound socket").is_none(), "nobody is killed twice");
}

pub(crate) fn a_program_that_ends_takes_its_children_along(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("leave", "sleep 1000 >/dev/null 2>&1 & echo $!");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let output = spawner.run(spawner.request("leave"));
    assert_eq!(output.exit.end, ProgramEnd::Code(0));
    all_end(&[output.stdout.trim().parse().expect("a number")]);
}

pub(crate) fn time_is_up_for_the_whole_group(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("family", FAMILY);
    site.script("quick", "exit 0");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let mut request = spawner.request("family");
    request.time_limit(Duration::from_millis(300));
    let mut asked = spawner.spawn(request).expect("a sent request");
    spawner.started(&asked);
    let family = family(&mut asked);
    assert_eq!(spawner.exited(&asked).end, ProgramEnd::Late);
    all_end(&family);
    let mut request = spawner.request("quick");
    request.time_limit(Duration::from_secs(1000));
    assert_eq!(spawner.run(request).exit.end, ProgramEnd::Code(0));
}

/// With the spawner stopped, requests stay unsent once the socket is full.
pub(crate) fn requests_not_sent_are_withdrawn(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("quick", "exit 0");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let process = pid(spawner.spawner_pid());
    kill_process(process, Signal::STOP).expect("our own");
    let mut asked = Vec::new();
    while let Ok(one) = spawner.spawn({
        let mut request = spawner.request("quick");
        request.argument(&[b'x'; 60_000]);
        request
    }) {
        asked.push(one.job);
    }
    let last = *asked.last().expect("some were taken");
    spawner.channel.kill(last);
    match spawner.event() {
        ProgramEvent::Failed { job, error: SpawnError::Withdrawn } => assert_eq!(job, last),
        other => panic!("{other:?}"),
    }
    kill_process(process, Signal::CONT).expect("our own");
    let mut ended = 0;
    while ended < asked.len() - 1 {
        ended += usize::from(matches!(spawner.event(), ProgramEvent::Exited { .. }));
    }
    assert_eq!(spawner.channel.unfinished(), 0);
}

pub(crate) fn a_killed_spawner_is_replaced(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("hello", "echo hello");
    site.script("family", FAMILY);
    let mut spawner = SpawnerFixture::start(&site.profile());
    for round in 0..3 {
        let running = spawner.spawn(spawner.request("family")).expect("a sent request");
        spawner.started(&running);
        let process = spawner.spawner_pid();
        kill_process(pid(process), Signal::STOP).expect("our own");
        let pending = spawner.spawn(spawner.request("hello")).expect("a sent request");
        kill_process(pid(process), Signal::KILL).expect("our own");
        for asked in [running, pending] {
            let error = spawner.failed(&asked);
            assert!(matches!(error, SpawnError::Lost) && error.is_passing(), "round {round}: {error}");
        }
        assert_eq!(spawner.run(spawner.request("hello")).stdout, "hello\n", "round {round}");
        assert_ne!(spawner.spawner_pid(), process);
    }
}

pub(crate) fn programs_die_with_their_spawner(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("family", FAMILY);
    site.script("stray", "setsid sh -c 'echo $$; exec sleep 1000' & wait");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let mut asked = spawner.spawn(spawner.request("family")).expect("a sent request");
    spawner.started(&asked);
    let mut processes = family(&mut asked);
    let mut stray = spawner.spawn(spawner.request("stray")).expect("a sent request");
    spawner.started(&stray);
    processes.push(read_line(&mut stray.stdout).parse().expect("a number"));
    kill_process(pid(spawner.spawner_pid()), Signal::KILL).expect("our own");
    all_end(&processes);
    spawner.failed(&asked);
    spawner.failed(&stray);
}

pub(crate) fn without_keeper_the_spawner_goes_on(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("hello", "echo hello");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let process = spawner.spawner_pid();
    kill_process(pid(spawner.keeper.pid()), Signal::KILL).expect("our own");
    until("the keeper has ended", || (!runs(spawner.keeper.pid())).then_some(()));
    assert_eq!(spawner.run(spawner.request("hello")).stdout, "hello\n");
    kill_process(pid(process), Signal::KILL).expect("our own");
    until("its end is noticed", || {
        assert!(spawner.channel.receive().expect("a sound socket").is_none());
        spawner.channel.is_gone().then_some(())
    });
    assert!(matches!(spawner.spawn(spawner.request("hello")), Err(SpawnError::Gone)));
}

/// Regression: the epoll of the spawner reported the end of the closed channel for ever, because
/// the keeper holds the channel open.
pub(crate) fn spawner_sleeps_after_one_channel_closes(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("hello", "echo hello");
    site.script("wait", "exec sleep 1000");
    let (mut spawner, closed) = SpawnerFixture::start_with_second_channel(&site.profile());
    drop(closed);
    for round in ["the first spawner", "the next spawner"] {
        // The end of the other channel came before this request.
        assert_eq!(spawner.run(spawner.request("hello")).stdout, "hello\n", "{round}");
        until(round, || status(spawner.spawner_pid(), "State").starts_with('S').then_some(()));
        let running = spawner.spawn(spawner.request("wait")).expect("a sent request");
        spawner.started(&running);
        kill_process(pid(spawner.spawner_pid()), Signal::KILL).expect("our own");
        spawner.failed(&running);
    }
}

pub(crate) fn without_both_nothing_is_left_to_ask(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("family", FAMILY);
    let mut spawner = SpawnerFixture::start(&site.profile());
    let asked = spawner.spawn(spawner.request("family")).expect("a sent request");
    spawner.started(&asked);
    let process = spawner.spawner_pid();
    kill_process(pid(spawner.keeper.pid()), Signal::KILL).expect("our own");
    kill_process(pid(process), Signal::KILL).expect("our own");
    let error = spawner.failed(&asked);
    assert!(matches!(error, SpawnError::Gone) && error.is_passing(), "{error}");
}

/// The server part of `programs_die_with_the_server`: starts a family, prints the numbers of all
/// processes, and waits to be killed.
pub(crate) fn server(arguments: &[String]) {
    let site = Path::new(&arguments[0]);
    let identity = crate::fixture::ProgramFolder::new().profile().identity;
    let profile = vermeil_spawn::Profile { identity, ..vermeil_spawn::Profile::new(site) };
    let mut spawner = SpawnerFixture::start(&profile);
    let mut asked = spawner.spawn(spawner.request("family")).expect("a sent request");
    spawner.started(&asked);
    for number in family(&mut asked).into_iter().chain([spawner.spawner_pid(), spawner.keeper.pid()]) {
        println!("{number}");
    }
    println!();
    let _ = std::io::stdin().read(&mut [0]);
}

pub(crate) fn programs_die_with_the_server(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("family", FAMILY);
    let mut server = Command::new(env::current_exe().expect("this program"))
        .args(["--case", "ends::server"])
        .arg(site.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program again");
    let said = BufReader::new(server.stdout.take().expect("piped")).lines();
    let numbers = said.map_while(|line| line.ok()?.parse().ok());
    let numbers: Vec<u32> = numbers.collect();
    assert_eq!(numbers.len(), 5, "{numbers:?}");
    assert_eq!((name_of(numbers[3]), name_of(numbers[4])), ("vermeil-spawn".into(), "vermeil-keeper".into()));
    assert!(numbers.iter().all(|number| runs(*number)));
    server.kill().expect("our own");
    server.wait().expect("our own");
    all_end(&numbers);
}

pub(crate) fn a_stopped_keeper_leaves_nothing(_: &[String]) {
    let site = ProgramFolder::new();
    site.script("family", FAMILY);
    site.script("stray", "setsid sh -c 'echo $$; exec sleep 1000' & wait");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let mut asked = spawner.spawn(spawner.request("family")).expect("a sent request");
    spawner.started(&asked);
    let mut processes = family(&mut asked);
    let mut stray = spawner.spawn(spawner.request("stray")).expect("a sent request");
    spawner.started(&stray);
    processes.push(read_line(&mut stray.stdout).parse().expect("a number"));
    processes.extend([spawner.spawner_pid(), spawner.keeper.pid()]);
    spawner.keeper.stop();
    assert!(!processes.iter().any(|number| runs(*number)), "stop waits for all");
    assert!(fs::metadata(format!("/proc/{}", processes[4])).is_err(), "and leaves no dead process behind");
}

/// A user may stop all of its processes. For example, the user may stop a process that is about to
/// exec and still shares the spawner's memory. The spawner would wait for that process for ever.
pub(crate) fn spawner_survives_stop_signals(_: &[String]) {
    if !crate::fixture::is_root() {
        return crate::fixture::skip("programs run as who we are, who may stop anything of ours");
    }
    const STARTS: usize = 50;
    // Debian assigns these numbers to no user by itself.
    const OWN_USERS: std::ops::Range<u32> = 61_000..64_000;
    let site = ProgramFolder::new();
    site.script("hostile", "echo ready; while :; do kill -STOP -1; done 2>/dev/null");
    site.script("quick", "exit 0");
    let mut profile = site.profile();
    // The test takes a user of its own, because other tests may run their servers as `nobody`, and
    // those would be stopped as well.
    let own = OWN_USERS.start + std::process::id() % (OWN_USERS.end - OWN_USERS.start);
    profile.identity.as_mut().expect("root can choose").uid = own;
    let mut spawner = SpawnerFixture::start(&profile);
    let mut hostile = spawner.spawn(spawner.request("hostile")).expect("a sent request");
    spawner.started(&hostile);
    assert_eq!(read_line(&mut hostile.stdout), "ready");
    for start in 0..STARTS {
        let mut request = spawner.request("quick");
        request.time_limit(Duration::from_millis(1));
        if start % 2 == 0 {
            request.untold();
        }
        let asked = spawner.spawn(request).expect("a sent request");
        match spawner.event() {
            ProgramEvent::Started { .. } => drop(spawner.exited(&asked)),
            ProgramEvent::Failed { job, .. } | ProgramEvent::Exited { job, .. } => assert_eq!(job, asked.job),
        }
    }
    spawner.channel.kill(hostile.job);
    spawner.exited(&hostile);
    assert_eq!(spawner.run(spawner.request("quick")).exit.end, ProgramEnd::Code(0));
}

/// Takes a lease of the file, says so, and holds the lease until the end of standard input.
const LEASE: &str = "open my $file, '<', $ARGV[0] or die; $SIG{IO} = 'IGNORE';
    fcntl $file, 1024, 1 or die; $| = 1; print \"leased\\n\"; <STDIN>;";

/// A user may take a lease of its own program. The exec then waits for the end of the lease, and
/// the spawner would wait for the exec.
pub(crate) fn spawner_survives_leased_program(_: &[String]) {
    if !crate::fixture::is_root() {
        return crate::fixture::skip("programs run as the user of the spawner, which needs no defence");
    }
    let site = ProgramFolder::new();
    site.script("leased", "exit 0");
    site.script("quick", "exit 0");
    let mut spawner = SpawnerFixture::start(&site.profile());
    let holder = Command::new("perl")
        .args(["-e", LEASE])
        .arg(site.path("leased"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut holder) = holder else { return crate::fixture::skip("no perl") };
    let mut said = String::new();
    BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut said).expect("text");
    if said != "leased\n" {
        holder.wait().expect("our own");
        return crate::fixture::skip("no lease can be taken here");
    }
    let asked = spawner.spawn(spawner.request("leased")).expect("a sent request");
    spawner.started(&asked);
    assert_eq!(spawner.exited(&asked).end, ProgramEnd::Signal(9), "the keeper has killed the child");
    assert_eq!(spawner.run(spawner.request("quick")).exit.end, ProgramEnd::Code(0));
    drop(holder.stdin.take());
    holder.wait().expect("our own");
}
