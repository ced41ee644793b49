//! Options that choose how connections send and acknowledge: a profile, and what differs from it.

use std::sync::Arc;

use ackclock::TcpConfig;
use ackclock::congestion::{ControllerFactory, Registry, Signal};
use ackclock::profile::{CHOICES, Choice, Choices, Overrides, Profile};
use ackclock_cli::manual::Suggested;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// The choices that decide when to send.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Congestion control and recovery (`tcpcat profiles` lists the names)")]
pub(crate) struct ControlArgs {
    /// A named set of the choices below; each of them overrides it
    #[arg(long, value_name = "NAME", default_value = "modern", hide_possible_values = true, value_parser = profiles())]
    pub(crate) profile: Profile,
    /// Congestion controller: cubic, bbr, vegas, vegas:alpha=2,beta=4, ...
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = controllers())]
    pub(crate) cc: Option<Arc<dyn ControllerFactory>>,
    #[command(flatten)]
    choices: ChoiceArgs,
}

/// A flag for each row of the table of choices.
#[derive(Clone, Debug, Default)]
struct ChoiceArgs(Overrides);

impl ControlArgs {
    /// Makes the choices in `config`: the profile's, then the single ones.
    pub fn apply(&self, config: &mut TcpConfig) -> Result<(), String> {
        config.apply(&self.profile, &Registry::builtin()).map_err(|error| error.to_string())?;
        if let Some(factory) = &self.cc {
            config.congestion = Arc::clone(factory);
        }
        self.choices.0.apply(&mut config.choices).map_err(|error| error.to_string())
    }
}

impl Args for ChoiceArgs {
    fn augment_args(command: Command) -> Command {
        command.args(CHOICES.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ChoiceArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut choices = Self::default();
        choices.update_from_arg_matches(matches)?;
        Ok(choices)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for Choice { key, .. } in &CHOICES {
            if let Some(value) = matches.get_one::<String>(key) {
                self.0.set_unchecked(*key, value);
            }
        }
        Ok(())
    }
}

fn flag(choice: &'static Choice) -> Arg {
    let arg = Arg::new(choice.key).long(choice.key).value_name(choice.grammar).help(choice.help);
    arg.hide_possible_values(true).value_parser(values(choice))
}

fn values(choice: &'static Choice) -> ValueParser {
    if choice.is_one_of_names() {
        let names =
            choice.names().into_iter().map(|named| PossibleValue::new(named.name).help(named.summary));
        return PossibleValuesParser::new(names).into();
    }
    let names = choice.names().into_iter().map(|named| (named.name, named.summary));
    let parse = move |value: &str| {
        let mut choices = Choices::default();
        choice.set(&mut choices, value).map_err(|error| error.to_string())?;
        if choices.for_simulations_only() {
            return Err(
                "a timeout without backoff exists for simulated networks only, not for a device".into()
            );
        }
        Ok::<_, String>(value.to_owned())
    };
    Suggested::new(names, parse).into()
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

fn controllers() -> impl TypedValueParser<Value = Arc<dyn ControllerFactory>> {
    let registry = Registry::builtin();
    let names: Vec<_> = registry.names().filter(|name| !is_simulated_only(name)).collect();
    let summaries = names.into_iter().map(|name| {
        (
            name,
            registry.find(name).map_or_else(|_| String::new(), |factory| factory.about().source.to_owned()),
        )
    });
    Suggested::new(summaries, controller)
}

fn controller(words: &str) -> Result<Arc<dyn ControllerFactory>, String> {
    if is_simulated_only(words) {
        return Err(simulated_only(words));
    }
    Registry::builtin().find(words).map_err(|error| error.to_string())
}

fn simulated_only(name: &str) -> String {
    format!(
        "{name} sends without congestion control and exists for simulated networks only, not for a device"
    )
}
