//! Classes of files: sizes, shares of requests, and shares of directories.
//!
//! Sizes and shares are the published values of SPECweb2005 Support, SPECweb96 and WebStone.
//! Results with these files may not use those names. Shares of directories follow Zipf's law.
//! Tested here against the published sums.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// The kind of a file set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetKind {
    /// Downloads and pages of a support site.
    Support,
    /// Small static files: four classes with nine files each.
    Specweb96,
    /// Five files, 500 bytes to 5 MB.
    Webstone,
}

impl SetKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Support, Self::Specweb96, Self::Webstone];

    /// The name on the command line and in paths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Support => "support",
            Self::Specweb96 => "specweb96",
            Self::Webstone => "webstone",
        }
    }

    /// Number of directories for a scale. Support: a quarter per simultaneous session
    /// (SPECweb2005). SPECweb96: ten times the square root of a fifth of the expected operations
    /// per second, as in its run rules. WebStone: one.
    pub fn directories(self, scale: u64) -> u64 {
        match self {
            Self::Support => scale.div_ceil(4).max(1),
            Self::Specweb96 => ((scale as f64 / 5.0).sqrt() * 10.0).ceil().max(1.0) as u64,
            Self::Webstone => 1,
        }
    }
}

impl fmt::Display for SetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SetKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("{text:?} is no file set: support, specweb96 or webstone"))
    }
}

/// A class of files.
#[derive(Clone, Debug, PartialEq)]
pub struct FileClass {
    /// The share of requests, 0 to 1.
    pub share: f64,
    /// Size in bytes and share within the class, for each file.
    pub files: Vec<(u64, f64)>,
}

/// A file of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PickedFile {
    /// The directory.
    pub directory: u64,
    /// The class.
    pub class: usize,
    /// The file within the class.
    pub file: usize,
    /// The size in bytes.
    pub bytes: u64,
}

/// The files of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "(SetKind, u64)", into = "(SetKind, u64)")]
pub struct FileSet {
    kind: SetKind,
    classes: Arc<[FileClass]>,
    /// Cumulative shares of the directories.
    directories: Arc<[f64]>,
}

impl From<(SetKind, u64)> for FileSet {
    fn from((kind, directories): (SetKind, u64)) -> Self {
        Self::new(kind, directories)
    }
}

impl From<FileSet> for (SetKind, u64) {
    fn from(files: FileSet) -> Self {
        (files.kind, files.directories())
    }
}

impl FileSet {
    /// The set of this kind with this number of directories, at least 1.
    pub fn new(kind: SetKind, directories: u64) -> Self {
        // Zipf: the share of the k-th directory is proportional to k^-alpha. SPECweb2005 has 1.2,
        // SPECweb99 has 1.
        let alpha = match kind {
            SetKind::Support => 1.2,
            SetKind::Specweb96 | SetKind::Webstone => 1.0,
        };
        let mut sum = 0.0;
        let weights: Vec<f64> = (1..=directories.max(1))
            .map(|rank| {
                sum += (rank as f64).powf(-alpha);
                sum
            })
            .collect();
        Self {
            kind,
            classes: classes(kind).into(),
            directories: weights.into_iter().map(|weight| weight / sum).collect(),
        }
    }

    /// The kind of the set.
    pub fn kind(&self) -> SetKind {
        self.kind
    }

    /// The classes of the set.
    pub fn classes(&self) -> &[FileClass] {
        &self.classes
    }

    /// Number of directories.
    pub fn directories(&self) -> u64 {
        self.directories.len() as u64
    }

    /// The share of requests for the `count` most popular directories.
    #[cfg(test)]
    pub(crate) fn share_of_top(&self, count: usize) -> f64 {
        self.directories[count.clamp(1, self.directories.len()) - 1]
    }

    /// Bytes of one directory.
    pub fn directory_bytes(&self) -> u64 {
        self.classes.iter().flat_map(|class| &class.files).map(|(bytes, _)| bytes).sum()
    }

    /// Mean and standard deviation of the requested size, in bytes.
    #[cfg(test)]
    pub(crate) fn mean_bytes(&self) -> (f64, f64) {
        let moment = |power: i32| -> f64 {
            let of = |class: &FileClass| -> f64 {
                class.files.iter().map(|(bytes, share)| share * (*bytes as f64).powi(power)).sum()
            };
            self.classes.iter().map(|class| class.share * of(class)).sum()
        };
        (moment(1), (moment(2) - moment(1).powi(2)).sqrt())
    }

    /// Draws a file.
    pub fn draw(&self, random: &mut Random) -> PickedFile {
        let at = random.unit();
        let directory =
            self.directories.partition_point(|&up_to| up_to <= at).min(self.directories.len() - 1);
        let class = drawn(random, self.classes.iter().map(|class| class.share));
        let files = &self.classes[class].files;
        let file = drawn(random, files.iter().map(|(_, share)| *share));
        PickedFile { directory: directory as u64, class, file, bytes: files[file].0 }
    }

    /// Every file of a directory.
    pub fn files(&self, directory: u64) -> impl Iterator<Item = PickedFile> + '_ {
        self.classes.iter().enumerate().flat_map(move |(class, files)| {
            let pick = move |(file, (bytes, _)): (usize, &(u64, f64))| PickedFile {
                directory,
                class,
                file,
                bytes: *bytes,
            };
            files.files.iter().enumerate().map(pick)
        })
    }

    /// The path of a file below the root of the set, with a leading `/`. Directory numbers have ten
    /// digits.
    pub fn path(&self, pick: PickedFile) -> String {
        format!("/{}/dir{:010}/class{}_{}", self.kind, pick.directory, pick.class, pick.file)
    }
}

