//! Addresses that stand for names.
//!
//! A client asks for the address of a name and gets one of a pool of addresses without hosts. When it dials
//! that address, the gateway knows the name, and the proxy looks it up: the client's host needs no name
//! server, and nothing of the name leaves it but through the proxy.
//!
//! A name keeps its address while it is used. Once all are taken, a new name gets the one that was not asked
//! for for the longest time, but never one whose answer a client may still hold (the time to live). With a
//! file, names keep their addresses when the gateway starts again, even after it was killed: clients hold
//! answers for longer than that takes.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ackclock::Cidr;

/// The pool.
#[derive(Debug)]
pub(crate) struct Names {
    v4: Option<Cidr>,
    v6: Option<Cidr>,
    /// How many names have an address at one time.
    size: usize,
    ttl: Duration,
    table: Mutex<Table>,
}

/// The meaning of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It is not of the pool.
    Itself,
    Name(Arc<str>),
    /// It is of the pool, and stands for nothing.
    Nothing,
}

/// Why names cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum NamesError {
    #[error("--names takes one network of IPv4 and one of IPv6 at most")]
    TwoNetworks,
    #[error("{0} has no room for names: give a network of at least four addresses")]
    Small(Cidr),
    #[error("the names cannot be kept in {0}: {1}")]
    File(PathBuf, io::Error),
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<Arc<str>, usize>,
    entries: Vec<Entry>,
    /// The entries by their last use.
    order: BTreeMap<u64, usize>,
    uses: u64,
    file: Option<NamesFile>,
}

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    used: u64,
    /// Until when a client may hold the answer.
    held_until: Instant,
}

/// One line for each name that got an address: its place in the pool and the name. A later line for a place
/// counts.
#[derive(Debug)]
struct NamesFile {
    path: PathBuf,
    file: File,
    lines: usize,
    /// An error was reported.
    failed: bool,
}

