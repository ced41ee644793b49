//! `tcpcat ss`: lists a stack's connections as `ss` lists the kernel's.

use ackclock_cli::{Exit, Failure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::filter::Filter;
use super::{Client, Look, Seen, SeenListener};
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
    // As for ss: listeners are shown on request, by a flag or by their state.
    let with_listeners = args.listeners || args.all || filter.names_a_state();
    if args.json {
        crate::json::show(described(&mut client, &filter, !args.listeners, with_listeners)?);
        return Ok(());
    }
    let look = if args.listeners { Look::default() } else { Look::take(&mut client)? };
    let listening: Listening =
        if with_listeners { client.ask("listeners", None)? } else { Listening::default() };
    let process = args.process.then(|| client.ask::<Process>("stack", None)).transpose()?;
    let rows = Rows::new(&look, &listening.listeners, &filter, process.map(|process| process.pid));
    for line in rows.lines(args.info, !args.no_heading) {
        show!("{line}");
    }
    let left_out = look.left_out + listening.left_out;
    if left_out > 0 {
        say!("tcpcat: {left_out} more are not listed");
    }
    Ok(())
}

/// The output of `--json`: connections and listeners as the stack describes them.
fn described(
    client: &mut Client,
    filter: &Filter,
    with_connections: bool,
    with_listeners: bool,
) -> Result<Value, Failure> {
    let mut ask = |what: &str, takes: &dyn Fn(&Value) -> bool| -> Result<(Vec<Value>, u64), Failure> {
        let mut answer = client.ask_for_any(what, None)?;
        let kept =
            answer[what].as_array_mut().into_iter().flat_map(std::mem::take).filter(|seen| takes(seen));
        Ok((kept.collect(), answer["left_out"].as_u64().unwrap_or(0)))
    };
    let (mut shown, mut left_out) = (json!({}), 0);
    if with_connections {
        let (kept, more) = ask("connections", &|seen| {
            serde_json::from_value::<Seen>(seen.clone()).is_ok_and(|seen| filter.takes(&seen))
        })?;
        (shown["connections"], left_out) = (kept.into(), left_out + more);
    }
    if with_listeners {
        let (kept, more) = ask("listeners", &|seen| {
            serde_json::from_value::<SeenListener>(seen.clone())
                .is_ok_and(|seen| filter.takes_listener(&seen))
        })?;
        (shown["listeners"], left_out) = (kept.into(), left_out + more);
    }
    shown["left_out"] = left_out.into();
    Ok(shown)
}

/// The stack's listeners.
#[derive(Debug, Default, Deserialize)]
struct Listening {
    listeners: Vec<SeenListener>,
    left_out: u64,
}

/// The process that runs the stack.
#[derive(Debug, Deserialize)]
struct Process {
    pid: u32,
}

/// The table, with what `ss -i` shows below each connection.
struct Rows {
    rows: Vec<([String; 8], Option<String>)>,
}

impl Rows {
    /// Those that pass the filter.
    fn new(look: &Look, listeners: &[SeenListener], filter: &Filter, pid: Option<u32>) -> Self {
        let process = pid.map_or_else(String::new, |pid| format!("pid={pid}"));
        let connections = look.connections.iter().filter(|seen| filter.takes(seen)).map(|seen| {
            let row = [
                seen.id.clone(),
                seen.info.state().to_owned(),
                seen.info.receive_queue.to_string(),
                seen.info.send_queue.to_string(),
                seen.local.to_string(),
                seen.remote.to_string(),
                seen.waits_for.clone(),
                process.clone(),
            ];
            (row, Some(stats_words(&seen.info)))
        });
        let listeners = listeners.iter().filter(|seen| filter.takes_listener(seen)).map(|seen| {
            // As for ss: what waits to be accepted, and the most that may.
            let row = [
                "-".to_owned(),
                "LISTEN".to_owned(),
                seen.waiting.to_string(),
                seen.backlog.to_string(),
                seen.local.clone(),
                "*:*".to_owned(),
                "-".to_owned(),
                process.clone(),
            ];
            (row, None)
        });
        Self { rows: listeners.chain(connections).collect() }
    }

