//! Which segments ask the receiver to push.

use super::*;
use crate::profile::Choices;

// Tests: RFC 9293 MUST-61
#[test]
fn the_last_of_the_written_data_is_pushed_and_nothing_else() {
    let tcp = TcpConfig {
        nodelay: true,
        choices: Choices { pacing: false, ..tcp_config().choices },
        ..tcp_config()
    };
    let (mut host, listener) = Host::listening(ListenOptions { tcp: Some(tcp), ..on_port(PORT) });
    let (id, _) = host.accepted(listener, 4000);
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[7; 2930]).unwrap());
    let pushes = |host: &mut Host| -> Vec<(usize, bool)> {
        host.sent().iter().map(|sent| (sent.payload.len(), sent.flags.contains(Flags::PSH))).collect()
    };
    assert_eq!(pushes(&mut host), [(1460, false), (1460, false), (10, true)]);
    host.endpoint.update(host.now, id, |connection, now| connection.shutdown(now).unwrap());
    assert_eq!(pushes(&mut host), [(0, false)], "a FIN alone");
}
