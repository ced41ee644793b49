//! Names that a stack knows without asking.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Names and their addresses, as `/etc/hosts` has them, for
/// [`StackBuilder::hosts`](crate::StackBuilder::hosts). Copies share one table.
///
/// Case does not matter (RFC 4343), nor does a dot at the end. A name may be given several addresses, which
/// are tried in their order.
///
/// ```
/// use ackclock::Hosts;
///
/// let hosts: Hosts = [("db", "10.0.0.2".parse()?), ("db", "10.0.0.3".parse()?)].into_iter().collect();
/// assert_eq!(hosts.get("DB.").len(), 2);
/// assert!(hosts.get("cache").is_empty());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<HashMap<String, Vec<IpAddr>>>);

impl Hosts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses of a name; none if it is unknown.
    #[must_use]
    pub fn get(&self, name: &str) -> &[IpAddr] {
        self.0.get(&canonical(name)).map_or(&[], Vec::as_slice)
    }
}

impl<N: AsRef<str>> FromIterator<(N, IpAddr)> for Hosts {
    fn from_iter<T: IntoIterator<Item = (N, IpAddr)>>(hosts: T) -> Self {
        let mut table: HashMap<String, Vec<IpAddr>> = HashMap::new();
        for (name, addr) in hosts {
            table.entry(canonical(name.as_ref())).or_default().push(addr);
        }
        Self(Arc::new(table))
    }
}

fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
