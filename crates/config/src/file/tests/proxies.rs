//! The refusals of `[proxies]` and of `proxy_protocol`.

use super::problems;

#[test]
fn wrong_proxies_are_refused() {
    const CURE: &str = "name the proxies with from in [proxies], such as from = [\"10.0.0.0/8\"]";
    for (text, problem) in [
        (
            "[proxies]\nfrom = [\"proxy.example\"]\n[[host]]\n",
            "v.toml:2:9: proxies.from: \"proxy.example\": write an address such as 192.0.2.7 or ::1, a network such as \
             10.0.0.0/8 or 2001:db8::/32, or unix for the clients of unix sockets"
                .to_owned(),
        ),
        (
            "[proxies]\nfrom = []\n[[host]]\n",
            "v.toml:2:8: proxies.from: no network is named, so no proxy would be believed; name one, or leave the key out"
                .to_owned(),
        ),
        (
            "[proxies]\nfrom = [\"::1\"]\nfields = \"x-real-ip\"\n[[host]]\n",
            "v.toml:3:10: proxies.fields: \"x-real-ip\" is no choice; known here: x-forwarded, forwarded, none".to_owned(),
        ),
        (
            "[proxies]\nfields = \"forwarded\"\n[[host]]\n",
            format!("v.toml:2:10: proxies.fields: no proxy is believed; {CURE}"),
        ),
        ("[proxies]\n[[host]]\n", format!("v.toml:1:1: proxies: no proxy is believed; {CURE}")),
        (
            "[[listener]]\naddress = \"8080\"\nproxy_protocol = true\n[[host]]\n",
            format!(
                "v.toml:3:18: listener.proxy_protocol: no proxy is believed, so each connection would be closed; {CURE}"
            ),
        ),
        (
            "[[listener]]\naddress = \"8080\"\nproxy_protocol = \"v2\"\n[[host]]\n",
            "v.toml:3:18: listener.proxy_protocol: this is a text; write true or false".to_owned(),
        ),
    ] {
        assert_eq!(problems(text), [problem], "{text}");
    }
}
