//! Goal: the account shows the rate that theory allows beside the rate reached, for the controllers and
//! connections that the theory covers.

use ackclock_sim::scenario::{Loss, Reordering};
use ackclock_sim::units::Share;

use super::*;

/// Ten megabytes at 100 Mbit/s and a round trip of 40 ms, one packet in a hundred lost, the window never a
/// limit.
fn lossy(congestion: &str) -> TracedSource {
    through(congestion, 4_000_000, 100)
}

fn through(congestion: &str, window: u64, loss_per_myriad: u32) -> TracedSource {
    let tcp = TcpSettings { congestion: Some(congestion.to_owned()), ..TcpSettings::default() };
    let peer = TcpSettings::default().fixed_window(window);
    let wide = Direction::new(Rate::mbit(100), Span::millis(20));
    let there = wide.clone().loss(Loss::Independent(Share::per_million(loss_per_myriad * 100)));
    transfer(10_000_000, tcp.traced(), peer, [there, wide]).remove(0)
}

#[test]
fn reno_and_cubic_reach_about_what_theory_allows() {
    for (congestion, has_curve) in
        [("reno", false), ("newreno", false), ("cubic", true), ("cubic-plain", true)]
    {
        let source = lossy(congestion);
        let allowed = account(&source).allowed.unwrap_or_else(|| panic!("{congestion}"));
        assert_eq!(allowed.cubic.is_some(), has_curve, "{congestion}");
        assert!((20..=120).contains(&allowed.reductions), "{allowed:?}");
        assert!((6900..=7200).contains(&allowed.segments), "{allowed:?}");
        // NewReno counts acknowledgements by default.
        let by_acks = allowed.reno_by_acks.filter(|_| congestion == "newreno").map(|(rate, _)| rate);
        let ratio = allowed.reached / by_acks.unwrap_or(allowed.own());
        assert!((0.7..=1.3).contains(&ratio), "{congestion}: {allowed:?}");
        // At 40 ms and this loss CUBIC behaves as Reno.
        assert_eq!(allowed.own(), allowed.reno, "{congestion}");
        let said = sentence(&source, "In theory");
        assert_eq!(said.contains("counts acknowledgements of 2.0 segments"), !has_curve, "{said}");
        assert!(said.contains("Mathis") && said.contains("RFC 9438") == has_curve, "{said}");
        assert_eq!(account(&source).to_json()["theory"]["reno"], allowed.reno);
    }
}

#[test]
fn nothing_is_said_of_controllers_that_follow_no_such_formula() {
    for congestion in ["bbr", "vegas", "tahoe"] {
        let source = lossy(congestion);
        assert_eq!(account(&source).allowed, None, "{congestion}");
        assert!(is_silent_on(&source, "In theory"));
    }
}

#[test]
fn nothing_is_said_after_few_losses_or_where_the_peer_sets_the_pace() {
    let rare = account(&through("reno", 4_000_000, 2));
    assert!(rare.allowed.is_none() && rare.episodes < REDUCTIONS_MIN && rare.again.bytes > 0, "{rare:?}");
    let narrow = account(&through("reno", 8_000, 100));
    assert!(narrow.allowed.is_none() && narrow.episodes >= REDUCTIONS_MIN, "{narrow:?}");
}

#[test]
fn timeouts_are_reductions_whose_silence_no_formula_counts() {
    let tcp = TcpSettings::profile("reno-1990").traced();
    let lossy = path().loss(Loss::Independent(Share::percent(8)));
    let source = transfer(2_000_000, tcp, TcpSettings::default(), [lossy, path()]).remove(0);
    let account = account(&source);
    let allowed = account.allowed.unwrap_or_else(|| panic!("{account:#?}"));
    let in_a_row = account.waits.timeouts.iter().filter(|silence| silence.count > 1).count() as u64;
    assert!(in_a_row > 0, "{account:#?}");
    assert_eq!(allowed.timeouts + in_a_row, account.waits.timeouts.len() as u64);
    assert!(
        allowed.timeouts > 3 && allowed.reductions == account.episodes + allowed.timeouts,
        "{account:#?}"
    );
    assert!(allowed.reached < allowed.own(), "{allowed:?}");
    let said = sentence(&source, "In theory");
    assert!(said.ends_with("timeouts are among the reductions; their silence is in no formula."), "{said}");
}

#[test]
fn reductions_that_were_taken_back_do_not_count() {
    let reorder = Some(Reordering { share: Share::percent(1), by: Span::millis(60) });
    let there = Direction { reorder, ..path().loss(Loss::Independent(Share::percent(1))) };
    let tcp = TcpSettings::default();
    let account = account(&transfer(5_000_000, tcp.clone().traced(), tcp, [there, path()]).remove(0));
    let undone: u64 = account.verdicts.undone.values().sum();
    let allowed = account.allowed.unwrap_or_else(|| panic!("{account:#?}"));
    assert!(undone > 3, "{account:#?}");
    assert_eq!(allowed.reductions, account.episodes + allowed.timeouts - undone);
}

#[test]
fn no_controller_of_the_peer_is_guessed() {
    let tcp = TcpSettings::default();
    let lossy = path().loss(Loss::Independent(Share::percent(1)));
    let receiver = transfer(3_000_000, tcp.clone(), tcp.traced(), [lossy, path()]).remove(0);
    let account = account(&receiver);
    assert!(account.bytes_received > 3_000_000 - 1 && account.allowed.is_none(), "{account:?}");
    let named: Vec<String> =
        sentences(&receiver).into_iter().skip(1).filter(|said| said.contains("controller")).collect();
    assert_eq!(named, Vec::<String>::new());
}
