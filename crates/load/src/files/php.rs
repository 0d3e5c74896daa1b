//! The dynamic pages: PHP that queries the back end, prints the records, and pads the page to the
//! published size.
//!
//! Plain PHP without extensions. The back end's records are escaped. A page without an answer of
//! the back end ends in another mark, which the injector counts as wrong bytes. Tested with real
//! PHP in `crates/e2e/tests/e2e/php/load.rs`, on machines with PHP.

use super::pages::{SetPage, end_mark, padding};

/// The file that all pages include. `backend` is the address of the back end, `host:port`.
pub(super) fn common(backend: &str) -> String {
    COMMON.replace("@BACKEND@", &backend.replace(['\'', '\\'], ""))
}

/// The PHP text of a page.
pub(super) fn page(page: &SetPage) -> String {
    let (command, arguments) = match page.name {
        "home" => ("languages", "[]"),
        "search" => ("find", "['text' => $_GET['q'] ?? '']"),
        "catalog" => ("products", "['category' => $_GET['category'] ?? '0']"),
        "product" => ("product", "['id' => $_GET['product'] ?? '0']"),
        "filecatalog" => {
            ("files", "['product' => $_GET['product'] ?? '0', 'system' => $_GET['system'] ?? '0']")
        }
        _ => ("file", "['id' => $_GET['file'] ?? '0']"),
    };
    PAGE.replace("@NAME@", page.name)
        .replace("@COMMAND@", command)
        .replace("@ARGUMENTS@", arguments)
        .replace("@PADDING@", &padding(page.padding_bytes))
        .replace("@END@", &end_mark(page.name))
}

const COMMON: &str = r#"<?php
// Asks the back end: GET /COMMAND?NAME=VALUE… answers with a line "0 ok" and one record per line,
// fields between bars.
function ask(string $command, array $arguments): ?array {
    [$host, $port] = explode(':', getenv('VERMEIL_LOAD_BACKEND') ?: '@BACKEND@', 2);
    $socket = @pfsockopen($host, (int)$port, $number, $error, 3.0);
    if (!$socket) return null;
    stream_set_timeout($socket, 5);
    $query = http_build_query($arguments);
    $request = "GET /$command?$query HTTP/1.1\r\nHost: $host\r\n\r\n";
    if (@fwrite($socket, $request) !== strlen($request)) { fclose($socket); return null; }
    $length = null;
    while (($line = fgets($socket)) !== false && rtrim($line) !== '') {
        if (stripos($line, 'content-length:') === 0) $length = (int)substr($line, 15);
    }
    if ($length === null) { fclose($socket); return null; }
    $text = '';
    while (strlen($text) < $length && ($part = fread($socket, $length - strlen($text))) !== false && $part !== '') $text .= $part;
    if (strlen($text) !== $length) { fclose($socket); return null; }
    $lines = explode("\n", rtrim($text, "\n"));
    if (array_shift($lines) !== '0 ok') return null;
    return array_map(fn($line) => explode('|', $line), $lines);
}

function table(array $records): void {
    echo "<table>\n";
    foreach ($records as $record) {
        echo '<tr><td>', implode('</td><td>', array_map('htmlspecialchars', $record)), "</td></tr>\n";
    }
    echo "</table>\n";
}
"#;

/// Near the end of a page that found no back end.
pub(crate) const NO_BACK_END: &str = "without its back end-->";

const PAGE: &str = r#"<?php require __DIR__ . '/common.php';
header('Content-Type: text/html; charset=utf-8');
header('Cache-Control: no-store');
$records = ask('@COMMAND@', @ARGUMENTS@);
?>
<!DOCTYPE html>
<html><head><title>@NAME@</title></head><body><h1>@NAME@</h1>
<?php if ($records === null): ?>
</body><!--vermeil-load @NAME@ without its back end--></html>
<?php return; endif; table($records); ?>
</body>
@PADDING@-->
@END@"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_without_back_end_says_so() {
        assert!(PAGE.contains(NO_BACK_END));
    }
}
