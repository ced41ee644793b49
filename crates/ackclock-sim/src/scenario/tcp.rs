//! TCP settings as data. The traffic's override the host's, which override the scenario's.

use ackclock_control::congestion::Registry;
use ackclock_control::profile::{AckPolicy, Ecn, Profile, Recovery, UndoChoice};
use ackclock_control::rtt::{InvalidRto, RtoConfig, presets};
use ackclock_core::trace::{TraceConfig, TraceKeep};
use ackclock_core::{MtuProbing, TcpConfig};
use serde::{Deserialize, Serialize};

use super::check::unknown;
use crate::units::{Bytes, Span};

/// Settings of connections. `None` leaves the underlying setting.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TcpSettings {
    /// A named set of choices; `modern` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The congestion controller; overrides the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// How losses are found and repaired; overrides the profile's. `tcpcat profiles` lists the names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// The estimator of the retransmission timeout, as in
    /// [`RtoConfig::find`](ackclock_control::rtt::RtoConfig::find); overrides the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto: Option<String>,
    /// The proofs that take a wrong reduction back, as in
    /// [`UndoChoice::find`](ackclock_control::profile::UndoChoice::find); overrides the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
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
    /// Whether to offer window scaling; without it no window exceeds 65,535 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_scaling: Option<bool>,
    /// Upper bound of the MSS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<u16>,
    /// Initial window in segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// When received data is acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<Acks>,
    /// Explicit congestion notification: `off`, `classic` or `accurate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnSetting>,
    /// Whether to send small segments at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
    /// Whether and how to find the path's MTU without ICMP; off by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu_probing: Option<Box<MtuProbingSetting>>,
    /// What to record of the connections, for [`Observer::trace`](crate::observe::Observer::trace).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSetting>,
}

/// How to find the path's MTU without ICMP (RFC 4821). `None` leaves the default of [`MtuProbing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MtuProbingSetting {
    /// The packet size at which the search begins if full packets do not get through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Bytes>,
    /// How long the search rests after it has ended below what the device carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raise_after: Option<Span>,
}

/// What to record of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub type WrongSetting = (&'static str, String);

/// When received data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Acks {
    /// Every second full segment at once, the rest after a delay.
    EverySecond {
        /// The longest delay.
        delay: Span,
    },
    /// Every second full segment at once, the rest at the next tick of a clock.
    EverySecondTick {
        /// The time from tick to tick.
        tick: Span,
    },
    /// When a share of the window has arrived, or after a delay.
    WindowShare {
        /// The share in hundredths.
        percent: u8,
        /// The longest delay.
        delay: Span,
    },
}

/// Explicit congestion notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EcnSetting {
    /// Not negotiated.
    Off,
    /// RFC 3168.
    Classic,
    /// RFC 9768.
    Accurate,
}

impl TcpSettings {
    /// A profile by its name, and nothing else.
    #[must_use]
    pub fn profile(name: &str) -> Self {
        Self { profile: Some(name.to_owned()), ..Self::default() }
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
        let window_scaling = if bytes > u16::MAX.into() { Some(true) } else { self.window_scaling };
        Self { receive_buffer: window, receive_buffer_initial: window, window_scaling, ..self }
    }

