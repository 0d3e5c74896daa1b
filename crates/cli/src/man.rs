//! The man pages, from the definitions of the commands: `vermeil(1)`, and a page for each command.
//!
//! Tested in `tests.rs`: each page has every option of its command and every exit code.

use crate::{Exit, command, print};
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;
use std::path::{Path, PathBuf};

/// Write a man page to standard output: `vermeil man serve | man -l -`
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command; by default the page of vermeil itself
    command: Option<String>,
}

impl ManArgs {
    pub(crate) fn run(self) -> Exit {
        let name = match &self.command {
            Some(command) => format!("vermeil-{command}.1"),
            None => "vermeil.1".to_owned(),
        };
        match pages().into_iter().find(|page| page.file_name == name) {
            Some(page) => print::result(&page.text),
            None => print::failure(&format_args!("no man page {name}; see `vermeil help`"), Exit::Usage),
        }
    }
}

/// Writes the man pages into the folder `dir`, which must exist. The files written.
///
/// # Errors
/// A file cannot be written.
pub fn man_pages(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let write = |page: ManPage| {
        let path = dir.join(page.file_name);
        vermeil_io::output::write(&path, page.text)?;
        Ok(path)
    };
    pages().into_iter().map(write).collect()
}

pub(crate) struct ManPage {
    pub(crate) file_name: String,
    pub(crate) text: String,
}

/// The page of the program, then the pages of commands and subcommands.
pub(crate) fn pages() -> Vec<ManPage> {
    let mut program = command().disable_help_subcommand(true);
    program.build();
    let commands: Vec<_> =
        program.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let names: Vec<_> = commands.iter().map(|command| format!("vermeil-{}", command.get_name())).collect();
    let mut pages = vec![page(program, crate::EXAMPLES, &names)];
    for command in commands {
        let examples = match command.get_name() {
            "serve" => crate::serve::EXAMPLES,
            "check" => crate::check::EXAMPLES,
            "status" => crate::status::EXAMPLES,
            "reload" => crate::reload::EXAMPLES,
            "load" => crate::load::EXAMPLES,
            "topo" => crate::topo::EXAMPLES,
            "steer" => crate::steer::EXAMPLES,
            "sim" => crate::sim::EXAMPLES,
            "profile" => crate::profile::EXAMPLES,
            "scale" => crate::scale::EXAMPLES,
            name => unreachable!("{name} has no examples"),
        };
        let see_also = [format!("vermeil-{}", command.get_name())];
        let nested = command.get_subcommands().filter(|nested| nested.get_name() != "help");
        pages.extend(nested.map(|nested| page(nested.clone(), examples, &see_also)));
        pages.push(page(command, examples, &["vermeil".to_owned()]));
    }
    pages
}

fn page(command: Command, examples: &[&str], see_also: &[String]) -> ManPage {
    let has_commands = command.get_subcommands().any(|command| !command.is_hide_set());
    let source = format!("vermeil {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command).source(source).manual("Vermeil");
    let mut sections = Vec::new();
    render(&man, has_commands, &mut sections).expect("a vector takes every byte");
    let mut text = String::from_utf8(sections).expect("the definitions are UTF-8");
    text += &last_sections(examples, see_also).render();
    // Each section comes with the macros, but a page needs the macros only once.
    let macros = Roff::new().render();
    let text = macros.clone() + &text.replace(&macros, "");
    ManPage { file_name: man.get_filename(), text }
}

fn render(man: &Man, has_commands: bool, text: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(text)?;
    man.render_name_section(text)?;
    man.render_synopsis_section(text)?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    if has_commands {
        man.render_subcommands_section(text)?;
    }
    Ok(())
}

fn last_sections(examples: &[&str], see_also: &[String]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    roff.control("nf", []);
    for &example in examples {
        roff.text([roman(example)]);
    }
    roff.control("fi", []);
    roff.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        roff.control("TP", []);
        roff.text([bold((exit as u8).to_string())]);
        roff.text([roman(exit.meaning())]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let names: Vec<_> = see_also.iter().map(|name| format!("{name}(1)")).collect();
    roff.text([roman(names.join(", "))]);
    roff
}