    /// A heading, and one line for each, or two with `info`. Columns are as wide as their contents.
    fn lines(&self, info: bool, heading: bool) -> Vec<String> {
        let with_process = self.rows.iter().any(|(row, _)| !row[7].is_empty());
        let head = [
            "Id",
            "State",
            "Recv-Q",
            "Send-Q",
            "Local Address:Port",
            "Peer Address:Port",
            "Waits for",
            if with_process { "Process" } else { "" },
        ];
        let head = heading.then(|| (head.map(str::to_owned), None));
        let rows: Vec<_> = head.iter().chain(&self.rows).collect();
        let width = |column: usize| rows.iter().map(|(row, _)| row[column].len()).max().unwrap_or(0);
        let widths: [usize; 8] = std::array::from_fn(width);
        let mut lines = Vec::new();
        for (row, words) in rows {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            lines.push(cells.join("  ").trim_end().to_owned());
            lines.extend(words.iter().filter(|_| info).map(|words| format!("\t{words}")));
        }
        lines
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A connection as a control socket describes it.
    pub(crate) fn seen() -> Seen {
        let mut info = json!({
            "state": "established", "profile": "modern", "congestion": "cubic", "timestamps": true, "sack": true,
            "window_scale": [7, 8], "snd_mss": 1448, "rcv_mss": 1448, "pmtu": 1500, "backoff": 0, "cwnd": 14480,
            "ssthresh": null, "pacing_rate": null, "delivery_rate": 125_000, "in_flight": 2896, "unacked": 2896,
            "sacked": 0, "lost": 0, "snd_wnd": 65535, "rcv_wnd": 65535, "send_queue": 5000, "receive_queue": 7,
            "bytes_sent": 100_000, "bytes_acked": 97_104, "bytes_received": 20, "bytes_retransmitted": 0,
            "segments_sent": 70, "segments_received": 40, "retransmits": 0, "timeouts": 0, "out_of_order": 0,
            "last_sent_us": null, "last_received_us": null, "idle_left_us": 42_000_000, "start_up": null,
            "recovery": "rack-tlp",
        });
        for (name, millis) in [("srtt", 20), ("rttvar", 5), ("rtt_min", 18), ("rto", 220)] {
            info[format!("{name}_us")] = json!(millis * 1000);
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
        let all = Rows::new(&look, &[], &Filter::parse(&[]).unwrap(), None).lines(true, true);
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
        let filter = Filter::parse(&["dst".to_owned(), "10.9.0.2".to_owned()]).unwrap();
        let none = Rows::new(&look, &[], &filter, None).lines(true, true);
        assert_eq!(none.len(), 1);
    }

    #[test]
    fn listeners_stand_with_their_queue_and_its_limit() {
        let listener = |local: &str| SeenListener { local: local.to_owned(), waiting: 2, backlog: 128 };
        let all = [listener("*:7000"), listener("[fd00::1]:80"), listener("10.9.0.2:*")];
        let lines = |filter: &[&str]| {
            let words: Vec<String> = filter.iter().map(|word| (*word).to_owned()).collect();
            Rows::new(&Look::default(), &all, &Filter::parse(&words).unwrap(), Some(7)).lines(true, false)
        };
        assert_eq!(lines(&[])[0], "-  LISTEN  2  128  *:7000        *:*  -  pid=7");
        assert_eq!(lines(&["state", "listening"]).len(), 3);
        assert_eq!(lines(&["state", "established"]).len(), 0);
        assert_eq!(lines(&["sport", "=", ":80"]), ["-  LISTEN  2  128  [fd00::1]:80  *:*  -  pid=7"]);
        assert_eq!(lines(&["src", "10.0.0.0/8"]).len(), 1);
    }
}
