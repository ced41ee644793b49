//! Controllers by name.

use std::fmt;
use std::sync::Arc;

use super::{
    About, AfterTimeout, Bbr, BbrLoss, BbrV1, Bfa, BfaConfig, Card, Controller, Counting, Cubic, Dctcp, Dual,
    Htcp, Illinois, IllinoisThresholds, LedbatPlusPlus, Net2Reno, NewReno, Parameter, Reno, Settings, Start,
    Tahoe, Thresholds, TriS, Uncontrolled, Vegas, VegasStar, VegasUsc,
};
use crate::InvalidParameter;

/// Finds controllers by name, with parameters after a colon: `vegas:alpha=2,beta=4`,
/// `bfa:gain=3/4,on=10ms,off=-10ms`.
///
/// ```
/// use ackclock_control::congestion::{Registry, Reno, Start, factory};
///
/// let mut registry = Registry::builtin();
/// registry.register(factory("my-reno", |start: &Start| Box::new(Reno::new(start))))?;
/// assert_eq!(registry.find("my-reno").unwrap().name(), "my-reno");
/// let unknown = registry.find("renoo").unwrap_err().to_string();
/// assert!(unknown.contains("my-reno, "));
/// let impossible = registry.find("vegas:alpha=4,beta=2").unwrap_err().to_string();
/// assert!(impossible.ends_with("each must be 1 to 1000, and alpha below beta"));
/// # Ok::<(), ackclock_control::congestion::NameTaken>(())
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    /// Ordered by name.
    factories: Vec<Arc<dyn ControllerFactory>>,
}

impl Registry {
    /// The controllers of this crate.
    #[must_use]
    pub fn builtin() -> Self {
        let mut registry = Self { factories: Vec::new() };
        for built_in in builtin_factories() {
            registry.insert(built_in);
        }
        registry
    }

    /// The controllers of this crate, including those meant only for simulated networks.
    #[must_use]
    pub fn with_experiments() -> Self {
        let mut registry = Self::builtin();
        registry.insert(configurable(
            Uncontrolled::NAME,
            Uncontrolled::ABOUT,
            Uncontrolled::PARAMETERS,
            AfterTimeout::All,
            AfterTimeout::from_settings,
            |start, after_timeout| Box::new(Uncontrolled::with_timeout(start, after_timeout)),
        ));
        registry
    }

    /// Adds a user's controller.
    ///
    /// # Errors
    /// [`NameTaken`] if the name is in use. The controller registered before stays.
    pub fn register(&mut self, factory: Arc<dyn ControllerFactory>) -> Result<(), NameTaken> {
        if self.position(factory.name()).is_ok() {
            return Err(NameTaken { name: factory.name() });
        }
        self.insert(factory);
        Ok(())
    }

    /// Finds a controller by name, with any parameters that follow it.
    ///
    /// # Errors
    /// [`UnknownController`], which lists the valid names, or the parameters with their ranges.
    pub fn find(&self, words: &str) -> Result<Arc<dyn ControllerFactory>, UnknownController> {
        let (name, parameters) =
            words.split_once(':').map_or((words, None), |(name, rest)| (name, Some(rest)));
        let found = self.position(name).ok().and_then(|at| self.factories.get(at));
        match (found, parameters) {
            (None, _) => {
                Err(UnknownController::Name { name: name.to_owned(), valid: self.names().collect() })
            }
            (Some(factory), None) => Ok(Arc::clone(factory)),
            (Some(factory), Some(parameters)) => factory
                .configured(parameters)
                .map_err(|invalid| UnknownController::Parameter { controller: factory.name(), invalid }),
        }
    }

    /// All names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.factories.iter().map(|factory| factory.name())
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.factories.binary_search_by(|factory| factory.name().cmp(name))
    }

    fn insert(&mut self, factory: Arc<dyn ControllerFactory>) {
        if let Err(at) = self.position(factory.name()) {
            self.factories.insert(at, factory);
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::builtin()
    }
}

