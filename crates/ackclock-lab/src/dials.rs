//! The dials of the laboratory, one row each: what a reader can change of a scene. The page makes its sliders
//! and lists from this table, and links carry these keys.

use std::fmt::Display;
use std::str::FromStr;

use ackclock_control::congestion::Registry;
use ackclock_sim::scenario::{LinkConfig, Loss, QueueKind};
use ackclock_sim::units::{Bytes, Limit, Rate, Share, Span};
use ackclock_sim::{Direction, Scenario, TrafficConfig, TrafficKind};
use serde::Serialize;

/// Something to change.
pub(crate) struct Dial {
    /// The key in links and requests.
    pub key: &'static str,
    /// The name beside it.
    pub label: &'static str,
    /// Its effect, in a sentence.
    pub what: &'static str,
    pub form: Form,
    /// Reads a scenario's value; `None` if the scenario has no such thing.
    pub read: fn(&Scenario) -> Option<Found>,
    /// Changes a scenario, and returns the value in its usual form.
    write: fn(&mut Scenario, &str) -> Result<String, String>,
}

/// How a dial looks.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    /// A slider between two numbers. A value is the number with the unit behind it.
    Slider { unit: &'static str, min: f64, max: f64, step: f64, log: bool },
    /// A list of names.
    List(List),
}

/// The kinds of lists.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum List {
    Controllers,
    ControllersOrNone,
    Queues,
}

/// A scenario's value at a dial.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Found {
    /// The number of a slider, in its unit.
    Number(f64),
    /// A name of a list.
    Name(String),
}

