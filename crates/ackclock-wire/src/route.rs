//! Networks and what leads there, and which of several routes counts.

use std::net::IpAddr;

use crate::Cidr;

/// A network, and what leads to it: a device, a link, the address that it is reached from.
///
/// ```
/// use ackclock_wire::Route;
///
/// let routes = [Route::new("0.0.0.0/0".parse()?, "wan"), Route::new("10.0.0.0/8".parse()?, "lan")];
/// let to = |addr: &str| Route::longest(&routes, addr.parse().unwrap()).map(|route| route.to);
/// assert_eq!((to("10.1.2.3"), to("192.0.2.1"), to("fd00::1")), (Some("lan"), Some("wan"), None));
/// # Ok::<(), ackclock_wire::CidrError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<T> {
    /// The network.
    pub destination: Cidr,
    /// The way there.
    pub to: T,
}

/// The link by which packets leave, where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The link, by any number.
    pub link: usize,
    /// The largest IP packet that it carries, in bytes.
    pub mtu: usize,
}

impl<T> Route<T> {
    /// A route to `destination`.
    pub const fn new(destination: Cidr, to: T) -> Self {
        Self { destination, to }
    }

    /// The route to `addr`: the longest match. The last one wins a tie.
    pub fn longest<'a>(routes: impl IntoIterator<Item = &'a Self>, addr: IpAddr) -> Option<&'a Self>
    where
        T: 'a,
    {
        let matching = routes.into_iter().filter(|route| route.destination.contains(addr));
        matching.max_by_key(|route| route.destination.prefix_len())
    }
}

ackclock_form::form! {
    struct Route<T> { destination, to }
    struct Egress { link, mtu }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_counts_and_the_last_wins_a_tie() {
        let routes =
            [("10.0.0.0/8", 0), ("0.0.0.0/0", 1), ("10.9.9.9/8", 2), ("::/0", 3), ("10.9.0.0/16", 4)]
                .map(|(destination, to)| Route::new(destination.parse().unwrap(), to));
        for (addr, to) in
            [("10.1.1.1", Some(2)), ("10.9.1.1", Some(4)), ("192.0.2.1", Some(1)), ("fd00::1", Some(3))]
        {
            assert_eq!(Route::longest(&routes, addr.parse().unwrap()).map(|route| route.to), to, "{addr}");
        }
        assert_eq!(Route::longest(&routes[..1], "192.0.2.1".parse().unwrap()), None);
    }
}
