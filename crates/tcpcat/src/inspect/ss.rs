//! `tcpcat ss`: lists a stack's connections as `ss` lists the kernel's.

use ackclock_cli::{Exit, Failure};
use serde_json::{Value, json};

use super::filter::Filter;
use super::{Client, Look, Seen};
use crate::args::SsArgs;
use crate::observe::stats_words;

/// Lists the connections that pass the filter.
pub(crate) fn run(args: &SsArgs) -> Exit {
    match list(args) {
        Ok(()) => Exit::Done,
        Err(failure) => crate::json::fail(&failure, args.json),
    }
}

fn list(args: &SsArgs) -> Result<(), Failure> {
    let filter = Filter::parse(&args.filter).map_err(Failure::usage)?;
    let mut client = Client::connect(args.control.path())?;
    if args.json {
        let mut answer = client.ask_for_any("connections", None)?;
        let all = answer["connections"].take();
        let kept =
            all.as_array().into_iter().flatten().filter(|seen| takes(&filter, seen)).collect::<Vec<_>>();
        crate::json::show(json!({ "connections": kept, "left_out": answer["left_out"] }));
        return Ok(());
    }
    let look = Look::take(&mut client)?;
    for line in lines(&look, &filter, args.info) {
        show!("{line}");
    }
    if look.left_out > 0 {
        say!("tcpcat: {} more connections are not listed", look.left_out);
    }
    Ok(())
}

fn takes(filter: &Filter, seen: &Value) -> bool {
    serde_json::from_value::<Seen>(seen.clone()).is_ok_and(|seen| filter.takes(&seen))
}

/// A heading and one line for each connection, or two with `info`. Columns are as wide as their contents.
fn lines(look: &Look, filter: &Filter, info: bool) -> Vec<String> {
    let heading = ["Id", "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Waits for"];
    let shown: Vec<&Seen> = look.connections.iter().filter(|seen| filter.takes(seen)).collect();
    let rows: Vec<[String; 7]> = std::iter::once(heading.map(str::to_owned))
        .chain(shown.iter().map(|seen| {
            [
                seen.id.clone(),
                seen.info.state().to_owned(),
                seen.info.receive_queue.to_string(),
                seen.info.send_queue.to_string(),
                seen.local.to_string(),
                seen.remote.to_string(),
                seen.waits_for.clone(),
            ]
        }))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        lines.push(cells.join("  ").trim_end().to_owned());
        if let Some(seen) = index.checked_sub(1).and_then(|index| shown.get(index)).filter(|_| info) {
            lines.push(format!("\t{}", stats_words(&seen.info)));
        }
    }
    lines
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A connection as a control socket describes it.
    pub(crate) fn seen() -> Seen {
        let zero = json!({ "secs": 0, "nanos": 0 });
        let mut info = json!({
            "state": "Established", "profile": "modern", "congestion": "cubic", "timestamps": true, "sack": true,
            "window_scale": [7, 8], "snd_mss": 1448, "rcv_mss": 1448, "pmtu": 1500, "backoff": 0, "cwnd": 14480,
            "ssthresh": null, "pacing_rate": null, "delivery_rate": 125_000, "in_flight": 2896, "unacked": 2896,
            "sacked": 0, "lost": 0, "snd_wnd": 65535, "rcv_wnd": 65535, "send_queue": 5000, "receive_queue": 7,
            "bytes_sent": 100_000, "bytes_acked": 97_104, "bytes_received": 20, "bytes_retransmitted": 0,
            "segments_sent": 70, "segments_received": 40, "retransmits": 0, "timeouts": 0, "out_of_order": 0,
            "last_sent": null, "last_received": null, "idle_left": { "secs": 42, "nanos": 0 }, "start_up": null,
            "recovery": "RackTlp",
        });
        for (name, millis) in [("srtt", 20), ("rttvar", 5), ("rtt_min", 18), ("rto", 220)] {
            let mut time = zero.clone();
            time["nanos"] = json!(millis * 1_000_000);
            info[name] = time;
        }
        let all = json!({
            "id": "3", "local": "10.9.0.2:40000", "remote": "10.9.0.1:80", "waits_for": "cwnd", "rto_estimator": "rfc6298",
            "traced": "no", "closing": false, "info": info,
        });
        serde_json::from_value::<Seen>(all).unwrap().whole()
    }

    #[test]
    fn connections_stand_under_the_headings_of_ss_and_its_words_behind_them() {
        let look = Look { at_us: 0, connections: vec![seen()], left_out: 0 };
        let all = lines(&look, &Filter::parse(&[]).unwrap(), true);
        assert_eq!(
            all[..2],
            [
                "Id  State  Recv-Q  Send-Q  Local Address:Port  Peer Address:Port  Waits for",
                "3   ESTAB  7       5000    10.9.0.2:40000      10.9.0.1:80        cwnd",
            ]
        );
        for word in [
            "\tcubic ts sack",
            " wscale:7,8",
            " rto:220",
            " rto_est:rfc6298",
            " rtt:20/5",
            " idle_left:42000",
            " cwnd:10",
            " notsent:2104",
        ] {
            assert!(all[2].contains(word), "{word}: {}", all[2]);
        }
        let none = lines(&look, &Filter::parse(&["dst".to_owned(), "10.9.0.2".to_owned()]).unwrap(), true);
        assert_eq!(none.len(), 1);
    }
}
