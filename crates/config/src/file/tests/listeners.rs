//! Wrong listeners of hosts and networks of routes.

use super::problems;

#[test]
fn wrong_listeners_and_networks_are_reported() {
    let listener = "[[listener]]\naddress = \"127.0.0.1:80\"\n[[host]]\nroot = \"x\"\n";
    let route = "[[host]]\nroot = \"x\"\n[[host.route]]\nprefix = \"/s\"\naction = \"status\"\n";
    for (text, expected) in [
        (
            format!("{listener}listen = [\"127.0.0.1:81\"]\n"),
            "v.toml:5:11: host.listen: no [[listener]] has the address",
        ),
        (format!("{listener}listen = []\n"), "v.toml:5:10: host.listen: no listener is named"),
        (format!("{listener}listen = \"127.0.0.1:80\"\n"), "v.toml:5:10: host.listen: "),
        (
            format!(
                "{listener}names = [\"a\"]\n{}{}",
                "[[host]]\nlisten = [\"127.0.0.1:80\"]\n", "[[host]]\nlisten = [\"127.0.0.1:80\"]\n"
            ),
            "v.toml:9:10: host.listen: the host at line 6 is bound to this listener and has no name either",
        ),
        (
            format!("{route}from = [\"10.0.0.1/8\"]\n"),
            "v.toml:6:9: host.route.from: \"10.0.0.1/8\": the address has bits behind",
        ),
        (
            format!("{route}from = [\"localhost\"]\n"),
            "v.toml:6:9: host.route.from: \"localhost\": write an address",
        ),
        (format!("{route}from = []\n"), "v.toml:6:8: host.route.from: no network is named"),
        (format!("{route}form = [\"::1\"]\n"), "v.toml:6:1: host.route.form: "),
    ] {
        let found = problems(&text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?} for {expected}");
    }
}