/// Makes controllers of one kind. [`factory`] makes one from a name and a closure.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// The name under which the kind is chosen.
    fn name(&self) -> &'static str;

    /// The words by which [`Registry::find`] finds this kind with these parameters, for example
    /// `vegas:alpha=2,beta=4`.
    fn words(&self) -> String {
        self.name().to_owned()
    }

    /// A controller for one connection. A stack calls this under its lock, so it must not use the stack.
    fn create(&self, start: &Start) -> Box<dyn Controller>;

    /// Describes the kind.
    fn about(&self) -> About {
        About::UNKNOWN
    }

    /// The parameters that may follow the name.
    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    /// The kind with these parameters, for example `alpha=2,beta=4`.
    ///
    /// # Errors
    /// [`InvalidParameter`], which lists the parameters with their ranges.
    fn configured(&self, parameters: &str) -> Result<Arc<dyn ControllerFactory>, InvalidParameter> {
        Err(InvalidParameter::new(parameters, "it takes no parameters"))
    }
}

/// A factory from a name and a closure.
#[must_use]
pub fn factory<F>(name: &'static str, create: F) -> Arc<dyn ControllerFactory>
where
    F: Fn(&Start) -> Box<dyn Controller> + Send + Sync + 'static,
{
    described(name, About::UNKNOWN, create)
}

/// A factory from a name, a description and a closure.
#[must_use]
pub fn described<F>(name: &'static str, about: About, create: F) -> Arc<dyn ControllerFactory>
where
    F: Fn(&Start) -> Box<dyn Controller> + Send + Sync + 'static,
{
    Arc::new(Named { name, about, create })
}

/// A factory of controllers that take parameters. `configure` turns parameters into a configuration; `create`
/// makes a controller from one. `default` is the configuration for the default parameters.
///
/// ```
/// use ackclock_control::congestion::{
///     About, Parameter, Reno, Registry, Settings, Start, Values, configurable,
/// };
///
/// const PARAMETERS: &[Parameter] = &[Parameter { name: "segments", values: Values::Number(1, 10), default: 4 }];
/// let mine = configurable(
///     "mine",
///     About::UNKNOWN,
///     PARAMETERS,
///     4,
///     |settings: &Settings| Ok(settings.value("segments")),
///     |start: &Start, segments| {
///         let initial_window = segments.unsigned_abs() * u64::from(start.smss);
///         Box::new(Reno::new(&Start { initial_window, ..*start }))
///     },
/// );
/// let mut registry = Registry::builtin();
/// registry.register(mine)?;
/// assert!(registry.find("mine:segments=3").is_ok());
/// assert!(registry.find("mine:segments=11").unwrap_err().to_string().ends_with("it takes segments (1 to 10)"));
/// # Ok::<(), ackclock_control::congestion::NameTaken>(())
/// ```
#[must_use]
pub fn configurable<C: Copy + Send + Sync + 'static>(
    name: &'static str,
    about: About,
    parameters: &'static [Parameter],
    default: C,
    configure: fn(&Settings) -> Result<C, InvalidParameter>,
    create: fn(&Start, C) -> Box<dyn Controller>,
) -> Arc<dyn ControllerFactory> {
    let settings = Settings::defaults(parameters);
    Arc::new(Configurable { name, about, parameters, settings, config: default, configure, create })
}

/// The factory of the default controller, [`Cubic`].
// RFC 9293 MAY-18: alternative congestion control algorithms that conform to RFC 5681; CUBIC is one (RFC
// 9438).
#[must_use]
pub fn default_factory() -> Arc<dyn ControllerFactory> {
    described(Cubic::NAME, Cubic::ABOUT, |start| Box::new(Cubic::new(start)))
}

/// The controller does not exist, or does not take these parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownController {
    /// No controller has this name.
    #[error("no congestion controller is called `{name}`; choose one of: {}", .valid.join(", "))]
    Name {
        /// The name asked for.
        name: String,
        /// The valid names.
        valid: Vec<&'static str>,
    },
    /// The controller does not take these parameters.
    #[error("congestion controller `{controller}`: {invalid}")]
    Parameter {
        /// Its name.
        controller: &'static str,
        /// The error, and the values that are valid.
        invalid: InvalidParameter,
    },
}

