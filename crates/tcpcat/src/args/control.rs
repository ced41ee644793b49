//! Options that choose how connections send and acknowledge: a profile, and what differs from it.

use std::sync::Arc;

use ackclock::TcpConfig;
use ackclock::bandwidth::SenderEstimatorKind;
use ackclock::congestion::{ControllerFactory, Registry, Signal};
use ackclock::profile::{AckPolicy, Ecn, Profile, Recovery, UndoChoice};
use ackclock::rtt::RtoConfig;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// What decides when to send.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Congestion control and recovery (`tcpcat profiles` lists the names)")]
pub(crate) struct ControlArgs {
    /// A named set of the choices below; each of them overrides it
    #[arg(long, value_name = "NAME", default_value = "modern", hide_possible_values = true, value_parser = profiles())]
    pub(crate) profile: Profile,
    /// Congestion controller: cubic, bbr, vegas, vegas:alpha=2,beta=4, ...
    #[arg(long, value_name = "NAME", value_parser = controller)]
    pub(crate) cc: Option<Arc<dyn ControllerFactory>>,
    /// How losses are found and repaired: rack-tlp, sack, newreno, ...
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = recoveries())]
    pub(crate) recovery: Option<Recovery>,
    /// Retransmission timeout: a preset, with changes: rfc6298,min=1s,g=500ms
    #[arg(long, value_name = "NAME", value_parser = RtoConfig::find)]
    pub(crate) rto: Option<RtoConfig>,
    /// Proofs that revert a wrong reduction: off, all, or any of timestamps,dsack,frto,min-rtt:N
    #[arg(long, value_name = "PROOFS", value_parser = UndoChoice::find)]
    pub(crate) undo: Option<UndoChoice>,
    /// Bandwidth estimator that ends the first slow start: off, csa, csa:5,0.2, ...
    #[arg(long, value_name = "NAME", value_parser = start_up)]
    pub(crate) start_up: Option<StartUp>,
    /// When to acknowledge data: every-second, every-second:DELAY, every-second-tick:TIME, window-share or
    /// window-share:PERCENT,DELAY
    #[arg(long, value_name = "POLICY", value_parser = AckPolicy::find)]
    pub(crate) acks: Option<AckPolicy>,
    /// Pace segments
    #[arg(long, value_name = "on|off", hide_possible_values = true)]
    pub(crate) pacing: Option<Switch>,
    /// Explicit congestion notification: off, classic (RFC 3168) or accurate (RFC 9768)
    #[arg(long, value_name = "FORM", value_parser = Ecn::find)]
    pub(crate) ecn: Option<Ecn>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// An estimator of the start, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartUp(Option<SenderEstimatorKind>);

impl ControlArgs {
    /// Makes the choices in `config`: the profile's, then the single ones.
    pub(crate) fn apply(&self, config: &mut TcpConfig) -> Result<(), String> {
        config.apply(&self.profile, &Registry::builtin()).map_err(|error| error.to_string())?;
        if let Some(factory) = &self.cc {
            config.congestion = Arc::clone(factory);
        }
        if let Some(StartUp(start_up)) = self.start_up {
            config.start_up = start_up;
        }
        config.recovery = self.recovery.unwrap_or(config.recovery);
        config.rto = self.rto.unwrap_or(config.rto);
        config.undo = self.undo.unwrap_or(config.undo);
        config.acks = self.acks.unwrap_or(config.acks);
        config.pacing = self.pacing.map_or(config.pacing, |pacing| pacing == Switch::On);
        config.ecn = self.ecn.unwrap_or(config.ecn);
        Ok(())
    }
}

/// Whether a profile or controller may be chosen here, where there is a device.
pub(crate) fn is_simulated_only(controller: &str) -> bool {
    let found = Registry::with_experiments().find(controller);
    found.is_ok_and(|factory| factory.about().signal == Signal::None)
}

fn profiles() -> impl TypedValueParser<Value = Profile> {
    let names = Profile::all()
        .map(|profile| PossibleValue::new(profile.name).hide(is_simulated_only(profile.congestion)));
    PossibleValuesParser::new(names).try_map(|name| {
        let profile = Profile::find(&name).map_err(|error| error.to_string())?;
        if is_simulated_only(profile.congestion) { Err(simulated_only(&name)) } else { Ok(profile) }
    })
}

fn recoveries() -> impl TypedValueParser<Value = Recovery> {
    PossibleValuesParser::new(Recovery::ALL.map(|(name, _)| name)).try_map(|name| Recovery::find(&name))
}

fn controller(words: &str) -> Result<Arc<dyn ControllerFactory>, String> {
    if is_simulated_only(words) {
        return Err(simulated_only(words));
    }
    Registry::builtin().find(words).map_err(|error| error.to_string())
}

fn start_up(words: &str) -> Result<StartUp, String> {
    if words == "off" {
        return Ok(StartUp(None));
    }
    let found = SenderEstimatorKind::find(words);
    found.map(|kind| StartUp(Some(kind))).map_err(|error| format!("{error}; or off"))
}

fn simulated_only(name: &str) -> String {
    format!(
        "{name} sends without congestion control and exists for simulated networks only, not for a device"
    )
}
