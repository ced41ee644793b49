//! One test on many seeds: every seed runs on a network of its own, and the report leads to the failure.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ackclock_sim::scenario::Loss;
use ackclock_sim::units::Share;
use ackclock_sim::{Scenario, VirtualNetwork, seeds};

use super::support::{ends, give, path, take, two};

/// The download of 50 kB over a path that loses 5 %. Returns after how many milliseconds it is complete.
fn download(net: &mut VirtualNetwork) -> Result<u64, Box<dyn std::error::Error>> {
    let (client, listener, addr) = ends(net, "a", "b");
    let bytes = net.run(async move {
        tokio::spawn(give(listener, vec![7; 50_000]));
        take(client.connect(addr).await?).await
    })??;
    assert_eq!(bytes.len(), 50_000);
    Ok(net.now().as_millis())
}

fn lossy() -> Scenario {
    two(path().loss(Loss::Independent(Share::percent(5))))
}

/// The report of a test that is expected to fail.
fn report(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("a seed fails");
    *panic.downcast::<String>().expect("a message")
}

/// The capture that a report names, removed when it has been read.
fn capture(report: &str) -> Vec<u8> {
    let line = report.lines().find_map(|line| line.strip_prefix("its packets: ")).expect("a capture");
    let path = PathBuf::from(line.strip_suffix(" (tcplab explain FILE, or Wireshark)").expect("a path"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

#[test]
fn each_seed_runs_once_on_a_network_of_its_own() {
    let took = Mutex::new(BTreeMap::new());
    seeds(1..=20, &lossy(), |net| {
        let seed = net.seed();
        assert!(took.lock().unwrap().insert(seed, download(net)?).is_none(), "seed {seed} ran before");
        Ok(())
    });
    let took = took.into_inner().unwrap();
    assert_eq!(took.keys().copied().collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    // Two round trips at least, and losses differ with the seed.
    assert!(took.values().all(|millis| (80..60_000).contains(millis)), "{took:?}");
    assert!(took.values().collect::<std::collections::BTreeSet<_>>().len() > 3, "{took:?}");
}

#[test]
fn the_report_names_the_smallest_seed_that_fails_and_how_to_run_it() {
    let fails = |net: &mut VirtualNetwork| {
        download(net)?;
        let seed = net.seed();
        if [13, 9, 17].contains(&seed) { Err(format!("seed {seed} is too slow").into()) } else { Ok(()) }
    };
    let said = report(|| seeds((1..=20).rev(), &lossy(), fails));
    let name = "seeds::the_report_names_the_smallest_seed_that_fails_and_how_to_run_it";
    let begins = format!(
        "seed 9 fails, the smallest of 20 seeds that does: seed 9 is too slow\n\
         run it alone: ACKCLOCK_SEED=9 cargo test {name}\nits packets: "
    );
    assert!(said.starts_with(&begins), "{said}");
    // The file begins as pcapng does, and has the 50 kB twice: as they left and as they arrived.
    let bytes = capture(&said);
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!((100_000..200_000).contains(&bytes.len()), "{}", bytes.len());
    let last: Vec<&str> = said.lines().skip_while(|line| *line != "the last of them:").skip(1).collect();
    assert_eq!(last.len(), 12, "{said}");
    assert!(last.iter().all(|line| line.contains(" packet ") && line.contains("80")), "{said}");
}

#[test]
fn a_panic_is_a_failure_and_its_message_is_in_the_report() {
    let said = report(|| {
        seeds(4..=5, &lossy(), |net| {
            assert!(net.seed() == 4, "five is right out");
            Ok(())
        });
    });
    assert!(
        said.starts_with("seed 5 fails, the smallest of 2 seeds that does: five is right out\n"),
        "{said}"
    );
    capture(&said);
}

#[test]
fn a_test_that_uses_more_than_its_seed_is_found_out() {
    let runs = AtomicUsize::new(0);
    let first_fails = |_: &mut VirtualNetwork| match runs.fetch_add(1, Ordering::Relaxed) {
        0 => Err("only once".into()),
        _ => Ok(()),
    };
    let said = report(|| seeds([3], &lossy(), first_fails));
    assert!(said.starts_with("seed 3 fails: only once\n"), "{said}");
    assert!(
        said.contains("\nit passed when it ran again: the test uses something that the seed does not"),
        "{said}"
    );
    capture(&said);
}
