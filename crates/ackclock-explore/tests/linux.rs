//! The model of Linux: its table is that of docs/linux.md, and each way in which it differs is met.

use ackclock_explore::{Bounds, Entry, Model, ROWS, Row, SETUPS, Script, Setup, Variation, explore};

#[test]
fn table_has_the_rows_of_the_document() {
    let document = include_str!("../../../docs/linux.md");
    let shown =
        document.split("<!-- rows: begin -->\n").nth(1).and_then(|rest| rest.split("<!-- rows: end").next());
    let lines = shown.expect("the document has a table").lines().skip(2);
    let listed: Vec<_> = lines.map(|line| line.split('|').nth(1).unwrap_or_default().trim()).collect();
    let modelled: Vec<_> = ROWS.iter().map(|row| row.what).collect();
    assert_eq!(modelled, listed);
}

#[test]
fn document_of_small_worlds_says_how_each_row_is_modelled() {
    let document = include_str!("../../../docs/robustness.md");
    let shown = document.split("<!-- linux-rows: begin -->\n").nth(1);
    let shown = shown.and_then(|rest| rest.split("<!-- linux-rows: end -->").next());
    let line = |row: &Row| match row.model {
        Model::Varied(entries) => {
            let names: Vec<_> = entries.iter().map(|entry| format!("`{}`", entry.name)).collect();
            format!("| {} | {} |\n", row.what, names.join(", "))
        }
        Model::Never(why) => format!("| {} | no: {why} |\n", row.what),
    };
    let table: String = ROWS.iter().map(line).collect();
    assert_eq!(shown, Some(format!("| row | in the worlds of a Linux |\n|---|---|\n{table}").as_str()));
}

#[test]
fn each_way_has_one_row_and_one_name() {
    let modelled = ROWS.iter().filter(|row| matches!(row.model, Model::Varied(_))).count();
    let entries: Vec<_> = Variation::entries().collect();
    println!("{modelled} rows of {} are modelled, in {} ways", ROWS.len(), entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let twin = entries[..at].iter().find(|it| it.name == entry.name || it.variation == entry.variation);
        assert!(twin.is_none(), "{entry:?} and {twin:?}");
    }
}

/// Worlds with a bound of states, and the ways of a Linux that are met within it.
const WORLDS: [(&str, usize, &[Variation]); 7] = [
    (
        "linux",
        10_000,
        &[Variation::CloseAtGap, Variation::Blockless, Variation::Silent, Variation::FinReported],
    ),
    ("linux-nagle", 3_000, &[Variation::SmallBehindFull]),
    (
        "linux-window",
        20_000,
        &[
            Variation::EdgeResetChallenged,
            Variation::FinWaits,
            Variation::SmallWaits,
            Variation::OldSegmentsWindow,
        ],
    ),
    ("linux-late", 20_000, &[Variation::LateAck, Variation::AckOneBefore]),
    ("linux-time-wait", 40_000, &[Variation::FinUnreported, Variation::TimeWaitUnreported]),
    ("linux-closing", 10_000, &[Variation::OrphanResets, Variation::AbortUnsaid, Variation::AbortInTimeWait]),
    ("linux-crossing", 3_000, &[Variation::OptionsAgain, Variation::ShutdownGivesUp]),
];

#[test]
fn server_acts_in_each_way_of_a_linux() {
    let listed = |entry: &&Entry| WORLDS.iter().any(|(.., ways)| ways.contains(&entry.variation));
    let unlisted: Vec<_> = Variation::entries().filter(|entry| !listed(entry)).collect();
    assert!(unlisted.is_empty(), "no world is known to meet {unlisted:?}");
    let of_table = SETUPS.iter().filter(|setup| setup.variations > 0).map(|setup| setup.name);
    assert!(of_table.eq(WORLDS.map(|(name, ..)| name)), "the worlds of a Linux are these");
    std::thread::scope(|scope| {
        for (name, states, ways) in WORLDS {
            scope.spawn(move || meets(name, states, ways));
        }
    });
}

