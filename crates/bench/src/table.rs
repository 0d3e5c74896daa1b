//! A table as text: for a terminal with aligned columns, for a page as Markdown.
//!
//! The first columns hold names and are aligned left, the others numbers and are aligned right.

/// Rows of cells under a head.
#[derive(Clone, Debug)]
pub struct CellTable {
    head: Vec<String>,
    names: usize,
    rows: Vec<Vec<String>>,
}

impl CellTable {
    /// An empty table whose first `names` columns are names.
    pub fn new(names: usize, head: &[&str]) -> Self {
        Self { head: head.iter().map(|&cell| cell.into()).collect(), names, rows: Vec::new() }
    }

    /// Adds a row; cells beyond the head's are dropped, missing ones stay empty.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = row.into_iter().collect();
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }

    /// The table for a terminal.
    pub fn to_text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.head[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        let rule: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        for row in [&self.head, &rule].into_iter().chain(&self.rows) {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column < self.names { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// The table as GitHub-flavored Markdown.
    pub fn to_markdown(&self) -> String {
        let rule: Vec<String> = (0..self.head.len())
            .map(|column| if column < self.names { "---" } else { "---:" }.into())
            .collect();
        let mut text = String::new();
        for row in [&self.head, &rule].into_iter().chain(&self.rows) {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> CellTable {
        let mut table = CellTable::new(1, &["server", "µs"]);
        table.push(["nginx".into(), "10.5".into()]);
        table.push(["a".into()]);
        table
    }

    #[test]
    fn names_go_left_and_numbers_right() {
        assert_eq!(table().to_text(), "server    µs\n──────  ────\nnginx   10.5\na\n");
    }

    #[test]
    fn markdown_says_the_alignment() {
        assert_eq!(table().to_markdown(), "| server | µs |\n| --- | ---: |\n| nginx | 10.5 |\n| a |  |\n");
    }
}
