//! Controllers by name.

use std::fmt;
use std::sync::Arc;

use super::{
    About, Bbr, Bfa, Card, Controller, Cubic, Dctcp, Dual, NewReno, Reno, Start, Tahoe, Thresholds, TriS,
    Uncontrolled, Vegas, VegasStar,
};

/// The controllers that can be chosen by name.
///
/// ```
/// use ackclock_control::congestion::{Registry, Reno, Start, factory};
///
/// let mut registry = Registry::builtin();
/// registry.register(factory("my-reno", |start: &Start| Box::new(Reno::new(start))))?;
/// assert_eq!(registry.find("my-reno").unwrap().name(), "my-reno");
/// let unknown = registry.find("renoo").unwrap_err().to_string();
/// assert!(unknown.contains("my-reno, "));
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

    /// The controllers of this crate with those that only a simulated network should meet.
    #[must_use]
    pub fn with_experiments() -> Self {
        let mut registry = Self::builtin();
        registry.insert(described(Uncontrolled::NAME, Uncontrolled::ABOUT, |start| {
            Box::new(Uncontrolled::new(start))
        }));
        registry
    }

    /// Adds a controller of the user's own.
    ///
    /// # Errors
    /// [`NameTaken`] when the name is in use; the one registered before stays.
    pub fn register(&mut self, factory: Arc<dyn ControllerFactory>) -> Result<(), NameTaken> {
        if self.position(factory.name()).is_ok() {
            return Err(NameTaken { name: factory.name() });
        }
        self.insert(factory);
        Ok(())
    }

    /// The controller of this name.
    ///
    /// # Errors
    /// [`UnknownController`], which lists the names that would do.
    pub fn find(&self, name: &str) -> Result<Arc<dyn ControllerFactory>, UnknownController> {
        self.position(name)
            .ok()
            .and_then(|at| self.factories.get(at).cloned())
            .ok_or_else(|| UnknownController { name: name.to_owned(), valid: self.names().collect() })
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

    /// A controller for one connection.
    fn create(&self, start: &Start) -> Box<dyn Controller>;

    /// What the kind is.
    fn about(&self) -> About {
        About::UNKNOWN
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

/// The factory of the default controller, [`Cubic`].
// RFC 9293 MAY-18: alternative congestion control algorithms that conform to RFC 5681; CUBIC is one (RFC
// 9438).
#[must_use]
pub fn default_factory() -> Arc<dyn ControllerFactory> {
    described(Cubic::NAME, Cubic::ABOUT, |start| Box::new(Cubic::new(start)))
}

/// No controller has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no congestion controller is called `{name}`; choose one of: {}", .valid.join(", "))]
pub struct UnknownController {
    /// The name asked for.
    pub name: String,
    /// The names that exist.
    pub valid: Vec<&'static str>,
}

/// A controller of this name is registered already.
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

fn builtin_factories() -> Vec<Arc<dyn ControllerFactory>> {
    let bfa = [Bfa::PAPER, Bfa::GENTLE, Bfa::DECREASING, Bfa::PATH]
        .map(|config| described(config.name, Bfa::ABOUT, move |start| Box::new(Bfa::new(start, config))));
    let others = [
        default_factory(),
        described(Bbr::NAME, Bbr::ABOUT, |start| Box::new(Bbr::new(start))),
        described(Card::NAME, Card::ABOUT, |start| Box::new(Card::new(start))),
        described(Cubic::NAME_PLAIN, Cubic::ABOUT, |start| Box::new(Cubic::plain(start))),
        described(Dctcp::NAME, Dctcp::ABOUT, |start| Box::new(Dctcp::new(start))),
        described(Dctcp::NAME_PRAGUE, Dctcp::ABOUT_PRAGUE, |start| Box::new(Dctcp::prague(start))),
        described(Dual::NAME, Dual::ABOUT, |start| Box::new(Dual::new(start))),
        described(NewReno::NAME, NewReno::ABOUT, |start| Box::new(NewReno::new(start))),
        described(Reno::NAME, Reno::ABOUT, |start| Box::new(Reno::new(start))),
        described(Tahoe::NAME, Tahoe::ABOUT, |start| Box::new(Tahoe::new(start))),
        described(TriS::NAME, TriS::ABOUT, |start| Box::new(TriS::new(start))),
        described(Vegas::NAME, Vegas::ABOUT, |start| Box::new(Vegas::new(start))),
        described(Vegas::NAME_2_4, Vegas::ABOUT, |start| {
            Box::new(Vegas::with_thresholds(start, Thresholds::TWO_FOUR))
        }),
        described(VegasStar::NAME, VegasStar::ABOUT, |start| Box::new(VegasStar::new(start))),
    ];
    bfa.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::{Registry, Reno, default_factory, factory};
    use crate::congestion::testing::START;

    #[test]
    fn default_is_cubic() {
        // Tests: RFC 9293 MAY-18
        assert_eq!(default_factory().name(), "cubic");
    }

    #[test]
    fn unknown_name_lists_the_valid_ones() {
        let error = Registry::builtin().find("renoo").unwrap_err();
        assert_eq!(error.valid, Registry::builtin().names().collect::<Vec<_>>());
        assert!(error.to_string().contains("`renoo`"));
        assert!(error.to_string().contains("cubic, "));
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
