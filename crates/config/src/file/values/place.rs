//! The place of PHP: `auto`, `/usr/sbin/php-fpm8.2`, `unix:/run/php.sock`, `127.0.0.1:9000`,
//! `php.example:9000`.
//!
//! Reading has no side effects: a name stays a name until it is resolved. Tested below.

use super::Listen;
use std::{path::PathBuf, str::FromStr};
use vermeil_address::UNIX;

/// The place of PHP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpPlace {
    /// Our own pool, of the php-fpm or php-cgi that is found.
    Own,
    /// Our own pool, of this php-fpm or php-cgi.
    Program(PathBuf),
    /// A FastCGI pool that runs already, behind a UNIX socket.
    Unix(PathBuf),
    /// A FastCGI pool that runs already, at an address or a name.
    Tcp(Listen),
}

/// Why a text is no [`PhpPlace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhpPlaceError {
    /// It has none of the forms.
    #[error(
        "write \"auto\", the path of a php-fpm or php-cgi, \"unix:/PATH\", or the address of a pool such as \"127.0.0.1:9000\" or \"php.example:9000\""
    )]
    Form,
    /// A relative path.
    #[error("write the path of the socket from the root, such as \"unix:/run/php/php-fpm.sock\"")]
    UnixPath,
}

impl FromStr for PhpPlace {
    type Err = PhpPlaceError;

    fn from_str(text: &str) -> Result<Self, PhpPlaceError> {
        if text == "auto" {
            return Ok(Self::Own);
        }
        if text.starts_with('/') {
            return Ok(Self::Program(text.into()));
        }
        if let Some(path) = text.strip_prefix(UNIX) {
            let path = PathBuf::from(path);
            return path.is_absolute().then_some(Self::Unix(path)).ok_or(PhpPlaceError::UnixPath);
        }
        // A port alone is not accepted, because nothing says on which machine the pool is.
        let place = text.parse().ok().filter(|_| text.contains(':'));
        let port = match &place {
            Some(Listen::Address(addr)) => addr.port(),
            Some(Listen::Name(_, port)) => *port,
            Some(Listen::Everywhere(_) | Listen::Unix(_)) | None => 0,
        };
        place.filter(|_| port != 0).map(Self::Tcp).ok_or(PhpPlaceError::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_read() {
        for (text, place) in [
            ("auto", PhpPlace::Own),
            ("/usr/sbin/php-fpm", PhpPlace::Program("/usr/sbin/php-fpm".into())),
            ("unix:/run/php.sock", PhpPlace::Unix("/run/php.sock".into())),
            ("127.0.0.1:9000", PhpPlace::Tcp(Listen::Address("127.0.0.1:9000".parse().unwrap()))),
            ("[::1]:9000", PhpPlace::Tcp(Listen::Address("[::1]:9000".parse().unwrap()))),
            ("php:9000", PhpPlace::Tcp(Listen::Name("php".to_owned(), 9000))),
        ] {
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
        for text in ["", "x", "9000", ":9000", "127.0.0.1:0", "php:0", "php:", "php", "php:99999", "::1"] {
            assert_eq!(text.parse::<PhpPlace>(), Err(PhpPlaceError::Form), "{text}");
        }
        for text in ["unix:", "unix:php.sock"] {
            assert_eq!(text.parse::<PhpPlace>(), Err(PhpPlaceError::UnixPath), "{text}");
        }
    }
}
