//! Answers to command lines that cannot be read.

use crate::run;

fn refused(words: &[&str], wanted: &[&str]) {
    let said = run(words).failed(2);
    for wanted in wanted {
        assert!(said.contains(wanted), "{words:?}: no {wanted:?} in: {said}");
    }
}

#[test]
fn every_error_shows_the_usage_of_its_subcommand() {
    for words in [
        &["compare"][..],
        &["compare", "--cc", "reno", "--rate", "10"],
        &["compare", "--cc", "renoo"],
        &["compare", "--cc", "reno", "--seeds", "0"],
        &["compare", "--cc", "reno", "--fresh"],
        &["compare", "--cc", "reno", "--bufer", "1bdp"],
        &["compare", "--cc", "reno", "--json", "a", "--json", "b"],
        &["compare", "--cc", "reno", "--jobs"],
    ] {
        refused(words, &["Usage: tcplab compare "]);
    }
    refused(&["run", "--seed", "x", "a.toml"], &["Usage: tcplab run ", "<SCENARIO.toml>"]);
    refused(&["convert", "--to", "gif", "a"], &["Usage: tcplab convert "]);
}

#[test]
fn a_subcommand_that_does_not_exist_is_answered_with_those_that_do() {
    refused(&["compar"], &["'compare'", "tip: the commands are run, model, between, shell, compare,"]);
    refused(&["rnu", "fig6.toml"], &["'rnu'", "tip: the commands are run, model, between, shell, compare,"]);
    refused(&["help", "rnu"], &["tip: the commands are run, model, between, shell, compare,"]);
}

#[test]
fn an_option_of_another_subcommand_is_answered_with_its_place() {
    refused(&["run", "--buffer", "1bdp", "fig6.toml"], &["'--buffer'", "tip: --buffer belongs to: compare"]);
    refused(&["--pcap", "a", "run"], &["tip: options follow the command; --pcap belongs to: run"]);
    refused(&["run", "--xyzzy", "fig6.toml"], &["tip: `tcplab run --help` lists its options"]);
    refused(&["-v"], &["tip: `tcplab --help` lists the commands"]);
    refused(&["compare", "--bufer", "1bdp"], &["tip: a similar argument exists: '--buffer'"]);
}

#[test]
fn help_and_version_are_answered_on_stdout() {
    assert!(run(&["compare", "--help"]).done().contains("Usage: tcplab compare [OPTIONS]"));
    assert!(run(&["--version"]).done().starts_with("tcplab "));
}
