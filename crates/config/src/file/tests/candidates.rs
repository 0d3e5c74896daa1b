//! The refusals of `try`.

use super::problems;

#[test]
fn wrong_candidates_are_refused() {
    for (text, problem) in [
        (
            "[[host]]\ntry = [\"/index.html\"]\n",
            "v.toml:2:8: host.try: \"/index.html\": write \"{path}\" first, because a file answers before other paths",
        ),
        (
            "[[host]]\ntry = [\"{path}\", \"index.php\"]\n",
            "v.toml:2:18: host.try: \"index.php\": write {path}, {path} with a text behind it such as \"{path}.html\", or a \
             path such as \"/index.php\"",
        ),
        (
            "[[host]]\nphp = true\ntry = [\"{path}\", \"/index.php?q={path}\"]\n",
            "v.toml:3:18: host.try: \"/index.php?q={path}\": write {path}, {path} with a text behind it such as \
             \"{path}.html\", or a path such as \"/index.php\"",
        ),
        (
            "[[host]]\nphp = true\ntry = [\"{path}\", \"/index.php?x\"]\n",
            "v.toml:3:18: host.try: \"/index.php?x\": leave out the query, because a program gets the query of the request",
        ),
        (
            "[[host]]\ntry = [\"{path}\", \"/../x\"]\n",
            "v.toml:2:18: host.try: \"/../x\": write the path as it is when decoded, without dot segments and empty segments",
        ),
        (
            "[[host]]\ntry = [\"{path}\", \"/index.php\"]\n",
            "v.toml:2:18: host.try: \"/index.php\": nothing runs this program here, and its text is never sent; write php = \
             true for *.php, or a route with action = \"cgi\"",
        ),
        (
            "[[host]]\n[[host.route]]\naction = \"redirect\"\nto = \"/x\"\ntry = [\"{path}\", \"/x\"]\n",
            "v.toml:5:7: host.route.try: only a route with action = \"files\" has this key",
        ),
    ] {
        assert_eq!(problems(text), [problem], "{text}");
    }
}
