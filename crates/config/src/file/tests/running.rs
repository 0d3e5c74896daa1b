//! The options that a file results in for a server that runs.

use super::*;
use crate::{CgiSettings, keep_what_is_fixed};

/// Regression: the file's number of cores, which only a restart changes, changed the children of
/// PHP, so a reload replaced the pool.
#[test]
fn defaults_follow_running_instances() {
    let text = |keys: &str| format!("{keys}[[host]]\nroot = \"www\"\nphp = true\n");
    let running = load(&text(""));
    let around = surroundings().of_running(&running);
    for (key, keys) in [("cores", "cores = 2\n"), ("instances", "instances = 2\n")] {
        let mut new = take(Path::new("/etc/vermeil/vermeil.toml"), &text(keys).into(), &around).unwrap();
        assert_eq!((&new.php, &new.store), (&running.php, &running.store), "{key}");
        assert_eq!(keep_what_is_fixed(&running, &mut new, CgiSettings::Open), [key]);
        assert_eq!((&new.cpus, &new.instances), (&running.cpus, &running.instances));
        assert_eq!(new.placement, running.placement);
    }
}

/// Regression: each of several processes took the caches of a server that has the machine alone.
#[test]
fn instance_has_its_share_of_the_memory() {
    let text = "instances = 2\n[[host]]\nroot = \"www\"\n";
    let both = load(text);
    let given = GivenParts::Instances(both.instances[..1].to_vec());
    let around = Surroundings { given, ..surroundings() };
    let one = take(Path::new("/etc/vermeil/vermeil.toml"), &text.to_owned().into(), &around).unwrap();
    assert_eq!((&one.store, &one.compression), (&both.store, &both.compression));
    assert_ne!(one.store, load("[[host]]\nroot = \"www\"\n").store);
}

#[test]
fn fixed_settings_stay_as_they_are() {
    let text = |user: &str, memory: &str| {
        format!(
            "user = \"{user}\"\n[cgi]\nmemory = \"{memory}\"\n[[host]]\nroot = \"www\"\n\
             [[host.route]]\nprefix = \"/cgi/\"\naction = \"cgi\"\n"
        )
    };
    let old = load(&text("nobody", "2M"));
    assert_eq!(CgiSettings::of(&old), CgiSettings::Fixed);
    for (cgi, fixed, bytes) in
        [(CgiSettings::Fixed, &["user", "cgi"][..], 2 << 20), (CgiSettings::Open, &["user"], 3 << 20)]
    {
        let mut new = load(&text("daemon", "3M"));
        assert_eq!(keep_what_is_fixed(&old, &mut new, cgi), fixed);
        assert_eq!((&new.user, new.cgi.limits.address_space_bytes), (&old.user, Some(bytes)));
    }
}
