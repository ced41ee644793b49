//! The commands in the fenced blocks of the documents, as words for a program's own parser.

use std::fs;
use std::path::{Path, PathBuf};

/// The places of all commands of `program` in the README, in `docs` and in the guide, each with its words
/// after the program's name.
///
/// # Panics
/// The documents cannot be read.
#[must_use]
pub fn commands(program: &str) -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut documents = vec![root.join("README.md")];
    for folder in ["docs", "docs/guide"] {
        documents.extend(pages(&root.join(folder)));
    }
    let mut found = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).expect("a document");
        let name = document.file_name().unwrap_or_default().to_string_lossy();
        found.extend(
            commands_of(&text, program).into_iter().map(|(line, words)| (format!("{name}:{line}"), words)),
        );
    }
    found
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("a folder of documents").map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.sort();
    pages
}

/// The commands of a text, by the number of their first line.
fn commands_of(text: &str, program: &str) -> Vec<(usize, Vec<String>)> {
    let (mut found, mut fenced, mut begun) = (Vec::new(), false, None::<(usize, String)>);
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced {
            continue;
        }
        let (number, mut command) = begun.take().unwrap_or((index + 1, String::new()));
        command.push_str(line.split(" #").next().unwrap_or(line));
        if let Some(first) = command.strip_suffix('\\') {
            begun = Some((number, first.to_owned()));
            continue;
        }
        found.extend(words_after(&command, program).map(|words| (number, words)));
    }
    found
}

/// The words after the program's name, up to a pipe or a redirection, if the line runs the program.
fn words_after(line: &str, program: &str) -> Option<Vec<String>> {
    let mut words = line.split_whitespace().peekable();
    words.next_if(|&word| word == "$");
    words.next_if(|&word| word == "sudo");
    match words.next()? {
        "cargo" if words.next() == Some("run") => {
            let cargo: Vec<&str> = words.by_ref().take_while(|&word| word != "--").collect();
            if !cargo.windows(2).any(|pair| matches!(pair[0], "-p" | "--bin") && pair[1] == program) {
                return None;
            }
        }
        word if word == program => {}
        _ => return None,
    }
    let end = |word: &&str| !matches!(*word, "|" | ">" | "<" | "&" | "&&" | ";");
    Some(words.take_while(end).map(|word| word.trim_matches(['"', '\'']).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_fences_over_several_lines_and_behind_cargo() {
        let text = "tool outside\n```sh\n$ tool one --a 1   # why\ntool two \\\n    --b | less\nother tool\n\
                    cargo run --release --bin tool -- three > file\ncargo run -p other -- tool\n```\n";
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let expected = [(3, words("one --a 1")), (4, words("two --b")), (7, words("three"))];
        assert_eq!(commands_of(text, "tool"), expected);
    }
}