/// Another controller has this name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a congestion controller called `{name}` is registered already; register yours under another name")]
pub struct NameTaken {
    /// The name.
    pub name: &'static str,
}

struct Named<F> {
    name: &'static str,
    about: About,
    create: F,
}

impl<F> fmt::Debug for Named<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ControllerFactory").field(&self.name).finish()
    }
}

impl<F> ControllerFactory for Named<F>
where
    F: Fn(&Start) -> Box<dyn Controller> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn create(&self, start: &Start) -> Box<dyn Controller> {
        (self.create)(start)
    }

    fn about(&self) -> About {
        self.about
    }
}

struct Configurable<C> {
    name: &'static str,
    about: About,
    parameters: &'static [Parameter],
    settings: Settings,
    config: C,
    configure: fn(&Settings) -> Result<C, InvalidParameter>,
    create: fn(&Start, C) -> Box<dyn Controller>,
}

impl<C> fmt::Debug for Configurable<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ControllerFactory").field(&self.name).field(&self.settings).finish()
    }
}

impl<C: Copy + Send + Sync + 'static> ControllerFactory for Configurable<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn words(&self) -> String {
        if self.settings == Settings::defaults(self.parameters) {
            return self.name.to_owned();
        }
        format!("{}:{}", self.name, self.settings)
    }

    fn create(&self, start: &Start) -> Box<dyn Controller> {
        (self.create)(start, self.config)
    }

    fn about(&self) -> About {
        self.about
    }

    fn parameters(&self) -> &'static [Parameter] {
        self.parameters
    }

    fn configured(&self, parameters: &str) -> Result<Arc<dyn ControllerFactory>, InvalidParameter> {
        let settings = self.settings.changed(parameters)?;
        let config = (self.configure)(&settings)?;
        Ok(Arc::new(Self { settings, config, ..*self }))
    }
}

fn builtin_factories() -> Vec<Arc<dyn ControllerFactory>> {
    let bfa = [
        (Bfa::GENTLE, Bfa::ABOUT_GENTLE),
        (Bfa::DECREASING, Bfa::ABOUT_DECREASING),
        (Bfa::PATH, Bfa::ABOUT_PATH),
    ]
    .map(|(config, about)| described(config.name, about, move |start| Box::new(Bfa::new(start, config))));
    let others = [
        configurable(
            Bfa::PAPER.name,
            Bfa::ABOUT,
            BfaConfig::PARAMETERS,
            Bfa::PAPER,
            BfaConfig::from_settings,
            |start, config| Box::new(Bfa::new(start, config)),
        ),
        configurable(
            Vegas::NAME,
            Vegas::ABOUT,
            Thresholds::PARAMETERS,
            Thresholds::ONE_THREE,
            Thresholds::from_settings,
            |start, thresholds| Box::new(Vegas::with_thresholds(start, thresholds)),
        ),
        configurable(
            VegasUsc::NAME,
            VegasUsc::ABOUT,
            Thresholds::SEGMENTS,
            Thresholds::ONE_THREE,
            Thresholds::from_settings,
            |start, thresholds| Box::new(VegasUsc::with_thresholds(start, thresholds)),
        ),
        configurable(
            VegasStar::NAME,
            VegasStar::ABOUT,
            Thresholds::PARAMETERS,
            Thresholds::ONE_THREE,
            Thresholds::from_settings,
            |start, thresholds| Box::new(VegasStar::with_thresholds(start, thresholds)),
        ),
        configurable(
            Bbr::NAME,
            Bbr::ABOUT,
            Bbr::PARAMETERS,
            BbrLoss::Certain,
            BbrLoss::from_settings,
            |start, loss| Box::new(Bbr::with_loss(start, loss)),
        ),
        configurable(
            Htcp::NAME,
            Htcp::ABOUT,
            Htcp::PARAMETERS,
            true,
            Htcp::adaptive_from,
            |start, adaptive| Box::new(Htcp::with_backoff(start, adaptive)),
        ),
        configurable(
            Illinois::NAME,
            Illinois::ABOUT,
            Illinois::PARAMETERS,
            IllinoisThresholds::DEFAULT,
            IllinoisThresholds::from_settings,
            |start, thresholds| Box::new(Illinois::with_thresholds(start, thresholds)),
        ),
        configurable(
            LedbatPlusPlus::NAME,
            LedbatPlusPlus::ABOUT,
            LedbatPlusPlus::PARAMETERS,
            LedbatPlusPlus::TARGET,
            LedbatPlusPlus::target_from,
            |start, target| Box::new(LedbatPlusPlus::with_target(start, target)),
        ),
        configurable(
            Net2Reno::NAME,
            Net2Reno::ABOUT,
            Net2Reno::PARAMETERS,
            false,
            Net2Reno::eighth_from,
            |start, eighth| Box::new(Net2Reno::with_eighth(start, eighth)),
        ),
        default_factory(),
        described(BbrV1::NAME, BbrV1::ABOUT, |start| Box::new(BbrV1::new(start))),
        described(Card::NAME, Card::ABOUT, |start| Box::new(Card::new(start))),
        described(Cubic::NAME_PLAIN, Cubic::ABOUT_PLAIN, |start| Box::new(Cubic::plain(start))),
        described(Dctcp::NAME, Dctcp::ABOUT, |start| Box::new(Dctcp::new(start))),
        described(Dctcp::NAME_PRAGUE, Dctcp::ABOUT_PRAGUE, |start| Box::new(Dctcp::prague(start))),
        described(Tahoe::NAME, Tahoe::ABOUT, |start| Box::new(Tahoe::new(start))),
        described(TriS::NAME, TriS::ABOUT, |start| Box::new(TriS::new(start))),
        described(Vegas::NAME_2_4, Vegas::ABOUT_2_4, |start| Box::new(Vegas::two_four(start))),
    ];
    bfa.into_iter().chain(counting_factories()).chain(others).collect()
}

