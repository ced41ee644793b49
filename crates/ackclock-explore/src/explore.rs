//! [`explore`]: breadth first over all states.

use std::collections::{HashMap, HashSet};
use std::panic::{self, AssertUnwindSafe};

use ackclock_form::Writer;

use crate::judge::Breach;
use crate::linux::Variation;
use crate::script::Script;
use crate::setup::Setup;
use crate::step::Move;
use crate::world::World;

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most states.
    pub states: usize,
    /// The most moves from the start.
    pub depth: u32,
    /// A healthy network runs out from one state in this many.
    pub run_out_every: u32,
}

impl Bounds {
    /// This many states at most, at any depth, each run out.
    #[must_use]
    pub fn states(states: usize) -> Self {
        Self { states, depth: u32::MAX, run_out_every: 1 }
    }
}

/// The findings of an exploration.
#[derive(Debug)]
pub struct Report {
    /// How many states.
    pub states: usize,
    /// How many moves the last of them is from the start.
    pub depth: u32,
    /// Whether these are all states of the setup.
    pub complete: bool,
    /// How often the server acted as a Linux, by the way in which it did.
    pub varied: HashMap<Variation, usize>,
    /// The first breach, by the fewest moves.
    pub counterexample: Option<Counterexample>,
}

/// A breach: an act of a world that must not be.
#[derive(Debug)]
pub struct Counterexample {
    /// How it comes to it. [`Script::replay`] gives the breach again.
    pub script: Script,
    /// The rule that it breaks.
    pub breach: Breach,
}

/// A state: the move that led to it, and from where.
struct Node {
    parent: u32,
    step: Move,
}

/// Visits the states of a setup breadth first, up to the first breach.
#[must_use]
pub fn explore(setup: &'static Setup, bounds: &Bounds) -> Report {
    let mut search = Search {
        setup,
        bounds,
        nodes: Vec::new(),
        seen: HashSet::new(),
        varied: HashMap::new(),
        writer: Writer::relative_to(0),
    };
    let begin = World::begin(setup);
    search.seen.insert(begin.digest(&mut search.writer));
    let (mut level, mut depth) = (vec![ROOT], 0);
    while !level.is_empty() && depth < bounds.depth && search.seen.len() < bounds.states {
        depth += 1;
        match search.expand(&level) {
            Ok(next) => level = next,
            Err(counterexample) => {
                return Report {
                    states: search.seen.len(),
                    depth,
                    complete: false,
                    varied: search.varied,
                    counterexample: Some(*counterexample),
                };
            }
        }
    }
    let states = search.seen.len();
    Report { states, depth, complete: level.is_empty(), varied: search.varied, counterexample: None }
}

struct Search<'a> {
    setup: &'static Setup,
    bounds: &'a Bounds,
    nodes: Vec<Node>,
    seen: HashSet<u128>,
    varied: HashMap<Variation, usize>,
    writer: Writer,
}

impl Search<'_> {
    /// The states that follow those of `level` and are new.
    fn expand(&mut self, level: &[u32]) -> Result<Vec<u32>, Box<Counterexample>> {
        let (mut next, mut moves) = (Vec::new(), Vec::new());
        for &at in level {
            let path = self.path(at);
            let mut parent = Some(self.replay(&path));
            moves.clear();
            parent.iter().for_each(|world| world.moves(&mut moves));
            for &step in &moves {
                // The parent itself serves for one of its moves.
                let world = parent.take().unwrap_or_else(|| self.replay(&path));
                if self.visit(&path, world, step)? {
                    next.push(u32::try_from(self.nodes.len()).unwrap_or(ROOT));
                    self.nodes.push(Node { parent: at, step });
                    if self.seen.len() >= self.bounds.states {
                        return Ok(next);
                    }
                }
            }
        }
        Ok(next)
    }

    /// Makes a move and checks where it leads. Returns whether that is new.
    fn visit(&mut self, path: &[Move], mut world: World, step: Move) -> Result<bool, Box<Counterexample>> {
        if let Move::Vary(variation, _) = step {
            *self.varied.entry(variation).or_default() += 1;
        }
        let mut trail = vec![step];
        let (seen, writer, every) = (&mut self.seen, &mut self.writer, self.bounds.run_out_every);
        let visited = panic::catch_unwind(AssertUnwindSafe(|| {
            world.advance(step)?;
            world.check()?;
            let digest = world.digest(writer);
            let is_new = seen.insert(digest);
            if is_new && digest.is_multiple_of(u128::from(every.max(1))) {
                world.run_out(&mut trail)?;
            }
            Ok(is_new)
        }));
        let result =
            visited.unwrap_or_else(|panic| Err(Breach::panic(trail.last().and_then(Move::side), &*panic)));
        result.map_err(|breach| {
            let moves = path.iter().copied().chain(trail).collect();
            Box::new(Counterexample { script: Script { setup: self.setup, moves }, breach })
        })
    }

    fn path(&self, mut at: u32) -> Vec<Move> {
        let mut path = Vec::new();
        while let Some(node) = self.nodes.get(at as usize) {
            path.push(node.step);
            at = node.parent;
        }
        path.reverse();
        path
    }

    fn replay(&self, path: &[Move]) -> World {
        let mut world = World::begin(self.setup);
        for &step in path {
            // It was without a breach the first time.
            let _ = world.advance(step);
        }
        world
    }
}

/// The state before the first move, which has no node.
const ROOT: u32 = u32::MAX;
