//! TCP settings as data. The traffic's override the host's, which override the scenario's.

use std::fmt;

use ackclock_control::congestion::Registry;
use ackclock_control::profile::{CHOICES, Choice, InvalidChoice, Overrides, Profile};
use ackclock_core::trace::{TraceConfig, TraceKeep};
use ackclock_core::{MtuProbing, TcpConfig};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::Serializer;

use super::check::unknown;
use crate::units::{Bytes, Span};

/// Settings of connections. `None` leaves the underlying setting.
#[derive(Clone, Debug, PartialEq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TcpSettings {
    /// A named set of choices; `modern` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The congestion controller; overrides the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Single choices, which override the profile's: each key of [`CHOICES`] is a key here, too. In a file a
    /// value is a text, a number, `true` or `false`. A wrong one is reported when the scenario is checked.
    #[serde(flatten, serialize_with = "choices")]
    pub choices: Overrides,
    /// The capacity of the send buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Bytes>,
    /// The capacity of the receive buffer, and so the largest window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Bytes>,
    /// The window at the start, 64 KiB by default. If it equals `receive-buffer`, the window is never tuned;
    /// tuning would keep it to twice what the path has carried in a smallest round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer_initial: Option<Bytes>,
    /// Upper bound of the MSS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<u16>,
    /// Whether to send small segments at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
    /// Whether and how to find the path's MTU without ICMP; off by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu_probing: Option<Box<MtuProbingSetting>>,
    /// The records of the connections, for [`Observer::trace`](crate::observe::Observer::trace).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSetting>,
}

/// How to find the path's MTU without ICMP (RFC 4821). `None` leaves the default of [`MtuProbing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MtuProbingSetting {
    /// The packet size at which the search begins if full packets do not get through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Bytes>,
    /// How long the search rests after it has ended below what the device carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raise_after: Option<Span>,
}

/// The records of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum TraceSetting {
    /// Everything.
    All,
    /// The newest records, delivered when the connection fails or stalls.
    Newest {
        /// The number of records to keep.
        records: usize,
    },
}

/// The key, and what was found there and what is allowed.
pub type WrongSetting = (String, String);

impl TcpSettings {
    /// A profile by its name, and nothing else.
    #[must_use]
    pub fn profile(name: &str) -> Self {
        Self { profile: Some(name.to_owned()), ..Self::default() }
    }

    /// With one of [`CHOICES`] made, as in `choose("ecn", "classic")` or `choose("initial-window", 3)`. A
    /// wrong key or value is reported when the scenario is checked.
    #[must_use]
    pub fn choose(mut self, key: &str, value: impl ToString) -> Self {
        self.choices.set_unchecked(key, value.to_string());
        self
    }

    /// With everything recorded.
    #[must_use]
    pub fn traced(self) -> Self {
        Self { trace: Some(TraceSetting::All), ..self }
    }

    /// With a constant receive window of this many bytes, scaled if necessary.
    #[must_use]
    pub fn fixed_window(self, bytes: u64) -> Self {
        let window = Some(Bytes(bytes));
        let settings = if bytes > u16::MAX.into() { self.choose("window-scaling", "on") } else { self };
        Self { receive_buffer: window, receive_buffer_initial: window, ..settings }
    }

    /// Lays these settings over `below`.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        // A profile makes every choice, so it overrides those made below it.
        let choices_below = if self.profile.is_none() { below.choices.clone() } else { Overrides::default() };
        let congestion_below = below.congestion.clone().filter(|_| self.profile.is_none());
        Self {
            profile: self.profile.clone().or_else(|| below.profile.clone()),
            congestion: self.congestion.clone().or(congestion_below),
            choices: self.choices.over(&choices_below),
            send_buffer: self.send_buffer.or(below.send_buffer),
            receive_buffer: self.receive_buffer.or(below.receive_buffer),
            receive_buffer_initial: self.receive_buffer_initial.or(below.receive_buffer_initial),
            mss: self.mss.or(below.mss),
            nodelay: self.nodelay.or(below.nodelay),
            mtu_probing: self.mtu_probing.clone().or_else(|| below.mtu_probing.clone()),
            trace: self.trace.or(below.trace),
        }
    }

    /// The configuration of a connection with these settings.
    ///
    /// # Errors
    /// The key, and what was found there and what is allowed.
    pub fn config(&self, registry: &Registry) -> Result<TcpConfig, WrongSetting> {
        let mut tcp = TcpConfig::default();
        if let Some(name) = &self.profile {
            let wrong = || ("profile".to_owned(), unknown(name, Profile::all().map(|profile| profile.name)));
            let profile = Profile::find(name).map_err(|_| wrong())?;
            tcp.apply(&profile, registry).map_err(|_| wrong())?;
        }
        if let Some(name) = &self.congestion {
            let wrong = |_| ("congestion".to_owned(), unknown(name, registry.names()));
            tcp.congestion = registry.find(name).map_err(wrong)?;
        }
        self.choices.apply(&mut tcp.choices).map_err(wrong_choice)?;
        let size = |bytes: Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
        tcp.send_buffer_max = self.send_buffer.map_or(tcp.send_buffer_max, size);
        tcp.receive_buffer_max = self.receive_buffer.map_or(tcp.receive_buffer_max, size);
        tcp.receive_buffer_initial = self.receive_buffer_initial.map_or(tcp.receive_buffer_initial, size);
        tcp.mss_max = self.mss.or(tcp.mss_max);
        tcp.nodelay = self.nodelay.unwrap_or(tcp.nodelay);
        if let Some(probing) = self.mtu_probing.as_deref() {
            tcp.mtu_probing = Some(Box::new(probing.config()?));
        }
        tcp.trace = self.trace.map(|trace| match trace {
            TraceSetting::All => TraceConfig::FULL,
            TraceSetting::Newest { records } => TraceConfig { records, keep: TraceKeep::Newest },
        });
        Ok(tcp)
    }
}