/// All of them. They are applied in this order.
pub(crate) const DIALS: &[Dial] = &[
    Dial {
        key: "rate",
        label: "Rate",
        what: "How fast the slowest link sends.",
        form: Form::Slider { unit: "kbit/s", min: 8.0, max: 100_000.0, step: 1.0, log: true },
        read: |scenario| {
            let rate = bottleneck(scenario)?.there.rate;
            (!rate.is_unlimited()).then(|| Found::Number(rate.bits() as f64 / 1e3))
        },
        write: |scenario, text| {
            let rate: Rate = parsed(text)?;
            each_way(scenario, |way, before| {
                if way.rate == before.rate {
                    way.rate = rate;
                }
            })?;
            Ok(rate.to_string())
        },
    },
    Dial {
        key: "delay",
        label: "Delay",
        what: "How long the slowest link takes one way, besides sending.",
        form: Form::Slider { unit: "ms", min: 0.0, max: 500.0, step: 1.0, log: false },
        read: |scenario| Some(Found::Number(bottleneck(scenario)?.there.delay.0 as f64 / 1e6)),
        write: |scenario, text| {
            let delay: Span = parsed(text)?;
            each_way(scenario, |way, before| {
                if way.delay == before.delay {
                    way.delay = delay;
                }
            })?;
            Ok(delay.to_string())
        },
    },
    Dial {
        key: "queue",
        label: "Queue",
        what: "The discipline of the queue before it.",
        form: Form::List(List::Queues),
        read: |scenario| Some(Found::Name(bottleneck(scenario)?.there.queue.kind().to_string())),
        write: |scenario, text| {
            let kind: QueueKind = text.parse()?;
            let queue = &mut bottleneck_mut(scenario)?.there.queue;
            *queue = kind.config(queue.limit(), false);
            Ok(kind.to_string())
        },
    },
    Dial {
        key: "buffer",
        label: "Buffer",
        what: "How many packets wait there at most.",
        form: Form::Slider { unit: "packets", min: 1.0, max: 2000.0, step: 1.0, log: true },
        read: |scenario| match bottleneck(scenario)?.there.queue.limit() {
            Limit::Packets(packets) => Some(Found::Number(packets as f64)),
            Limit::Bytes(_) => None,
        },
        write: |scenario, text| {
            let limit: Limit = parsed(text)?;
            let queue = &mut bottleneck_mut(scenario)?.there.queue;
            *queue = queue.kind().config(limit, false);
            Ok(limit.to_string())
        },
    },
    Dial {
        key: "loss",
        label: "Loss",
        what: "The share of packets that the slowest link loses at random, with the data.",
        form: Form::Slider { unit: "%", min: 0.0, max: 20.0, step: 0.1, log: false },
        read: |scenario| match bottleneck(scenario)?.there.loss {
            None => Some(Found::Number(0.0)),
            Some(Loss::Independent(share)) => Some(Found::Number(f64::from(share.parts_per_billion()) / 1e7)),
            Some(_) => None,
        },
        write: |scenario, text| {
            let share: Share = parsed(text)?;
            let lost = (share != Share::ZERO).then_some(Loss::Independent(share));
            bottleneck_mut(scenario)?.there.loss = lost;
            Ok(share.to_string())
        },
    },
    Dial {
        key: "first",
        label: "Controller",
        what: "The congestion controller of the first flow.",
        form: Form::List(List::Controllers),
        read: |scenario| controller(scenario, 0).map(Found::Name),
        write: |scenario, text| {
            let first = scenario.traffic.first_mut().ok_or("the scene has no flow")?;
            first.tcp.congestion = Some(text.to_owned());
            Ok(text.to_owned())
        },
    },
    Dial {
        key: "second",
        label: "Beside it",
        what: "The controller of a second flow over the same link, with hosts of its own.",
        form: Form::List(List::ControllersOrNone),
        read: |scenario| Some(Found::Name(controller(scenario, 1).unwrap_or_else(|| NONE.to_owned()))),
        write: |scenario, text| {
            second_flow(scenario, text)?;
            Ok(text.to_owned())
        },
    },
    Dial {
        key: "amount",
        label: "Amount",
        what: "What the first flow sends.",
        form: Form::Slider { unit: "kB", min: 10.0, max: 20_000.0, step: 1.0, log: true },
        read: |scenario| match &scenario.traffic.first()?.what {
            TrafficKind::Bulk { bytes: Some(bytes), .. } => Some(Found::Number(bytes.0 as f64 / 1e3)),
            _ => None,
        },
        write: |scenario, text| {
            let amount: Bytes = parsed(text)?;
            match scenario.traffic.first_mut().map(|first| &mut first.what) {
                Some(TrafficKind::Bulk { bytes: Some(bytes), .. }) => *bytes = amount,
                _ => return Err("the first flow of this scene has no end; leave `amount` out".to_owned()),
            }
            Ok(amount.to_string())
        },
    },
    Dial {
        key: "duration",
        label: "Duration",
        what: "How long it runs at most, in the network's time.",
        form: Form::Slider { unit: "s", min: 1.0, max: 400.0, step: 1.0, log: false },
        read: |scenario| Some(Found::Number(scenario.duration.0 as f64 / 1e9)),
        write: |scenario, text| {
            scenario.duration = parsed(text)?;
            Ok(scenario.duration.to_string())
        },
    },
    Dial {
        key: "seed",
        label: "Seed",
        what: "Another seed gives other random numbers; the same one gives the same packets.",
        form: Form::Slider { unit: "", min: 0.0, max: 1000.0, step: 1.0, log: false },
        read: |scenario| Some(Found::Number(scenario.seed as f64)),
        write: |scenario, text| {
            scenario.seed = text.trim().parse().map_err(|_| format!("`{text}` is not a whole number"))?;
            Ok(scenario.seed.to_string())
        },
    },
];

/// The second flow's name where there is none.
pub(crate) const NONE: &str = "none";

impl Dial {
    /// Changes a scenario, and returns the value in its usual form.
    pub fn turn(&self, scenario: &mut Scenario, text: &str) -> Result<String, String> {
        let usual = (self.write)(scenario, text).map_err(|error| format!("{}: {error}", self.key))?;
        if let (Form::Slider { unit, min, max, .. }, Some(Found::Number(number))) =
            (&self.form, (self.read)(scenario))
            && !(*min..=*max).contains(&number)
        {
            let key = self.key;
            return Err(format!("{key}: found `{text}`; allowed is {min}{unit} to {max}{unit}"));
        }
        Ok(usual)
    }
}