impl Names {
    /// A pool of these networks; their first addresses, and IPv4's last, are not used. `path`: where the
    /// names are kept.
    pub(crate) fn new(networks: &[Cidr], ttl: Duration, path: Option<&Path>) -> Result<Self, NamesError> {
        let one = |is_v4: bool| {
            let mut of_family = networks.iter().filter(|network| network.addr().is_ipv4() == is_v4);
            let first = of_family.next().copied();
            if of_family.next().is_some() { Err(NamesError::TwoNetworks) } else { Ok(first) }
        };
        let (v4, v6) = (one(true)?, one(false)?);
        let mut size = SIZE_MAX;
        for network in [v4, v6].into_iter().flatten() {
            let bits = if network.addr().is_ipv4() { 32 } else { 128 } - u32::from(network.prefix_len());
            if bits < 2 {
                return Err(NamesError::Small(network));
            }
            // Without the network's own address and the last one.
            size = size.min((1_usize << bits.min(20)) - 2);
        }
        let names = Self { v4, v6, size, ttl, table: Mutex::default() };
        if let Some(path) = path {
            names.load(path).map_err(|error| NamesError::File(path.to_owned(), error))?;
        }
        Ok(names)
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The networks that lead to the gateway.
    pub(crate) fn networks(&self) -> impl Iterator<Item = Cidr> {
        [self.v4, self.v6].into_iter().flatten()
    }

    pub(crate) fn has(&self, is_v4: bool) -> bool {
        if is_v4 { self.v4.is_some() } else { self.v6.is_some() }
    }

    /// The address for a name, to be held for the time to live; `None` while all are taken.
    pub(crate) fn addr(&self, name: &str, is_v4: bool) -> Option<IpAddr> {
        self.addr_at(name, is_v4, Instant::now())
    }

    fn addr_at(&self, name: &str, is_v4: bool, now: Instant) -> Option<IpAddr> {
        let network = if is_v4 { self.v4? } else { self.v6? };
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let place = table.place(name, self.size, now)?;
        table.touch(place, now + self.ttl.min(TTL_MAX));
        Some(addr_at(network, place))
    }

    /// The meaning of an address. Asking counts as a use.
    pub(crate) fn meaning(&self, addr: IpAddr) -> Meaning {
        let Some(network) = self.networks().find(|network| network.contains(addr)) else {
            return Meaning::Itself;
        };
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = place_of(network, addr).and_then(|place| Some((place, table.entries.get(place)?)));
        match entry {
            Some((place, entry)) if !entry.name.is_empty() => {
                let (name, until) = (Arc::clone(&entry.name), entry.held_until);
                table.touch(place, until);
                Meaning::Name(name)
            }
            _ => Meaning::Nothing,
        }
    }

    /// Reads the file, if it exists, and writes it again with one line for each name.
    fn load(&self, path: &Path) -> io::Result<()> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        match File::open(path) {
            Ok(file) => {
                let held_until = Instant::now() + self.ttl.min(TTL_MAX);
                for line in BufReader::new(file).split(b'\n') {
                    // The last line may be cut.
                    let line = line?;
                    let Some((place, name)) = str::from_utf8(&line).ok().and_then(parse_line) else {
                        continue;
                    };
                    if place < self.size {
                        table.restore(place, name, held_until);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        table.file = Some(NamesFile::write(path, &table.entries, &table.order)?);
        Ok(())
    }
}

impl Table {
    /// The place of a name, which gets one if it has none.
    fn place(&mut self, name: &str, size: usize, now: Instant) -> Option<usize> {
        if let Some(&place) = self.by_name.get(name) {
            return Some(place);
        }
        let name: Arc<str> = Arc::from(name);
        let place = if self.entries.len() < size {
            self.entries.len()
        } else {
            let (_, &oldest) = self.order.first_key_value()?;
            if self.entries[oldest].held_until > now {
                return None;
            }
            oldest
        };
        self.put(place, &name, now);
        self.note(place);
        Some(place)
    }

    /// A name of the file. Places before it that have none yet stand for nothing anyone asks for.
    fn restore(&mut self, place: usize, name: &str, held_until: Instant) {
        while self.entries.len() < place {
            let at = self.entries.len();
            self.put(at, &Arc::from(""), held_until);
        }
        self.put(place, &Arc::from(name), held_until);
    }

    fn put(&mut self, place: usize, name: &Arc<str>, held_until: Instant) {
        self.uses += 1;
        let entry = Entry { name: Arc::clone(name), used: self.uses, held_until };
        self.order.insert(self.uses, place);
        match self.entries.get_mut(place) {
            Some(old) => {
                let old = std::mem::replace(old, entry);
                self.order.remove(&old.used);
                if self.by_name.get(&old.name) == Some(&place) {
                    self.by_name.remove(&old.name);
                }
            }
            None => self.entries.push(entry),
        }
        if !name.is_empty() {
            self.by_name.insert(Arc::clone(name), place);
        }
    }

    fn touch(&mut self, place: usize, held_until: Instant) {
        self.uses += 1;
        let entry = &mut self.entries[place];
        self.order.remove(&entry.used);
        self.order.insert(self.uses, place);
        entry.used = self.uses;
        entry.held_until = entry.held_until.max(held_until);
    }

    /// Adds a line to the file.
    fn note(&mut self, place: usize) {
        let Some(kept) = &mut self.file else { return };
        let noted = if kept.lines > 2 * self.entries.len() + LINES_MIN {
            NamesFile::write(&kept.path, &self.entries, &self.order).map(|new| *kept = new)
        } else {
            kept.lines += 1;
            writeln!(kept.file, "{place}\t{}", self.entries[place].name)
        };
        if let Err(error) = noted
            && !std::mem::replace(&mut kept.failed, true)
        {
            eprintln!("{} does not keep the names any more: {error}", kept.path.display());
        }
    }
}

impl NamesFile {
    /// Writes all names, the least recently used first, and puts the file in the place of the old one.
    fn write(path: &Path, entries: &[Entry], order: &BTreeMap<u64, usize>) -> io::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let mut file = File::create(&temporary)?;
        let mut text = String::new();
        for &place in order.values() {
            if !entries[place].name.is_empty() {
                text += &format!("{place}\t{}\n", entries[place].name);
            }
        }
        file.write_all(text.as_bytes())?;
        fs::rename(&temporary, path)?;
        Ok(Self { path: path.to_owned(), file, lines: entries.len(), failed: false })
    }
}

fn parse_line(line: &str) -> Option<(usize, &str)> {
    let (place, name) = line.split_once('\t')?;
    let is_name = !name.is_empty() && name.len() <= 255 && !name.contains(char::is_whitespace);
    Some((place.parse().ok()?, name)).filter(|_| is_name)
}

/// The address at a place of a network: behind the network's own.
fn addr_at(network: Cidr, place: usize) -> IpAddr {
    let offset = place as u128 + 1;
    match network.network().addr() {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first) + offset as u32).into()), // below 2^20
        IpAddr::V6(first) => IpAddr::V6((u128::from(first) + offset).into()),
    }
}

/// The place of an address of this network; `None` for the network's own.
fn place_of(network: Cidr, addr: IpAddr) -> Option<usize> {
    let offset = match (network.network().addr(), addr) {
        (IpAddr::V4(first), IpAddr::V4(addr)) => u128::from(u32::from(addr) - u32::from(first)),
        (IpAddr::V6(first), IpAddr::V6(addr)) => u128::from(addr) - u128::from(first),
        _ => return None,
    };
    usize::try_from(offset.checked_sub(1)?).ok()
}