/// The controllers that take `count=`.
fn counting_factories() -> [Arc<dyn ControllerFactory>; 3] {
    [
        configurable(
            NewReno::NAME,
            NewReno::ABOUT,
            NewReno::PARAMETERS,
            Counting::Acks,
            Counting::from_settings,
            |start, counting| Box::new(NewReno::with_counting(start, counting)),
        ),
        configurable(
            Reno::NAME,
            Reno::ABOUT,
            Reno::PARAMETERS,
            Counting::Bytes,
            Counting::from_settings,
            |start, counting| Box::new(Reno::with_counting(start, counting)),
        ),
        configurable(
            Dual::NAME,
            Dual::ABOUT,
            Dual::PARAMETERS,
            Counting::Acks,
            Counting::from_settings,
            |start, counting| Box::new(Dual::with_counting(start, counting)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Registry, Reno, Thresholds, default_factory, factory};
    use crate::congestion::testing::{SMSS, START, loss, timeout};
    use crate::kit::{Flow, Path};

    #[test]
    fn default_is_cubic() {
        // Tests: RFC 9293 MAY-18
        assert_eq!(default_factory().name(), "cubic");
    }

    #[test]
    fn unknown_name_lists_the_valid_ones() {
        for words in ["renoo", "renoo:x=1", ":"] {
            let message = Registry::builtin().find(words).unwrap_err().to_string();
            assert!(message.contains("choose one of: bbr, ") && message.ends_with("vegas-usc"), "{message}");
        }
    }

    /// A reader of the list chooses by the source, so two names never share one.
    #[test]
    fn sources_tell_controllers_apart() {
        let registry = Registry::with_experiments();
        let mut sources: Vec<_> =
            registry.names().map(|name| registry.find(name).unwrap().about().source).collect();
        let names = sources.len();
        sources.sort_unstable();
        sources.dedup();
        assert_eq!((names > 20, sources.len()), (true, names), "{sources:#?}");
    }

    #[test]
    fn parameters_behind_the_name_are_those_of_the_controller() {
        // Tests: V3, B2
        let (registry, star) = (Registry::builtin(), "vegas-star:gamma=2,beta=7");
        for words in
            ["vegas:alpha=2,beta=4,gamma=1", "bfa:gain=3/4,on=20ms,off=-5ms,tick=1ms,decreasing=yes", star]
        {
            assert!(words.starts_with(registry.find(words).unwrap().create(&START).name()), "{words}");
        }
        let two_four = Thresholds::new(2, 4, 1).unwrap();
        assert_eq!(two_four, Thresholds::TWO_FOUR);
        let window = |words: &str| {
            let mut flow = Flow::new(registry.find(words).unwrap().as_ref(), Path::TYPICAL);
            flow.run(Duration::from_secs(30));
            flow.controller().cwnd()
        };
        assert_eq!(window("vegas:alpha=2,beta=4"), window("vegas-2-4"));
        assert!(window("vegas:alpha=20,beta=24") > window("vegas") + 10 * SMSS);
        assert_eq!(window("bfa:thresholds=path"), window("bfa-path"));
        assert_eq!(window("bfa:gain=3/4"), window("bfa-gentle"));
    }

    #[test]
    fn words_of_a_factory_choose_it_again() {
        let registry = Registry::with_experiments();
        for name in registry.names() {
            assert_eq!(registry.find(name).unwrap().words(), name);
        }
        let bfa = "bfa:gain=3/4,on=20ms,off=-5ms";
        for words in ["vegas:alpha=2,beta=4,gamma=1", "vegas-star:gamma=2,beta=7", bfa, "reno:count=bytes"] {
            let (first, again) =
                (registry.find(words), registry.find(&registry.find(words).unwrap().words()));
            assert_eq!(format!("{first:?}"), format!("{again:?}"), "{words}");
        }
    }

    #[test]
    fn impossible_parameters_are_answered_by_the_possible_ones() {
        let thresholds = "alpha (1 to 1000), beta (1 to 1000), gamma (1 to 1000)";
        for (words, valid) in [
            ("vegas:alpha=0", thresholds),
            ("vegas-star:delta=1", thresholds),
            ("vegas:alpha=3", "alpha below beta"),
            ("bfa:on=0ms", "on (1ms to 10000ms), off (-10000ms to -1ms)"),
            ("bfa:gain=1", "gain (0 or 1/4 or 1/2 or 3/4)"),
            ("tahoe:alpha=1", "it takes no parameters"),
            ("reno:count=segments", "count (acks or bytes)"),
        ] {
            let message = registry_error(words);
            assert!(
                message.contains(valid) && message.contains(words.split(':').next().unwrap()),
                "{message}"
            );
        }
    }

    fn registry_error(words: &str) -> String {
        Registry::builtin().find(words).unwrap_err().to_string()
    }

    #[test]
    fn no_congestion_control_is_for_experiments_alone() {
        // Tests: J10
        assert!(Registry::builtin().find("none-1987").is_err());
        let mut none = Registry::with_experiments().find("none-1987").unwrap().create(&START);
        let before = none.cwnd();
        none.on_loss_episode(&loss(100, 10 * SMSS));
        none.on_timeout(&timeout(10 * SMSS, 1));
        assert_eq!(
            (none.cwnd(), none.ssthresh()),
            (before, u64::MAX),
            "the receiver's window is its only bound"
        );
        assert!(before >= 1 << 30);
    }

    #[test]
    fn registered_name_is_found_and_creates() {
        let mut registry = Registry::builtin();
        registry.register(factory("mine", |start| Box::new(Reno::new(start)))).unwrap();
        assert_eq!(registry.find("mine").unwrap().create(&START).cwnd(), START.initial_window);
    }

    #[test]
    fn name_is_registered_once() {
        let mut registry = Registry::builtin();
        assert_eq!(registry.register(default_factory()).unwrap_err().name, "cubic");
    }

    #[test]
    fn every_builtin_creates_a_controller_of_its_own_name() {
        let registry = Registry::with_experiments();
        for name in registry.names() {
            assert_eq!(registry.find(name).unwrap().create(&START).name(), name);
        }
    }
}
