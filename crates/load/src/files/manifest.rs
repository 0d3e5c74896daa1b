//! The manifest of a file set: a file at its root that tells the injector what is there.
//!
//! A run asks the server for it first, so that the number of directories and the kind of pages need not be said twice.
//! Tested here and in `write`.

use serde::{Deserialize, Serialize};

use super::classes::Kind;

/// Its name.
pub const MANIFEST: &str = "vermeil-load.json";

/// What the pages of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// There are none.
    None,
    /// PHP, which asks a back end.
    Php,
    /// Plain files of the same sizes.
    Static,
}

/// What a file set has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Which set.
    pub files: Kind,
    /// How many directories.
    pub directories: u64,
    /// What its pages are.
    pub pages: Pages,
}

impl Manifest {
    /// As text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers") + "\n"
    }

    /// From text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let manifest = Manifest { files: Kind::Support, directories: 3, pages: Pages::Static };
        assert_eq!(Manifest::from_json(&manifest.to_json()), Ok(manifest));
        assert!(Manifest::from_json("{\"files\": \"other\"}").is_err());
    }
}
