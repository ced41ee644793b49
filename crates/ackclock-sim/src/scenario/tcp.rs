//! TCP settings as data, laid over each other: the scenario's, the host's, the traffic's.

use ackclock_control::congestion::Registry;
use ackclock_control::profile::{AckPolicy, Ecn, Profile};
use ackclock_core::TcpConfig;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Span};

/// Settings of connections; what is `None` stays as it is below.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TcpSettings {
    /// A named set of choices, `modern` where nobody names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Name of the congestion controller, over the profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The most bytes that wait in the send buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Bytes>,
    /// The most bytes that wait in the receive buffer, and so the largest window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Bytes>,
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
    /// Whether small segments are sent at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
}

/// The key, the name that is not known there, and the names that are.
pub type UnknownSetting = (&'static str, String, Vec<String>);

/// When received data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Acks {
    /// Every second full segment, and what is left after a delay.
    EverySecond {
        /// The longest delay.
        delay: Span,
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

    /// These settings over `below`.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        Self {
            profile: self.profile.clone().or_else(|| below.profile.clone()),
            // A profile names a controller, which is nearer than one that was named below it.
            congestion: self
                .congestion
                .clone()
                .or_else(|| if self.profile.is_some() { None } else { below.congestion.clone() }),
            send_buffer: self.send_buffer.or(below.send_buffer),
            receive_buffer: self.receive_buffer.or(below.receive_buffer),
            mss: self.mss.or(below.mss),
            initial_window: self.initial_window.or(below.initial_window),
            acks: self.acks.or(below.acks),
            ecn: self.ecn.or(below.ecn),
            nodelay: self.nodelay.or(below.nodelay),
        }
    }

    /// What a connection takes from these settings.
    ///
    /// # Errors
    /// The key, the name that is not known there, and the names that are.
    pub fn config(&self, registry: &Registry) -> Result<TcpConfig, UnknownSetting> {
        let mut tcp = TcpConfig::default();
        if let Some(name) = &self.profile {
            let profiles = || Profile::all().map(|profile| profile.name.to_owned()).collect();
            let profile = Profile::find(name).map_err(|_| ("profile", name.clone(), profiles()))?;
            tcp.apply(&profile, registry).map_err(|_| ("profile", name.clone(), profiles()))?;
        }
        if let Some(name) = &self.congestion {
            let names = || registry.names().map(str::to_owned).collect();
            tcp.congestion = registry.find(name).map_err(|_| ("congestion", name.clone(), names()))?;
        }
        let size = |bytes: Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
        tcp.send_buffer_max = self.send_buffer.map_or(tcp.send_buffer_max, size);
        tcp.receive_buffer_max = self.receive_buffer.map_or(tcp.receive_buffer_max, size);
        tcp.mss_max = self.mss.or(tcp.mss_max);
        tcp.initial_window_segments = self.initial_window.unwrap_or(tcp.initial_window_segments);
        tcp.nodelay = self.nodelay.unwrap_or(tcp.nodelay);
        if let Some(acks) = self.acks {
            tcp.acks = match acks {
                Acks::EverySecond { delay } => AckPolicy::EverySecondSegment { delay_max: delay.duration() },
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