impl List {
    /// Its names.
    pub fn names(self, registry: &Registry) -> Vec<String> {
        let controllers = registry.names().map(str::to_owned);
        match self {
            Self::Controllers => controllers.collect(),
            Self::ControllersOrNone => std::iter::once(NONE.to_owned()).chain(controllers).collect(),
            Self::Queues => QueueKind::ALL.map(|(name, _)| name.to_owned()).to_vec(),
        }
    }
}

/// The link that the dials turn: the one of this name, or the slowest.
pub(crate) fn bottleneck(scenario: &Scenario) -> Option<&LinkConfig> {
    scenario.links.get(place(scenario)?)
}

fn bottleneck_mut(scenario: &mut Scenario) -> Result<&mut LinkConfig, String> {
    let at = place(scenario);
    at.and_then(|at| scenario.links.get_mut(at)).ok_or_else(|| "the scene has no link".to_owned())
}

fn place(scenario: &Scenario) -> Option<usize> {
    let named = scenario.links.iter().position(|link| link.name.as_deref() == Some("bottleneck"));
    let slowest = || (0..scenario.links.len()).min_by_key(|&at| scenario.links[at].there.rate.bits());
    named.or_else(slowest)
}

/// Changes both directions of the bottleneck; each sees the way there as it was.
fn each_way(scenario: &mut Scenario, change: impl Fn(&mut Direction, &Direction)) -> Result<(), String> {
    let link = bottleneck_mut(scenario)?;
    let before = link.there.clone();
    change(&mut link.there, &before);
    if let Some(back) = &mut link.back {
        change(back, &before);
    }
    Ok(())
}

/// The controller of a flow: its own, or its profile's.
fn controller(scenario: &Scenario, flow: usize) -> Option<String> {
    let traffic = scenario.traffic.get(flow)?;
    let host = scenario.hosts.iter().find(|host| host.name == traffic.from)?;
    let tcp = traffic.tcp.over(&host.tcp.over(&scenario.tcp));
    let made = || tcp.config(&Registry::with_experiments()).ok().map(|config| config.congestion.words());
    tcp.congestion.clone().or_else(made)
}

/// Gives the second flow this controller, takes the flow away, or adds one: a copy of the first, between
/// hosts that are connected as the first's are.
fn second_flow(scenario: &mut Scenario, controller: &str) -> Result<(), String> {
    if controller == NONE {
        scenario.traffic.truncate(1);
        return Ok(());
    }
    if scenario.traffic.len() < 2 {
        let first = scenario.traffic.first().ok_or("the scene has no flow")?.clone();
        let (from, to) = (twin(scenario, &first.from), twin(scenario, &first.to));
        let name = format!("{} beside", first.name);
        scenario.traffic.push(TrafficConfig { name, from, to, ..first });
    }
    if let Some(second) = scenario.traffic.get_mut(1) {
        second.tcp.congestion = Some(controller.to_owned());
    }
    Ok(())
}

/// A host like this one, with links like its. Its name is new.
fn twin(scenario: &mut Scenario, host: &str) -> String {
    let taken = |name: &String| {
        scenario.hosts.iter().any(|host| host.name == *name) || scenario.routers.contains(name)
    };
    let name = (2..).map(|number| format!("{host}-{number}")).find(|name| !taken(name)).unwrap_or_default();
    let hosts = scenario.hosts.iter().filter(|config| config.name == host).cloned();
    let twins: Vec<_> = hosts
        .map(|mut config| {
            config.name.clone_from(&name);
            config
        })
        .collect();
    scenario.hosts.extend(twins);
    let links = scenario.links.iter().filter(|link| link.between.iter().any(|end| end == host)).cloned();
    let links: Vec<LinkConfig> = links
        .map(|mut link| {
            let ends = link.between.iter_mut().filter(|end| *end == host);
            ends.for_each(|end| end.clone_from(&name));
            link.name = None;
            link
        })
        .collect();
    scenario.links.extend(links);
    name
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}
