//! The use of resolved names (feature `dns`). [`race`] connects to the addresses found; [`NameLookup`] asks
//! for them, and [`hickory`](crate::hickory) implements it.

mod race;

use std::future::{Future, ready};
use std::io::{self, ErrorKind};
use std::net::IpAddr;

use self::race::race;
use crate::Stack;
use crate::name_servers::{Lookup, NameLookup, Names};

/// A connection by `attempt` to the first address of this name that answers.
pub(crate) async fn connect<T, F>(
    stack: &Stack,
    names: &Names,
    asks: &dyn NameLookup,
    host: &str,
    attempt: impl Fn(IpAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let (v6, v4) = asks.lookups(host)?;
    let has = Families::of(stack);
    let [v6, v4] = [(v6, has.v6), (v4, has.v4)].map(|(lookup, asks)| -> Lookup {
        if asks { sorted(stack, lookup) } else { Box::pin(ready(Ok(Vec::new()))) }
    });
    race(names.eyeballs, v6, v4, attempt).await?.ok_or_else(|| not_found(names, host))
}

/// All addresses of a name, IPv6 first.
pub(crate) async fn addresses(names: &Names, asks: &dyn NameLookup, host: &str) -> io::Result<Vec<IpAddr>> {
    let (v6, v4) = asks.lookups(host)?;
    match tokio::join!(v6, v4) {
        (Err(error), Err(_)) => Err(error),
        (v6, v4) => {
            let found: Vec<IpAddr> = v6.into_iter().chain(v4).flatten().collect();
            if found.is_empty() { Err(not_found(names, host)) } else { Ok(found) }
        }
    }
}

fn not_found(names: &Names, host: &str) -> io::Error {
    let text = format!("`{host}` has no address by the name servers {:?}", names.servers);
    io::Error::new(ErrorKind::NotFound, text)
}

/// The address families in which a stack can connect.
#[derive(Clone, Copy, Debug)]
struct Families {
    v6: bool,
    v4: bool,
}

impl Families {
    /// RFC 8305 §3: a client that has both asks for both. A stack without addresses may stand for any host.
    fn of(stack: &Stack) -> Self {
        let addresses = stack.info().addresses;
        let has = |of_family: fn(IpAddr) -> bool| addresses.iter().any(|own| of_family(own.addr()));
        let v6 = has(|own| matches!(own, IpAddr::V6(own) if !own.is_unicast_link_local()));
        let v4 = has(|own| own.is_ipv4());
        if v6 || v4 { Self { v6, v4 } } else { Self { v6: true, v4: true } }
    }
}

/// RFC 8305 §4: the addresses of a family in the order of RFC 6724 §6, with unreachable ones last.
fn sorted(stack: &Stack, lookup: Lookup) -> Lookup {
    let stack = stack.shared.uncounted();
    Box::pin(async move {
        let mut found = lookup.await?;
        stack.look(|state| {
            state.endpoint.sort_destinations(&mut found);
            found.sort_by_key(|&addr| state.network.check_route(addr).is_err());
        });
        Ok(found)
    })
}
