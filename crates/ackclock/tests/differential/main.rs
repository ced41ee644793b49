//! Makes the same calls on `tokio::net` over the kernel's loopback and on a stack of this crate with the same
//! addresses, and compares the answers.
//!
//! The cases are written once and compiled twice (`kernel`, `stack`): a method that one side lacks, or takes
//! other arguments, does not compile. Each difference is listed with its reason in `src/differences.md`,
//! which is also part of the crate's documentation. The test fails if an answer differs without being listed,
//! and if a listed answer agrees.

mod answers;
mod kernel;
mod stack;
mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use answers::{Answer, Case};
use tokio::task::LocalSet;
use tokio::time::timeout;

/// The least number of cases; one that is taken out is missed.
const CASES_MIN: usize = 222;

/// No case waits for longer: one that hangs says so.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_stack_answers_as_the_kernel_does_but_for_what_is_listed() {
    let theirs = kernel::cases::all();
    let ours = stack::cases::all();
    assert!(theirs.len() >= CASES_MIN, "{} cases, and there were {CASES_MIN}", theirs.len());
    let v6 = kernel::side::has_v6();
    if let Err(error) = &v6 {
        println!("skipped: the cases of IPv6: the kernel's loopback has none of it here ({error})");
    }

    let mut listed = table::listed();
    let mut wrong = Vec::new();
    for (theirs, ours) in theirs.into_iter().zip(ours) {
        let name = theirs.name;
        let line = listed.remove(name);
        if theirs.v6 && v6.is_err() {
            continue;
        }
        let (theirs, ours) = (run(theirs).await, run(ours).await);
        match (first_difference(&theirs, &ours), line) {
            (None, None) => {}
            (None, Some(_)) => wrong.push(format!("{name}: listed, and the answers agree")),
            (Some((kernel, stack)), None) => {
                let case = name.replace('_', " ");
                wrong.push(format!("| {case} | {kernel} | {stack} | not listed |"));
            }
            (Some((kernel, stack)), Some(line)) if line.kernel == kernel && line.stack == stack => {}
            (Some((kernel, stack)), Some(line)) => {
                wrong.push(format!("{name}: `{kernel}` and `{stack}`, and the list says {line:?}"));
            }
        }
    }
    wrong.extend(listed.keys().map(|name| format!("{name}: listed, and there is no such case")));
    assert!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_case_has_a_name_of_its_own() {
    let mut counts = BTreeMap::new();
    for case in kernel::cases::all() {
        *counts.entry(case.name).or_insert(0) += 1;
    }
    counts.retain(|_, count| *count > 1);
    assert!(counts.is_empty(), "{counts:?}");
}

async fn run(case: Case) -> Vec<Answer> {
    let local = LocalSet::new();
    let task = async { timeout(PATIENCE, tokio::task::spawn_local((case.run)())).await };
    let outcome = local.run_until(task).await;
    match outcome {
        Ok(answers) => answers.unwrap_or_else(|panic| panic!("{}: {panic}", case.name)),
        Err(_) => vec![Answer { text: "hangs".to_owned(), os: None }],
    }
}

/// The first answers that are not the same. An error of the stack need not have a number; if it has one, it
/// is the kernel's.
fn first_difference(theirs: &[Answer], ours: &[Answer]) -> Option<(String, String)> {
    let none = Answer { text: "nothing more".to_owned(), os: None };
    (0..theirs.len().max(ours.len())).find_map(|index| {
        let (theirs, ours) = (theirs.get(index).unwrap_or(&none), ours.get(index).unwrap_or(&none));
        let same = theirs.text == ours.text && (ours.os.is_none() || ours.os == theirs.os);
        (!same).then(|| (theirs.to_string(), ours.to_string()))
    })
}