/// An index, drawn with these probabilities.
fn drawn(random: &mut Random, shares: impl ExactSizeIterator<Item = f64>) -> usize {
    let (mut left, last) = (random.unit(), shares.len() - 1);
    shares
        .enumerate()
        .find_map(|(index, share)| {
            left -= share;
            (left < 0.0 || index == last).then_some(index)
        })
        .unwrap_or(last)
}

fn classes(kind: SetKind) -> Vec<FileClass> {
    match kind {
        SetKind::Support => support(),
        SetKind::Specweb96 => specweb96(),
        SetKind::Webstone => {
            [(500, 0.350), (5_000, 0.500), (50_000, 0.140), (500_000, 0.009), (5_000_000, 0.001)]
                .map(|(bytes, share)| FileClass { share, files: vec![(bytes, 1.0)] })
                .to_vec()
        }
    }
}

fn support() -> Vec<FileClass> {
    let class = |share, base: u64, step: u64, shares: &[f64]| FileClass {
        share,
        files: shares.iter().zip(0..).map(|(&share, index)| (base + index * step, share)).collect(),
    };
    vec![
        class(0.1366, 104_858, 104_858, &[0.273, 0.091, 0.165, 0.186, 0.285]),
        class(0.1261, 629_146, 125_829, &[0.579, 0.178, 0.243]),
        class(0.2840, 1_048_576, 492_831, &[0.275, 0.170, 0.170, 0.385]),
        class(0.2232, 4_194_304, 1_352_663, &[0.667, 0.333]),
        class(0.1250, 9_992_929, 0, &[1.0]),
        class(0.1051, 37_748_736, 0, &[1.0]),
    ]
}

/// Nine sizes in each of four classes, in steps of a tenth of the class's bound. Within a class the
/// shares follow a Poisson distribution around the middle.
fn specweb96() -> Vec<FileClass> {
    let mut weight = 1.0;
    let weights: Vec<f64> = (1..=9)
        .map(|file| {
            weight *= 5.0 / f64::from(file);
            weight
        })
        .collect();
    let sum: f64 = weights.iter().sum();
    let class = |(bound, share): (f64, f64)| FileClass {
        share,
        files: weights
            .iter()
            .zip(1..)
            .map(|(weight, file)| ((bound * f64::from(file) / 10.0).round() as u64, weight / sum))
            .collect(),
    };
    [(1024.0, 0.35), (10_240.0, 0.50), (102_400.0, 0.14), (1_024_000.0, 0.01)].map(class).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole() {
        for kind in SetKind::ALL {
            let set = FileSet::new(kind, 7);
            let whole: f64 = set.classes().iter().map(|class| class.share).sum();
            assert!((whole - 1.0).abs() < 1e-9, "{kind}: {whole}");
            for class in set.classes() {
                let whole: f64 = class.files.iter().map(|(_, share)| share).sum();
                assert!((whole - 1.0).abs() < 1e-9, "{kind}: {whole}");
            }
            assert!((set.share_of_top(7) - 1.0).abs() < 1e-12);
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }

    #[test]
    fn sums_are_the_published_ones() {
        let support = FileSet::new(SetKind::Support, 175);
        assert_eq!(support.directory_bytes(), 68_472_021);
        assert_eq!(support.files(0).count(), 16);
        let (mean, deviation) = support.mean_bytes();
        assert!((mean - 6_918_596.0).abs() < 1_000.0, "{mean}");
        assert!((deviation - 10.98e6).abs() < 0.01e6, "{deviation}");
        assert!((support.share_of_top(1) - 0.26).abs() < 0.01, "{}", support.share_of_top(1));
        assert!((support.share_of_top(10) - 0.65).abs() < 0.01, "{}", support.share_of_top(10));
        let small = FileSet::new(SetKind::Specweb96, 1);
        assert_eq!(small.files(0).count(), 36);
        assert!((small.directory_bytes() as f64 / 5.1e6 - 1.0).abs() < 0.02, "{}", small.directory_bytes());
    }

    #[test]
    fn drawn_classes_follow_shares() {
        let set = FileSet::new(SetKind::Support, 10);
        let mut random = Random::new(1, 1);
        let (mut classes, mut top, count) = ([0.0; 6], 0.0, 100_000);
        for _ in 0..count {
            let pick = set.draw(&mut random);
            classes[pick.class] += 1.0;
            top += f64::from(u8::from(pick.directory == 0));
            assert!(set.files(pick.directory).any(|file| file == pick));
        }
        for (class, count_of) in set.classes().iter().zip(classes) {
            assert!((count_of / f64::from(count) - class.share).abs() < 0.005);
        }
        assert!((top / f64::from(count) - set.share_of_top(1)).abs() < 0.005);
    }

    #[test]
    fn paths_are_of_one_width() {
        let set = FileSet::new(SetKind::Support, 10);
        let path = set.path(PickedFile { directory: 7, class: 2, file: 1, bytes: 1 });
        assert_eq!(path, "/support/dir0000000007/class2_1");
        assert_eq!((SetKind::Support.directories(162), SetKind::Support.directories(0)), (41, 1));
    }
}
