//! A run of the laboratory as data: a scene, and what the reader has changed of it. It fits into a link.

use std::collections::BTreeMap;

use ackclock_control::congestion::Registry;
use ackclock_control::names::nearest;
use ackclock_sim::{Scenario, Simulation};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::dials::{DIALS, Dial};
use crate::scenes::Scenes;

/// A scene by its name, and the values of dials that are not the scene's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub scene: String,
    /// By the dial's key, in the form in which they were given.
    pub values: BTreeMap<String, String>,
}

impl Setting {
    /// The setting of a request: a value for each key, as in a link.
    pub fn of(mut values: BTreeMap<String, String>) -> Result<Self, String> {
        let scene = values
            .remove(SCENE)
            .ok_or_else(|| format!("a setting has a `{SCENE}`; the answer to `catalogue` lists them"))?;
        for key in values.keys() {
            dial(key)?;
        }
        Ok(Self { scene, values })
    }

    /// Reads what [`link`](Self::link) wrote.
    pub fn from_link(link: &str) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for pair in link.trim_start_matches(['#', '?']).split('&').filter(|pair| !pair.is_empty()) {
            let decoded = |text: &str| {
                percent_decode_str(text)
                    .decode_utf8()
                    .map(|text| text.into_owned())
                    .map_err(|_| format!("`{text}` is not UTF-8; copy the link again"))
            };
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("found `{pair}`; a link is of KEY=VALUE, joined by &"))?;
            values.insert(decoded(key)?, decoded(value)?);
        }
        Self::of(values)
    }

    /// The whole setting in a few words, for behind the `#` of a link.
    pub fn link(&self) -> String {
        let escaped = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
        let scene = (SCENE, self.scene.as_str());
        let values = DIALS.iter().filter_map(|dial| Some((dial.key, self.values.get(dial.key)?.as_str())));
        let pairs = std::iter::once(scene).chain(values);
        pairs.map(|(key, value)| format!("{key}={}", escaped(value))).collect::<Vec<_>>().join("&")
    }

    /// The scenario, checked; `self` then has its values in their usual form, without those that the scene
    /// has anyway.
    pub fn scenario(&mut self, scenes: &Scenes, registry: &Registry) -> Result<Scenario, String> {
        let mut scenario = scenes.scenario(&self.scene)?;
        for dial in DIALS {
            let Some(value) = self.values.get_mut(dial.key) else { continue };
            let own = (dial.read)(&scenario);
            let before = scenario.clone();
            *value = dial.turn(&mut scenario, value)?;
            if (dial.read)(&scenario) == own {
                self.values.remove(dial.key);
                scenario = before;
            }
        }
        Simulation::with_registry(&scenario, registry).map_err(|problem| problem.to_string())?;
        Ok(scenario)
    }
}

fn dial(key: &str) -> Result<&'static Dial, String> {
    let found = DIALS.iter().find(|dial| dial.key == key);
    found.ok_or_else(|| {
        let near = nearest(key, DIALS.iter().map(|dial| dial.key)).unwrap_or_default();
        format!("nothing is called `{key}`; the nearest is `{near}`")
    })
}