fn meets(name: &str, states: usize, ways: &[Variation]) {
    let setup = Setup::find(name).expect("it is in the table");
    // Another test lets the network run out.
    let report = explore(setup, &Bounds { run_out_every: u32::MAX, ..Bounds::states(states) });
    let found = report.counterexample.map(|found| format!("{}\n{}", found.breach, found.script));
    assert_eq!(found, None, "{name}");
    for way in ways {
        assert!(
            report.varied.contains_key(way),
            "{name}: no {way:?} in {states} states: {:?}",
            report.varied
        );
    }
}

/// Scripts, each with the last segment that its moves bring. Unlike this stack, a Linux
const SCRIPTS: [(&str, &str); 8] = [
    // reports a FIN beyond a gap,
    (
        "world linux\ncall client write 4\ncall client close\ndeliver server 2\nvary fin-reported 0",
        "server > client: seg(ACK).seq(1).ack(1).window(64).opt(Opt::Sack(vec![(5, 6)]))",
    ),
    // ends its stream although text waits beyond a gap,
    (
        "world linux\ncall client write 4\ndeliver server 1\ncall server close\nvary close-at-gap 1",
        "server > client: seg(FIN | ACK).seq(1).ack(1).window(64)",
    ),
    // resets an orphan at a FIN beyond a gap,
    (
        "world linux\ncall client write 1\nlose server 0\ncall client close\ncall server close\n\
         vary orphan-resets 0",
        "server > client: seg(RST | ACK).seq(2).ack(1).window(64)",
    ),
    // sends a small segment behind a full one,
    (
        "world linux-nagle\nvary small-behind-full 0",
        "server > client: seg(PSH | ACK).seq(3).ack(1).window(64).data(&pattern(3, 1))",
    ),
    // challenges a reset from the window's edge,
    (
        "world linux-window\ncall client write 4\nlose server 0\ncall client abort\n\
         vary edge-reset-challenged 0",
        "server > client: seg(ACK).seq(1).ack(1).window(4)",
    ),
    // sends its FIN into a closed window only when a timer fires,
    (
        "world linux-window\ncall server write 4\ncall server shutdown\nvary fin-waits 1\n\
         deliver client 0\ncall client read\ndeliver server 0\ntimer client\ntimer server",
        "server > client: seg(FIN | ACK).seq(5).ack(1).window(4)",
    ),
    // takes no acknowledgement of a FIN one before RCV.NXT, and so sends again,
    (
        "world linux-late\ncall client shutdown\ncall server write 1\ndeliver server 0\ntimer server\n\
         deliver client 0\ntimer client\nvary ack-one-before 0\nlose client 0\ndeliver client 0\n\
         lose server 0\ntimer server",
        "server > client: seg(PSH | ACK).seq(1).ack(2).window(63).data(&pattern(1, 1))",
    ),
    // and reports no duplicate in TIME-WAIT.
    (
        "world linux-time-wait\ncall client write 1\nduplicate server 0\ncall server shutdown\n\
         deliver client 0\ncall client shutdown\ndeliver server 2\ndeliver server 0\n\
         vary time-wait-unreported 1",
        "server > client: seg(ACK).seq(2).ack(3).window(62)",
    ),
];

#[test]
fn a_linux_answers_as_its_row_says() {
    for (text, last) in SCRIPTS {
        let script: Script = text.parse().expect(text);
        let shown = script.to_string();
        println!("{shown}");
        assert_eq!(script.replay(), Ok(()), "{shown}");
        let brought = shown.lines().last().and_then(|line| line.split('#').nth(1)).unwrap_or_default().trim();
        assert_eq!(brought, last, "{shown}");
    }
}

/// A Linux takes the acknowledgement of a segment that ends at RCV.NXT, and so sends nothing again.
#[test]
fn acknowledgement_of_repeated_text_counts_for_a_linux_alone() {
    for (how, sends_again) in [("deliver server 0", true), ("vary late-ack 0", false)] {
        let text = format!(
            "world linux-late\ncall client write 2\ncall server write 1\ntimer server\ndeliver client 0\n\
             deliver server 0\ntimer client\n{how}\ndeliver client 0\ndeliver client 0\nlose server 0\n\
             timer server\ntimer server\ntimer server"
        );
        let script: Script = text.parse().expect("it is a script");
        let shown = script.to_string();
        let end = shown.rsplit(how).next().unwrap_or_default();
        let sent_again =
            end.lines().any(|line| line.contains("#     server > client") && line.contains(".data("));
        assert_eq!(sent_again, sends_again, "{shown}");
    }
}
