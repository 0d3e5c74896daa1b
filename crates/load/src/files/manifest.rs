//! The manifest of a file set: a file in the root that describes the set to the injector.
//!
//! A run first requests the manifest, so that the user need not repeat the number of directories
//! and the kind of pages. Tested here and in `write`.

use serde::{Deserialize, Serialize};

use super::classes::SetKind;

/// The manifest's file name.
pub const MANIFEST: &str = "vermeil-load.json";

/// The kind of pages in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetPages {
    /// No pages.
    None,
    /// PHP pages, which query a back end.
    Php,
    /// Plain files of the same sizes.
    Static,
}

/// The description of a file set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The kind of the set.
    pub files: SetKind,
    /// Number of directories.
    pub directories: u64,
    /// The kind of pages.
    pub pages: SetPages,
}

impl Manifest {
    /// Writes the manifest as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers") + "\n"
    }

    /// Parses a manifest.
    ///
    /// # Errors
    /// The text is not a manifest; the error is the parser's.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_manifest_reads_back() {
        let manifest = Manifest { files: SetKind::Support, directories: 3, pages: SetPages::Static };
        assert_eq!(Manifest::from_json(&manifest.to_json()), Ok(manifest));
        assert!(Manifest::from_json("{\"files\": \"other\"}").is_err());
    }
}
