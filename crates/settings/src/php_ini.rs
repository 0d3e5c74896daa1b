//! Values of php.ini for the pool of a host, and their text in the syntax of php.ini.
//!
//! PHP reads a wrong line as the end of the file. Therefore names and values that the syntax cannot
//! hold are refused here, before a pool starts without its locked values. Tested below, and with
//! both programs of PHP through the binary (`crates/e2e/tests/e2e/php/pool_values.rs`).

use std::path::Path;
use thiserror::Error;

/// The most bytes of the variables and values of a pool, names included: the pool is started by a
/// message of at most 128 KiB, which has some of the values twice.
pub const POOL_VALUES_BYTES_MAX: usize = 32 * 1024;

/// The environment and the php.ini values of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PoolValues {
    /// Variables of the environment.
    pub environment: Vec<(String, String)>,
    /// Values that scripts may change.
    pub ini: Vec<IniValue>,
    /// Values that scripts cannot change.
    pub locked: Vec<IniValue>,
    /// The folder of the scripts for which `locked` holds; `None` without such values. Therefore
    /// hosts with locked values share a pool only if they also share the folder.
    pub scripts: Option<ScriptsFolder>,
}

/// A value of php.ini.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IniValue {
    name: String,
    value: String,
}

/// Why a name or a value cannot stand in php.ini.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnfitIni {
    /// The name has other characters.
    #[error("a name of php.ini has letters, digits, '.', '_' and '-', for example memory_limit")]
    Name,
    /// The server decides about the value.
    #[error("the server sets this value, because PHP finds the script of a request by it; leave it out")]
    Ours,
    /// The value has a line end or another control character.
    #[error("a value of php.ini has no control characters; write it in one line")]
    Control,
    /// Neither kind of quotes can hold the value.
    #[error("php.ini cannot hold a value with both ' and ${{; leave one of the two out")]
    Quotes,
}

impl UnfitIni {
    /// Whether the fault is in the name.
    pub fn is_about_name(self) -> bool {
        matches!(self, Self::Name | Self::Ours)
    }
}

impl IniValue {
    /// Checks the name and the value.
    ///
    /// # Errors
    /// The syntax of php.ini cannot hold them, or the server decides about the value.
    pub fn new(name: &str, value: &str) -> Result<Self, UnfitIni> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_of_name) {
            return Err(UnfitIni::Name);
        }
        if name == "cgi.fix_pathinfo" {
            return Err(UnfitIni::Ours);
        }
        if value.chars().any(char::is_control) {
            return Err(UnfitIni::Control);
        }
        if value.contains('\'') && value.contains("${") {
            return Err(UnfitIni::Quotes);
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes of the name and the value.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.value.len()
    }

    /// The value as it stands behind `=`. Constants of error levels stand without quotes, because
    /// PHP would take a quoted constant for 0. The first byte is always a letter, a digit or a
    /// quote, because otherwise PHP would quote the whole argument of `-d`.
    pub fn quoted(&self) -> String {
        let value = &self.value;
        if is_error_level(value) {
            let level = value.trim();
            if level.starts_with('~') { format!("0|{level}") } else { level.to_owned() }
        } else if value.is_empty() || value.contains('\'') {
            format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
        } else {
            format!("'{value}'")
        }
    }

    /// The line of a php.ini.
    pub fn line(&self) -> String {
        format!("{}={}", self.name, self.quoted())
    }
}

/// Whether `value` is an expression of constants such as `E_ALL & ~E_NOTICE`.
fn is_error_level(value: &str) -> bool {
    value.split(['&', '|', '^']).all(|part| {
        let part = part.trim();
        let part = part.strip_prefix('~').unwrap_or(part);
        let is_of_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
        part.len() > 2 && part.starts_with("E_") && part.bytes().all(is_of_name)
    })
}

/// A folder that a section `[PATH=]` of php.ini can name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptsFolder(String);

impl ScriptsFolder {
    /// The folder at `path`, absolute; `None` for a path that a section cannot name: the root of
    /// the file system, and a path with quotes, control characters or bytes that are not UTF-8.
    pub fn new(path: &Path) -> Option<Self> {
        let text = path.to_str()?.trim_end_matches('/');
        let is_fit = |c: char| !c.is_control() && c != '\'';
        (!text.is_empty() && text.chars().all(is_fit)).then(|| Self(text.to_owned()))
    }

    /// The header of the section for the scripts in this folder and below.
    pub fn section(&self) -> String {
        format!("[PATH='{}']", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_quotes_every_value_that_php_would_change() {
        for (name, value, line) in [
            ("memory_limit", "256M", "memory_limit='256M'"),
            ("user_agent", "", "user_agent=\"\""),
            ("user_agent", "a;b ${HOME} \"c\" \\", "user_agent='a;b ${HOME} \"c\" \\'"),
            ("user_agent", "it's \"a\\b\"", "user_agent=\"it's \\\"a\\\\b\\\"\""),
            ("error_reporting", "E_ALL & ~E_NOTICE", "error_reporting=E_ALL & ~E_NOTICE"),
            ("error_reporting", "E_ALL &", "error_reporting='E_ALL &'"),
            ("error_reporting", "~E_NOTICE & ~E_WARNING", "error_reporting=0|~E_NOTICE & ~E_WARNING"),
            ("error_reporting", " E_ALL", "error_reporting=E_ALL"),
            ("error_reporting", "E_", "error_reporting='E_'"),
        ] {
            assert_eq!(IniValue::new(name, value).expect("fit").line(), line);
        }
    }

    #[test]
    fn value_that_syntax_cannot_hold_is_refused() {
        for (name, value, refusal) in [
            ("", "1", UnfitIni::Name),
            ("a=b", "1", UnfitIni::Name),
            ("a]\nb", "1", UnfitIni::Name),
            ("cgi.fix_pathinfo", "0", UnfitIni::Ours),
            ("a", "1\n[PATH=/]", UnfitIni::Control),
            ("a", "1\0", UnfitIni::Control),
            ("a", "it's ${HOME}", UnfitIni::Quotes),
        ] {
            assert_eq!(IniValue::new(name, value), Err(refusal), "{name}: {value}");
        }
    }

    #[test]
    fn section_names_folders_below_the_root_only() {
        let section = |path: &str| ScriptsFolder::new(Path::new(path)).map(|folder| folder.section());
        assert_eq!(section("/srv/my site/").as_deref(), Some("[PATH='/srv/my site']"));
        for path in ["/", "//", "/srv/it's", "/srv/a\nb"] {
            assert_eq!(section(path), None);
        }
    }
}