const SCENE: &str = "scene";
/// The characters that end a value or a link.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'+')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'`');

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn setting(values: &[(&str, &str)]) -> Result<(Setting, Scenario), String> {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut setting = Setting::of(values)?;
        let scenario = setting.scenario(&Scenes::default(), &Registry::with_experiments())?;
        Ok((setting, scenario))
    }

    #[test]
    fn a_scene_alone_is_its_scenario() {
        for name in Scenes::default().names() {
            let (setting, scenario) = setting(&[("scene", &name)]).unwrap();
            assert_eq!(scenario, Scenes::default().scenario(&name).unwrap());
            assert_eq!(setting.link(), format!("scene={name}"));
        }
    }

    #[test]
    fn what_a_scene_has_anyway_is_left_out_of_its_link() {
        let (same, _) =
            setting(&[("scene", "vegas-7"), ("rate", "200kB/s"), ("buffer", "9packets")]).unwrap();
        assert_eq!(same.link(), "scene=vegas-7");
        let (other, _) = setting(&[("scene", "vegas-7"), ("rate", "0.4Mbit/s"), ("seed", "7")]).unwrap();
        assert_eq!(other.link(), "scene=vegas-7&rate=400kbit/s&seed=7");
    }

    #[test]
    fn a_second_flow_is_the_first_with_hosts_of_its_own() {
        let (_, scenario) = setting(&[("scene", "vegas-7"), ("second", "cubic")]).unwrap();
        let [first, second] = &scenario.traffic[..] else { panic!("{:?}", scenario.traffic) };
        assert_eq!((second.from.as_str(), second.to.as_str(), &second.what), ("a2-2", "b2-2", &first.what));
        assert_eq!(second.tcp.congestion.as_deref(), Some("cubic"));
        let alone = setting(&[("scene", "vegas-7"), ("second", "none")]).unwrap();
        assert_eq!(alone.0.link(), "scene=vegas-7");
    }

    #[test]
    fn wrong_settings_say_what_to_do() {
        for (values, said) in [
            (vec![], "a setting has a `scene`"),
            (vec![("scene", "vegas-8")], "the nearest is `vegas-7`"),
            (vec![("scene", "vegas-7"), ("rat", "1")], "the nearest is `rate`"),
            (vec![("scene", "vegas-7"), ("rate", "20")], "`20` has no unit"),
            (vec![("scene", "vegas-7"), ("rate", "1Tbit/s")], "allowed is 8kbit/s to 100000kbit/s"),
            (vec![("scene", "vegas-7"), ("first", "renoo")], "renoo"),
            (vec![("scene", "vegas-7"), ("queue", "fifo")], "choose one of: drop-tail"),
        ] {
            let error = setting(&values).unwrap_err();
            assert!(error.contains(said), "{values:?}: {error}");
        }
    }

    fn values() -> impl Strategy<Value = Vec<(&'static str, String)>> {
        let rate = (8u64..100_000).prop_map(|kbit| ("rate", format!("{kbit}kbit/s")));
        let delay = (0u64..500_000).prop_map(|us| ("delay", format!("{us}us")));
        let buffer = (1u64..2000).prop_map(|packets| ("buffer", format!("{packets}packets")));
        let loss = (0u32..200).prop_map(|tenths| ("loss", format!("{}.{}%", tenths / 10, tenths % 10)));
        let queue =
            prop::sample::select(vec!["drop-tail", "red", "codel", "fq-codel", "pie", "dualpi2", "cake"])
                .prop_map(|name| ("queue", name.to_owned()));
        let first = prop::sample::select(vec!["reno", "vegas:alpha=2,beta=4", "bbr", "cubic"])
            .prop_map(|name| ("first", name.to_owned()));
        let second =
            prop::sample::select(vec!["none", "reno", "bfa"]).prop_map(|name| ("second", name.to_owned()));
        let seed = (0u64..=1000).prop_map(|seed| ("seed", seed.to_string()));
        let all = (rate, delay, buffer, loss, queue, first, second, seed);
        (all, any::<u8>()).prop_map(|((a, b, c, d, e, f, g, h), kept)| {
            let all = [a, b, c, d, e, f, g, h];
            all.into_iter()
                .enumerate()
                .filter(|(at, _)| kept >> at & 1 == 1)
                .map(|(_, value)| value)
                .collect()
        })
    }

    proptest! {
        /// The link of a setting gives the same scenario, and its own link again.
        #[test]
        fn a_link_carries_the_whole_setting(values in values(), scene in 0usize..100) {
            let (scenes, registry) = (Scenes::default(), Registry::with_experiments());
            let names = scenes.names();
            let values = values.into_iter().map(|(key, value)| (key.to_owned(), value))
                .chain([("scene".to_owned(), names[scene % names.len()].clone())]).collect();
            let mut setting = Setting::of(values).unwrap();
            let scenario = setting.scenario(&scenes, &registry).unwrap();
            let link = setting.link();
            prop_assert!(link.is_ascii() && !link.contains(['#', '?', ' ', '<', '"']));
            let mut again = Setting::from_link(&link).unwrap();
            prop_assert_eq!(&again, &setting);
            prop_assert_eq!(again.scenario(&scenes, &registry).unwrap(), scenario);
            prop_assert_eq!(again.link(), link);
        }

        /// Any text is a setting or an error.
        #[test]
        fn no_link_panics(link in "[#?]?([a-z]{0,6}[=&%][ -~]{0,12}){0,4}|.{0,40}") {
            let (scenes, registry) = (Scenes::default(), Registry::with_experiments());
            if let Ok(mut setting) = Setting::from_link(&link) {
                let _ = setting.scenario(&scenes, &registry);
            }
        }
    }
}
