//! One connection in the form that any version reads: [`Endpoint::freeze_portable`] and
//! [`Endpoint::thaw_portable`].

use ackclock_form::{Form, FormError, Reader, Writer};
use ackclock_wire::SeqNum;

use super::Endpoint;
use super::frozen::{FreezeError, ThawError};
use super::slot::Owner;
use crate::connection::Portable;
use crate::{Connection, ConnectionId, Instant, TcpConfig};

impl Endpoint {
    /// Takes a connection out of the endpoint in the form that any version reads, and any controller:
    /// numbers, options, windows, bytes, and the figures of the path. The rest begins again at the endpoint
    /// that [goes on](Self::thaw_portable) with it, which may have another clock.
    ///
    /// # Errors
    /// As [`freeze_connection`](Self::freeze_connection); a connection in TIME-WAIT, or whose handshake is
    /// not complete, has no such form either.
    pub fn freeze_portable(&mut self, now: Instant, id: ConnectionId) -> Result<Vec<u8>, FreezeError> {
        let now = self.advance(now);
        let connection = self.freezable(id)?.connection.portable(now).ok_or(FreezeError::NoConnection)?;
        let mut out = Writer::default();
        out.extend_from_slice(&MAGIC);
        VERSION.write(&mut out);
        connection.write(&mut out);
        self.take_out(id.index);
        Ok(out.into_bytes())
    }

    /// Whether the bytes begin as the portable form of a connection.
    #[must_use]
    pub fn is_portable(form: &[u8]) -> bool {
        form.starts_with(&MAGIC)
    }

    /// Goes on with the connection that [`freeze_portable`](Self::freeze_portable) took out of another
    /// endpoint, with the settings `tcp`. Bytes that were sent and not acknowledged count as lost until the
    /// peer says otherwise; segments beyond a gap come again. A loss takes about two round trips to repair,
    /// so a connection that moves more often than that may stand still.
    ///
    /// ```
    /// use ackclock_core::congestion::Registry;
    /// use ackclock_core::testing::Pair;
    /// use ackclock_core::{Endpoint, EndpointConfig, Instant, ListenAddr, ListenOptions, TcpConfig};
    ///
    /// let config = |addr: &str| EndpointConfig::new(vec![addr.parse().expect("an address")], [1; 32]);
    /// let mut pair = Pair::at(Instant::from_millis(1), config("10.0.0.1"), config("10.0.0.2"));
    /// let port = ListenAddr { addr: None, port: Some(7) };
    /// let listener = pair.server.listen(pair.now, ListenOptions::new(port))?;
    /// let [client, _server] = pair.open("10.0.0.2:7".parse()?, listener);
    ///
    /// let form = pair.client.freeze_portable(pair.now, client)?;
    /// pair.client = Endpoint::new(config("10.0.0.1"), pair.now);
    /// let vegas = TcpConfig { congestion: Registry::builtin().find("vegas")?, ..TcpConfig::default() };
    /// let id = pair.client.thaw_portable(pair.now, &form, vegas)?;
    /// assert_eq!(pair.client.connection(id).expect("it is open").info(pair.now).congestion, "vegas");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are of a later version or of something else, or contradict themselves; or the endpoint could
    /// not have opened this connection. Nothing has changed then.
    pub fn thaw_portable(
        &mut self,
        now: Instant,
        form: &[u8],
        tcp: TcpConfig,
    ) -> Result<ConnectionId, ThawError> {
        let now = self.advance(now);
        self.check_freezable()?;
        let mut input = Reader::new(form);
        if input.bytes(MAGIC.len())? != MAGIC {
            return Err(FormError::Unsupported("this is not the portable form of a connection").into());
        }
        if u32::read(&mut input)? != VERSION {
            return Err(FormError::Unsupported("the portable form is of a later version").into());
        }
        let portable = Portable::read(&mut input)?;
        input.end()?;
        self.check_free(&portable.tuple)?;
        let environment = self.environment(&portable.tuple, SeqNum::new(0));
        let connection = Connection::resumed(now, tcp, environment, &portable)?;
        let id = self.add_connection(connection, Owner::Application);
        self.change(id.index, |_| ());
        self.check_invariants();
        Ok(id)
    }
}

const MAGIC: [u8; 16] = *b"ackclock: moving";
/// The version of the portable form. Later versions of this stack read it, and all before.
const VERSION: u32 = 1;
