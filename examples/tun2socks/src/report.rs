//! Totals: counters, the table at the end, and the text of `--metrics`.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ackclock::Stack;
use ackclock::pump::Counts;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares the counters once, each with its row of the table and its name among the metrics.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $row:literal,)*) => {
        /// All counters but those of bytes.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Count,)*
            /// Bytes of connections.
            pub(crate) carried: Arc<Counts>,
        }

        impl Counters {
            /// Each with its name and its row.
            fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![
                    $((stringify!($name), $row, self.$name.get()),)*
                    ("bytes_up", "bytes up", self.carried.to_socket()),
                    ("bytes_down", "bytes down", self.carried.to_stream()),
                ]
            }
        }
    };
}

counters! {
    /// Clients that dialled.
    connections: "connections",
    /// Of these, those that the proxy could not serve.
    refused: "connections refused",
    /// Of these, those that a reset or an error ended.
    reset: "connections reset",
    /// Of these, those that ended because they were idle.
    idle: "connections idle for too long",
    /// SYNs dropped, to be repeated by their clients: too many wait for the same destination.
    crowded: "attempts put off",
    /// Queries of DNS answered from the pool.
    queries: "queries answered",
    /// Relays of datagrams requested from the proxy.
    relays: "relays",
    datagrams_up: "datagrams up",
    datagrams_down: "datagrams down",
    /// The number of relays was at its limit, or the proxy carries none.
    dropped_no_relay: "datagrams dropped, no relay",
    /// Too many datagrams were waiting.
    dropped_full: "datagrams dropped, no room",
    /// Longer than a packet, or not something that a relay may pass on.
    dropped_malformed: "datagrams dropped, too long",
    /// The client had not sent to where it came from.
    dropped_filtered: "datagrams dropped, filtered",
}

impl Counters {
    /// The table for a user; rows of zeros are left out, but not the first.
    pub(crate) fn table(&self) -> String {
        let rows = self.all().into_iter().enumerate().filter(|&(at, (.., value))| at == 0 || value > 0);
        rows.fold(String::new(), |mut table, (_, (_, row, value))| {
            writeln!(table, "{row:<32}{value:>16}").expect("a string takes everything");
            table
        })
    }

    /// In the format of Prometheus.
    fn metrics(&self) -> String {
        self.all().into_iter().fold(String::new(), |mut text, (name, _, value)| {
            let name = format!("tun2socks_{name}_total");
            writeln!(text, "# TYPE {name} counter\n{name} {value}").expect("a string takes everything");
            text
        })
    }
}

/// Serves the gateway's and the stack's numbers over HTTP.
pub(crate) async fn serve(at: SocketAddr, stack: Stack, counters: Arc<Counters>) -> io::Result<()> {
    let listener = TcpListener::bind(at).await?;
    tokio::spawn(async move {
        loop {
            let Ok((client, _)) = listener.accept().await else {
                // Out of descriptors, most likely.
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let text = format!("{}{}", counters.metrics(), stack.metrics());
            // One after the other: a slow one ends after its time.
            timeout(REPLY_TIME_MAX, reply(client, &text)).await.ok();
        }
    });
    Ok(())
}

async fn reply(mut client: TcpStream, text: &str) -> io::Result<()> {
    let (reader, mut writer) = client.split();
    let mut lines = BufReader::new(reader.take(REQUEST_MAX)).lines();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    writer.write_all(head.as_bytes()).await?;
    writer.write_all(text.as_bytes()).await?;
    writer.shutdown().await
}

const REPLY_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest request.
const REQUEST_MAX: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_is_not_zero_and_the_metrics_have_all() {
        let counters = Counters::default();
        counters.relays.add(3);
        let table = counters.table();
        let rows: Vec<_> = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(rows, [["connections", "0"], ["relays", "3"]]);
        let metrics = counters.metrics();
        assert!(metrics.contains("\ntun2socks_relays_total 3\n"), "{metrics}");
        assert_eq!(metrics.lines().count(), 2 * counters.all().len());
    }
}