    /// Lays these settings over `below`.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        // A profile sets a controller, and overrides one set below it. The same holds for its other choices.
        let below_profile = |own: &Option<String>, below: &Option<String>| {
            own.clone().or_else(|| below.clone().filter(|_| self.profile.is_none()))
        };
        Self {
            profile: self.profile.clone().or_else(|| below.profile.clone()),
            congestion: below_profile(&self.congestion, &below.congestion),
            recovery: below_profile(&self.recovery, &below.recovery),
            rto: below_profile(&self.rto, &below.rto),
            undo: below_profile(&self.undo, &below.undo),
            send_buffer: self.send_buffer.or(below.send_buffer),
            receive_buffer: self.receive_buffer.or(below.receive_buffer),
            receive_buffer_initial: self.receive_buffer_initial.or(below.receive_buffer_initial),
            window_scaling: self.window_scaling.or(below.window_scaling),
            mss: self.mss.or(below.mss),
            initial_window: self.initial_window.or(below.initial_window),
            acks: self.acks.or(below.acks),
            ecn: self.ecn.or(below.ecn),
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
            let wrong = || ("profile", unknown(name, Profile::all().map(|profile| profile.name)));
            let profile = Profile::find(name).map_err(|_| wrong())?;
            tcp.apply(&profile, registry).map_err(|_| wrong())?;
        }
        if let Some(name) = &self.congestion {
            tcp.congestion =
                registry.find(name).map_err(|_| ("congestion", unknown(name, registry.names())))?;
        }
        if let Some(name) = &self.recovery {
            let names = Recovery::ALL.iter().map(|(name, _)| *name);
            tcp.recovery = Recovery::find(name).map_err(|_| ("recovery", unknown(name, names)))?;
        }
        if let Some(words) = &self.rto {
            tcp.rto = RtoConfig::find(words).map_err(|error| ("rto", wrong_rto(words, &error)))?;
        }
        if let Some(words) = &self.undo {
            let wrong = |error| ("undo", format!("found `{words}`: {error}"));
            tcp.undo = UndoChoice::find(words).map_err(wrong)?;
        }
        let size = |bytes: Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
        tcp.send_buffer_max = self.send_buffer.map_or(tcp.send_buffer_max, size);
        tcp.receive_buffer_max = self.receive_buffer.map_or(tcp.receive_buffer_max, size);
        tcp.receive_buffer_initial = self.receive_buffer_initial.map_or(tcp.receive_buffer_initial, size);
        tcp.window_scaling = self.window_scaling.unwrap_or(tcp.window_scaling);
        tcp.mss_max = self.mss.or(tcp.mss_max);
        tcp.initial_window_segments = self.initial_window.unwrap_or(tcp.initial_window_segments);
        tcp.nodelay = self.nodelay.unwrap_or(tcp.nodelay);
        if let Some(probing) = self.mtu_probing.as_deref() {
            tcp.mtu_probing = Some(Box::new(probing.config()?));
        }
        tcp.trace = self.trace.map(|trace| match trace {
            TraceSetting::All => TraceConfig::FULL,
            TraceSetting::Newest { records } => TraceConfig { records, keep: TraceKeep::Newest },
        });
        if let Some(acks) = self.acks {
            tcp.acks = match acks {
                Acks::EverySecond { delay } => AckPolicy::EverySecondSegment { delay_max: delay.duration() },
                Acks::EverySecondTick { tick } => AckPolicy::EverySecondByTick { tick: tick.duration() },
                Acks::WindowShare { percent, delay } => {
                    AckPolicy::WindowShare { percent, delay_max: delay.duration() }
                }
            };
        }
        if let Some(ecn) = self.ecn {
            tcp.ecn = match ecn {
                EcnSetting::Off => Ecn::Off,
                EcnSetting::Classic => Ecn::Classic,
                EcnSetting::Accurate => Ecn::Accurate,
            };
        }
        Ok(tcp)
    }
}

impl MtuProbingSetting {
    fn config(self) -> Result<MtuProbing, WrongSetting> {
        let usual = MtuProbing::default();
        let least = self.least.map_or(Ok(usual.least), |bytes| {
            let wrong = || ("mtu-probing.least", format!("found `{bytes}`; allowed is up to 65535B"));
            u16::try_from(bytes.0).map_err(|_| wrong())
        })?;
        let raise_after = self.raise_after.map_or(usual.raise_after, Span::duration);
        Ok(MtuProbing { least, raise_after })
    }
}

fn wrong_rto(words: &str, error: &InvalidRto) -> String {
    match error {
        InvalidRto::Unknown(_) => unknown(words, presets::all().map(|preset| preset.name)),
        error => format!("found `{words}`: {error}"),
    }
}
