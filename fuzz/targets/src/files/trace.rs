//! Trace files: whatever is in them, all that `tcplab` makes of a trace comes to an end.

use std::hint::black_box;

use ackclock_chart::svg;
use ackclock_trace::explain::{account, byte_sentences, sentences};
use ackclock_trace::file::Trace;
use ackclock_trace::{export, graphs};

/// Reads a trace, explains it and converts it.
pub(crate) fn trace(bytes: &[u8]) -> u64 {
    let Ok(mut trace) = Trace::read(bytes) else { return 1 };
    use_as_trace(&trace);
    let connections = trace.connections().count();
    trace.keep_connections(|number| number == 0);
    assert_eq!(trace.connections().count(), connections.min(1));
    1
}

/// Explains and converts a trace.
pub(super) fn use_as_trace(trace: &Trace) {
    for source in trace.connections() {
        black_box(account(source).to_json());
        black_box(sentences(source));
        for seq in [0, 1, u32::MAX] {
            black_box(byte_sentences(source, seq));
        }
    }
    let mut into = Vec::new();
    export::csv(trace, &mut into).expect("memory takes it");
    export::json_lines(trace, &mut into).expect("memory takes it");
    export::pcapng(trace, &mut into).expect("memory takes it");
    let shown = graphs::worst(trace).into_iter().take(10).collect();
    for (_, figure) in graphs::all(trace, &shown) {
        black_box(svg(&figure));
    }
    black_box(graphs::report(trace, "any", &shown));
}
