//! The keeper alone reads the allowed programs again while the spawner serves.

use crate::fixture::{ProgramFolder, SpawnerFixture, pid};
use rustix::process::{Signal, kill_process};
use std::{fs, path::PathBuf};
use vermeil_spawn::{DefineError, Profile, Program, ProgramEnd, ProgramRequest, SpawnError};

/// A spawner of one site, whose keeper reads further folders from a file.
fn revisable(site: &ProgramFolder, list: PathBuf) -> SpawnerFixture {
    let profile = site.profile();
    let reviser = {
        let profile = profile.clone();
        move || {
            let text = fs::read_to_string(&list).map_err(|error| error.to_string())?;
            Ok(text.lines().map(|root| Profile { root: root.into(), ..profile.clone() }).collect())
        }
    };
    let mut preparation = vermeil_spawn::start_revisable(Box::new(reviser)).expect("a keeper");
    let profile = preparation.define(&profile).expect("a sound profile");
    let (keeper, mut channels) = preparation.serve(1).expect("a spawner");
    SpawnerFixture { keeper, channel: channels.remove(0), profile }
}

pub(crate) fn profiles_that_the_keeper_reads_can_be_used(_: &[String]) {
    let (site, second, third) = (ProgramFolder::new(), ProgramFolder::new(), ProgramFolder::new());
    second.script("who", "echo second");
    third.script("who", "echo third");
    let list = site.path("list");
    let mut spawner = revisable(&site, list.clone());
    let mut revisions = spawner.keeper.revisions().expect("a line");
    let ask = |spawner: &mut SpawnerFixture, profile| {
        let output = spawner.run(ProgramRequest::new(profile, Program::Below("who".as_ref())));
        assert_eq!(output.exit.end, ProgramEnd::Code(0));
        output.stdout
    };

    // The server does not decide which programs may start.
    let error = revisions.find(&second.profile()).expect_err("not read");
    assert!(matches!(error, DefineError::Unlisted { .. }), "{error}");
    fs::write(&list, format!("{}\n", second.path("").display())).expect("written");
    let second_profile = Profile { root: second.path(""), ..second.profile() };
    revisions.read().expect("a sound profile");
    let number = revisions.find(&second_profile).expect("read");
    assert_eq!(ask(&mut spawner, number), "second\n");

    // The next spawner has the profiles too, and is told of more.
    let died = pid(spawner.spawner_pid());
    kill_process(died, Signal::STOP).expect("our own");
    let lost =
        spawner.spawn(ProgramRequest::new(number, Program::Below("who".as_ref()))).expect("a sent request");
    kill_process(died, Signal::KILL).expect("our own");
    assert!(matches!(spawner.failed(&lost), SpawnError::Lost));
    fs::write(&list, format!("{}\n", third.path("").display())).expect("written");
    revisions.read().expect("a sound profile");
    let third_profile = Profile { root: third.path(""), ..third.profile() };
    let other = revisions.find(&third_profile).expect("read");
    assert_eq!(ask(&mut spawner, other), "third\n");
    assert_eq!(ask(&mut spawner, number), "second\n");
    assert_eq!(revisions.find(&second_profile).expect("still there"), number);
    spawner.keeper.stop();
}

pub(crate) fn unreadable_configuration_changes_no_profile(_: &[String]) {
    let (site, second) = (ProgramFolder::new(), ProgramFolder::new());
    second.script("who", "echo second");
    let list = site.path("list");
    let spawner = revisable(&site, list.clone());
    let mut revisions = spawner.keeper.revisions().expect("a line");
    let error = revisions.read().expect_err("there is no list");
    assert!(error.to_string().contains("No such file"), "{error}");
    fs::write(&list, format!("{}\n/no/such/folder\n", second.path("").display())).expect("written");
    let error = revisions.read().expect_err("one of them is not there");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    let error = revisions.find(&Profile { root: second.path(""), ..second.profile() });
    assert!(matches!(error, Err(DefineError::Unlisted { .. })), "all or none");
    spawner.keeper.stop();
    let error = revisions.read().expect_err("the keeper has gone");
    assert!(matches!(error, DefineError::Keeper(_)), "{error}");
}
