//! A scenario as text.

use super::Scenario;

/// The scenario cannot be written as TOML.
#[derive(Debug, thiserror::Error)]
#[error("the scenario cannot be written as TOML: {0}")]
pub struct ScenarioWriteError(toml::ser::Error);

impl Scenario {
    /// The scenario as a TOML file.
    ///
    /// # Errors
    /// Those of the TOML writer. A scenario causes none.
    pub fn to_toml(&self) -> Result<String, ScenarioWriteError> {
        toml::to_string(self).map_err(ScenarioWriteError)
    }
}