/// The most names: some 10 MB of memory.
const SIZE_MAX: usize = 65_534;
/// No clock reaches the longest time that a user can ask for.
const TTL_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// A file is not written again before it has this many lines too many.
const LINES_MIN: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    fn names(networks: &[&str], path: Option<&Path>) -> Names {
        let networks: Vec<Cidr> = networks.iter().map(|text| text.parse().unwrap()).collect();
        Names::new(&networks, TTL, path).unwrap()
    }

    #[test]
    fn a_name_has_one_address_of_each_family_which_stands_for_it() {
        let names = names(&["198.19.0.0/16", "fd00::/64"], None);
        let v4 = names.addr("example.org", true).unwrap();
        assert_eq!(v4, "198.19.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(names.addr("example.org", false).unwrap(), "fd00::1".parse::<IpAddr>().unwrap());
        assert_eq!(names.addr("example.org", true), Some(v4));
        assert_eq!(names.addr("other.example", true).unwrap(), "198.19.0.2".parse::<IpAddr>().unwrap());
        assert_eq!(names.meaning(v4), Meaning::Name("example.org".into()));
        assert_eq!(names.meaning("198.19.0.9".parse().unwrap()), Meaning::Nothing);
        assert_eq!(names.meaning("198.19.0.0".parse().unwrap()), Meaning::Nothing);
        assert_eq!(names.meaning("fd00::ffff:0:0:0".parse().unwrap()), Meaning::Nothing);
        assert_eq!(names.meaning("198.18.0.1".parse().unwrap()), Meaning::Itself);
    }

    #[test]
    fn the_name_not_used_for_longest_gives_its_address_once_no_client_can_hold_it() {
        let names = names(&["198.19.0.0/30"], None);
        let begun = Instant::now();
        let [a, b] = ["a", "b"].map(|name| names.addr_at(name, true, begun).unwrap());
        assert_eq!(names.addr_at("c", true, begun), None, "both are held");
        assert_eq!(names.addr_at("a", true, begun + TTL / 2), Some(a));
        // `b` was used before `a`.
        assert_eq!(names.addr_at("c", true, begun + TTL), Some(b));
        assert_eq!(names.meaning(b), Meaning::Name("c".into()));
        assert_eq!(names.addr_at("b", true, begun + TTL), None);
        assert_eq!(names.addr_at("b", true, begun + TTL * 3 / 2), Some(a));
    }

    #[test]
    fn names_keep_their_addresses_across_restarts_even_when_the_last_line_is_cut() {
        let path = std::env::temp_dir().join(format!("tun2socks-names-{}", std::process::id()));
        let network = ["198.19.0.0/24"];
        let first = names(&network, Some(&path));
        let addrs = ["a.example", "b.example", "c.example"].map(|name| first.addr(name, true).unwrap());
        // Killed: nothing is written at the end.
        std::mem::forget(first);
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"3\td.exa\xff");
        fs::write(&path, text).unwrap();
        let second = names(&network, Some(&path));
        assert_eq!(second.meaning(addrs[1]), Meaning::Name("b.example".into()));
        assert_eq!(second.addr("c.example", true), Some(addrs[2]));
        assert!(!addrs.contains(&second.addr("new.example", true).unwrap()));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn places_that_a_file_leaves_out_stand_for_nothing() {
        let path = std::env::temp_dir().join(format!("tun2socks-gaps-{}", std::process::id()));
        fs::write(&path, "2\tc.example\n9999\tbeyond.example\nno place\n1\tnot a name\n").unwrap();
        let names = names(&["198.19.0.0/24"], Some(&path));
        let meanings =
            ["198.19.0.1", "198.19.0.2", "198.19.0.3"].map(|ip| names.meaning(ip.parse().unwrap()));
        assert_eq!(meanings, [Meaning::Nothing, Meaning::Nothing, Meaning::Name("c.example".into())]);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_does_not_grow_for_ever() {
        let path = std::env::temp_dir().join(format!("tun2socks-lines-{}", std::process::id()));
        let names = names(&["198.19.0.0/30"], Some(&path));
        let mut now = Instant::now();
        for number in 0..3 * LINES_MIN {
            assert!(names.addr_at(&format!("{number}.example"), true, now).is_some());
            now += TTL;
        }
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= LINES_MIN + 6, "{lines} lines");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_pool_needs_room_and_one_network_of_a_family() {
        let made = |networks: &[&str]| {
            let networks: Vec<Cidr> = networks.iter().map(|text| text.parse().unwrap()).collect();
            Names::new(&networks, TTL, None)
        };
        assert!(matches!(made(&["10.0.0.0/31"]), Err(NamesError::Small(_))));
        assert!(matches!(made(&["10.0.0.0/8", "11.0.0.0/8"]), Err(NamesError::TwoNetworks)));
        assert_eq!(made(&["fd00::/8"]).unwrap().size, SIZE_MAX);
    }
}
