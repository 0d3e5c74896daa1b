//! A text table. The first column is aligned to the left, the others to the right, with two spaces
//! between.

use std::fmt;

/// Rows under a heading.
#[derive(Clone, Debug)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns. Without any column name, the table has no heading line.
    pub fn new(heading: &[&str]) -> Self {
        Self { heading: heading.iter().map(|&name| name.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.heading).chain(&self.rows);
        let width = |column: usize| {
            lines().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        for line in lines().filter(|line| line.iter().any(|cell| !cell.is_empty())) {
            let mut text = String::new();
            for (index, (cell, width)) in line.iter().zip(&widths).enumerate() {
                match index {
                    0 => text += &format!("{cell:<width$}"),
                    _ => text += &format!("  {cell:>width$}"),
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}
