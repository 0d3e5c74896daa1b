//! The callers of functions: which function, and which application code, is responsible for them.
//!
//! A kernel function that does not scale is seldom at fault: its callers are. For each sample in a
//! chosen function, the *owner* is the nearest frame outwards that belongs to a chosen module.

use std::collections::HashMap;

use crate::StackProfile;
use crate::profile::FunctionId;

/// The callers of the functions of a pattern.
#[derive(Clone, Debug)]
pub struct Callers {
    /// Functions that match the pattern.
    pub functions: Vec<FunctionId>,
    /// Weight of the samples with a matching function in the stack.
    pub weight: u64,
    /// Weight by direct caller of the outermost matching frame, heaviest first; `None` for samples
    /// whose stack ends there.
    pub direct: Vec<(Option<FunctionId>, u64)>,
    /// Weight by owner, heaviest first; `None` for samples without a frame of the module.
    pub owners: Vec<(Option<FunctionId>, u64)>,
    /// The module of the owners.
    pub module: String,
}

/// Finds the callers of all functions whose name contains `pattern`.
///
/// Owners are looked for in modules whose name contains `module`; by default in the program, which
/// is the module that most stacks have outermost.
pub fn callers_of(profile: &StackProfile, pattern: &str, module: Option<&str>) -> Callers {
    let module = module.map_or_else(|| program(profile), str::to_owned);
    let matches: Vec<bool> =
        profile.functions.iter().map(|function| function.name.contains(pattern)).collect();
    let owns: Vec<bool> =
        profile.functions.iter().map(|function| function.module.contains(&module)).collect();
    let mut weight = 0;
    let (mut direct, mut owners) = (HashMap::new(), HashMap::new());
    for sample in &profile.samples {
        let stack = profile.stack(sample);
        // The outermost match: with several, such as a function that calls its own slow path, the
        // caller of the group is meant.
        let Some(at) = stack.iter().rposition(|function| matches[function.0 as usize]) else { continue };
        let callers = &stack[at + 1..];
        weight += sample.weight;
        *direct.entry(callers.first().copied()).or_insert(0) += sample.weight;
        let owner = callers.iter().find(|function| owns[function.0 as usize]).copied();
        *owners.entry(owner).or_insert(0) += sample.weight;
    }
    let functions =
        (0..profile.functions.len() as u32).filter(|id| matches[*id as usize]).map(FunctionId).collect();
    Callers { functions, weight, direct: ranked(direct), owners: ranked(owners), module }
}

/// The weight of the samples by their outermost function with one of these texts in the name,
/// heaviest first; `None` for samples without such a function.
///
/// With the names of an event loop's parts and of the code that the loop runs, these are the parts
/// and the handlers: each sample counts for exactly one.
pub(super) fn by_outermost(profile: &StackProfile, texts: &[String]) -> Vec<(Option<FunctionId>, u64)> {
    let is_match = |name: &str| texts.iter().any(|text| name.contains(text.as_str()));
    let matches: Vec<bool> = profile.functions.iter().map(|function| is_match(&function.name)).collect();
    let mut weights = HashMap::new();
    for sample in &profile.samples {
        let outermost = profile.stack(sample).iter().rfind(|function| matches[function.0 as usize]);
        *weights.entry(outermost.copied()).or_insert(0) += sample.weight;
    }
    ranked(weights)
}

fn ranked(weights: HashMap<Option<FunctionId>, u64>) -> Vec<(Option<FunctionId>, u64)> {
    let mut ranked: Vec<_> = weights.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked
}

/// The module of the program: by its command line where that names one, else the heaviest module
/// besides the kernel.
pub(crate) fn program(profile: &StackProfile) -> String {
    let mut weights: HashMap<&str, u64> = HashMap::new();
    for sample in &profile.samples {
        for function in profile.stack(sample) {
            *weights.entry(&profile.function(*function).module).or_default() += sample.weight;
        }
    }
    let command = profile.origin.command.first().and_then(|path| std::path::Path::new(path).file_name());
    if let Some(name) = command.and_then(|name| name.to_str())
        && weights.contains_key(name)
    {
        return name.to_owned();
    }
    let programs =
        weights.into_iter().filter(|(module, _)| !module.starts_with('[') && !module.contains(".so"));
    programs
        .max_by_key(|(module, weight)| (*weight, *module))
        .map_or_else(String::new, |(module, _)| module.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

    fn names(profile: &StackProfile, ranked: &[(Option<FunctionId>, u64)]) -> Vec<(String, u64)> {
        let name =
            |id: &Option<FunctionId>| id.map_or("-".to_owned(), |id| profile.function(id).name.clone());
        ranked.iter().map(|(id, weight)| (name(id), weight / 1_003_009)).collect()
    }

    #[test]
    fn kernel_function_is_charged_to_nearest_program_frame() {
        let profile = profile(&[
            ("main;walk;k_syscall;k_lookup", 45),
            ("main;serve;k_syscall;k_lookup;k_lookup", 30),
            ("k_lookup", 5),
            ("main;walk", 20),
        ]);
        let callers = callers_of(&profile, "k_lookup", None);
        assert_eq!(callers.weight / 1_003_009, 80);
        assert_eq!(names(&profile, &callers.direct), [("k_syscall".into(), 75), ("-".into(), 5)]);
        assert_eq!(
            names(&profile, &callers.owners),
            [("walk".into(), 45), ("serve".into(), 30), ("-".into(), 5)]
        );
        assert_eq!(callers.module, "prog");
    }

    #[test]
    fn each_sample_counts_for_one_outermost_function() {
        let profile = profile(&[
            ("main;turns;Core::io;app::wake", 60),
            ("main;turns;task;app::serve;app::flush;k_send", 30),
            ("main;turns", 10),
        ]);
        let texts = ["app::", "Core::io"].map(str::to_owned);
        assert_eq!(
            names(&profile, &by_outermost(&profile, &texts)),
            [("Core::io".into(), 60), ("app::serve".into(), 30), ("-".into(), 10)]
        );
    }
}
