//! The refusals of `access`.

use super::problems;

#[test]
fn wrong_access_is_refused() {
    for (text, problem) in [
        (
            "[[host]]\naccess.allow = []\n",
            "v.toml:2:16: host.access.allow: no network is named, so no client would be let in; name one, or leave the key \
             out",
        ),
        (
            "[[host]]\naccess.deny = [\"10.0.0.1/8\"]\n",
            "v.toml:2:16: host.access.deny: \"10.0.0.1/8\": the address has bits behind the first 8; write 10.0.0.0/8",
        ),
        (
            "[[host]]\naccess.users = \"/missing/users\"\n",
            "v.toml:2:16: host.access.users: cannot read /missing/users: No such file or directory (os error 2); make it \
             with htpasswd -B -c, readable for the server's user",
        ),
        (
            "[[host]]\naccess.users = \"/\"\n",
            "v.toml:2:16: host.access.users: / is no file; name a file that htpasswd makes",
        ),
        (
            "[[host]]\naccess.users = \"off\"\n",
            "v.toml:2:16: host.access.users: \"off\" is for routes; leave the key out, because a host has no users by default",
        ),
        (
            "[[host]]\n[[host.route]]\nprefix = \"/a\"\naction = \"files\"\naccess.users = \"off\"\n",
            "v.toml:5:16: host.route.access.users: \"off\": the host has no users, so no password is asked for; leave the key \
             out",
        ),
        (
            "[[host]]\naccess.realm = \"Members\"\n",
            "v.toml:2:16: host.access.realm: no password is asked for here; name the users with users = \"FILE\"",
        ),
        (
            "[[host]]\naccess.rate = { requests = 0 }\n",
            "v.toml:2:28: host.access.rate.requests: 0 is not from 1 to 1000000",
        ),
        (
            "[[host]]\naccess.rate = { per = \"1s\" }\n",
            "v.toml:2:15: host.access.rate.requests: this key must be there",
        ),
        (
            "[[host]]\naccess.rate = { requests = 1, burst = 2, delayed = 3 }\n",
            "v.toml:2:52: host.access.rate.delayed: 3 is more than burst, which is 2",
        ),
        (
            "[[host]]\naccess.rate = { requests = 1, by = \"cookie\" }\n",
            "v.toml:2:36: host.access.rate.by: \"cookie\": write \"client\", \"all\", or \"field:NAME\"",
        ),
        (
            "[[host]]\naccess.in_progress = 5\n",
            "v.toml:2:22: host.access.in_progress: this is a whole number; write a table, begun by [host.access.in_progress]",
        ),
        (
            "[[host]]\naccess.in_progress = {}\n",
            "v.toml:2:22: host.access.in_progress.requests: this key must be there",
        ),
        (
            "[[host]]\naccess.in_progress = { requests = 0 }\n",
            "v.toml:2:35: host.access.in_progress.requests: 0 is not from 1 to 1000000",
        ),
        (
            "[[host]]\naccess.in_progress = { requests = 1, code = 404 }\n",
            "v.toml:2:45: host.access.in_progress.code: 404 is not one of 503, 429",
        ),
        (
            "[[host]]\naccess.in_progress = { requests = 1, by = \"field:\" }\n",
            "v.toml:2:43: host.access.in_progress.by: \"field:\": write \"client\", \"all\", or \"field:NAME\"",
        ),
    ] {
        assert_eq!(problems(text), [problem], "{text}");
    }
}

#[test]
fn unreadable_users_of_a_host_are_the_only_problem() {
    let text = "[[host]]\naccess.users = \"/\"\n[[host.route]]\nprefix = \"/a\"\naction = \"files\"\n\
                access.users = \"off\"\n[[host.route]]\nprefix = \"/b\"\naction = \"files\"\naccess.realm = \"B\"\n";
    let problem = "v.toml:2:16: host.access.users: / is no file; name a file that htpasswd makes";
    assert_eq!(problems(text), [problem]);
}