impl MtuProbingSetting {
    fn config(self) -> Result<MtuProbing, WrongSetting> {
        let usual = MtuProbing::default();
        let least = self.least.map_or(Ok(usual.least), |bytes| {
            let wrong =
                || ("mtu-probing.least".to_owned(), format!("found `{bytes}`; allowed is up to 65535B"));
            u16::try_from(bytes.0).map_err(|_| wrong())
        })?;
        let raise_after = self.raise_after.map_or(usual.raise_after, Span::duration);
        Ok(MtuProbing { least, raise_after })
    }
}

/// A choice that is not valid, in the words of a scenario's errors.
fn wrong_choice(error: InvalidChoice) -> WrongSetting {
    let InvalidChoice { key, value, what } = error;
    let Ok(choice) = Choice::find(&key) else {
        let what = unknown(&key, keys());
        return (key, what);
    };
    let names = choice.names();
    let is_word = |word: &str| word.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'));
    // Where all names are plain words, a plain word that is none of them is a misspelt name.
    let plain = !names.is_empty() && is_word(&value) && names.iter().all(|named| is_word(named.name));
    let what = if choice.is_one_of_names() || plain {
        unknown(&value, names.iter().map(|named| named.name))
    } else {
        format!("found `{value}`: {what}")
    };
    (key, what)
}

/// The fields of [`TcpSettings`] that are keys of a file.
macro_rules! settings {
    ($($key:literal => $field:ident),* $(,)?) => {
        const SETTINGS: &[&str] = &[$($key),*];

        fn read_value<'de, A: MapAccess<'de>>(
            settings: &mut TcpSettings,
            key: &str,
            map: &mut A,
        ) -> Result<(), A::Error> {
            match key {
                $($key => settings.$field = Some(map.next_value()?),)*
                key => settings.choices.set_unchecked(key, map.next_value::<Word>()?.0),
            }
            Ok(())
        }
    };
}

settings! {
    "profile" => profile,
    "congestion" => congestion,
    "send-buffer" => send_buffer,
    "receive-buffer" => receive_buffer,
    "receive-buffer-initial" => receive_buffer_initial,
    "mss" => mss,
    "nodelay" => nodelay,
    "mtu-probing" => mtu_probing,
    "trace" => trace,
}

fn keys() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().copied().chain(CHOICES.iter().map(|choice| choice.key))
}

/// The choices as keys and values; a switch is `true` or `false`, a number is a number.
fn choices<S: Serializer>(choices: &Overrides, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(choices.iter().map(|(key, value)| (key, Value::of(value))))
}

#[derive(serde::Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Switch(bool),
    Number(u32),
    Text(&'a str),
}

impl<'a> Value<'a> {
    fn of(text: &'a str) -> Self {
        let switch = text.parse().map(Self::Switch);
        switch.or_else(|_| text.parse().map(Self::Number)).unwrap_or(Self::Text(text))
    }
}

// By hand, because a derived reader of `choices` would lose the lines of errors.
impl<'de> Deserialize<'de> for TcpSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SettingsVisitor)
    }
}

struct SettingsVisitor;

impl<'de> Visitor<'de> for SettingsVisitor {
    type Value = TcpSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of TCP settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TcpSettings, A::Error> {
        let mut settings = TcpSettings::default();
        while let Some(Key(key)) = map.next_key()? {
            read_value(&mut settings, key, &mut map)?;
        }
        Ok(settings)
    }
}

/// A key of [`TcpSettings`].
struct Key(&'static str);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = String::deserialize(deserializer)?;
        let wrong = || {
            // In serde's words, as for every other key.
            let valid = keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            D::Error::custom(format!("unknown field `{found}`, expected one of {valid}"))
        };
        keys().find(|key| *key == found).map(Key).ok_or_else(wrong)
    }
}

/// A value of a choice: a text, a whole number, `true` or `false`.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor).map(Word)
    }
}

struct WordVisitor;

impl Visitor<'_> for WordVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a whole number, true or false")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_bool<E>(self, on: bool) -> Result<String, E> {
        Ok(on.to_string())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
