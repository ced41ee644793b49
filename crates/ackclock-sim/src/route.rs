//! Routes: the cheapest path to each node, computed at the start and whenever a link changes.
//!
//! A host never forwards, so only routers need tables; a host with one link sends everything there. The path
//! to such a host is the path to its router and then its link, so 20,000 hosts behind two routers cost two
//! shortest-path searches. Of paths with equal cost, the one through the earlier link is taken, on every
//! machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The next link towards each destination.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// For each node: its next link by destination, or the one for everything.
    ways: Vec<Ways>,
}

#[derive(Debug, Clone)]
enum Ways {
    /// A host with a single link.
    One(u32),
    /// By destination; [`NOWHERE`] without a route.
    Table(Box<[u32]>),
}

/// One direction of a link, as routes see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub from: u32,
    pub to: u32,
    pub cost: u32,
    pub up: bool,
}

impl Routes {
    /// The routes between `nodes` nodes. `forwards` marks the routers. `edges[n]` is link `n`.
    pub fn new(forwards: &[bool], edges: &[Edge]) -> Self {
        let mut out: Vec<Vec<u32>> = vec![Vec::new(); forwards.len()];
        for (link, edge) in (0..).zip(edges) {
            out[edge.from as usize].push(link);
        }
        let is_leaf = |node: usize| !forwards[node] && out[node].len() == 1;
        let (leaves, others): (Vec<usize>, Vec<usize>) = (0..forwards.len()).partition(|node| is_leaf(*node));
        let mut tables: Vec<Box<[u32]>> = vec![vec![NOWHERE; forwards.len()].into(); others.len()];
        // The links into each node, for the search backwards from a destination.
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); forwards.len()];
        for (link, edge) in (0..).zip(edges).filter(|(_, edge)| edge.up) {
            into[edge.to as usize].push(link);
        }
        for &destination in &others {
            let next = search(destination, forwards, edges, &into);
            for (&node, table) in others.iter().zip(&mut tables) {
                table[destination] = next[node];
            }
        }
        let last_links: Vec<(usize, u32)> =
            leaves.iter().flat_map(|leaf| into[*leaf].first().map(|link| (*leaf, *link))).collect();
        for (&node, table) in others.iter().zip(&mut tables) {
            for &(leaf, link) in &last_links {
                let router = edges[link as usize].from as usize;
                table[leaf] = if node == router { link } else { table[router] };
            }
        }
        let mut ways: Vec<Ways> =
            out.iter().map(|links| Ways::One(links.first().copied().unwrap_or(NOWHERE))).collect();
        for (node, table) in others.into_iter().zip(tables) {
            ways[node] = Ways::Table(table);
        }
        Self { ways }
    }

    /// The link that leads from `node` towards `destination`.
    #[inline]
    pub fn next(&self, node: u32, destination: u32) -> Option<u32> {
        match self.ways.get(node as usize)? {
            Ways::One(link) => Some(*link),
            Ways::Table(table) => table.get(destination as usize).copied().filter(|link| *link != NOWHERE),
        }
    }
}

/// Dijkstra's search (1959) from `destination` backwards: each node's next link.
fn search(destination: usize, forwards: &[bool], edges: &[Edge], into: &[Vec<u32>]) -> Vec<u32> {
    let mut next = vec![NOWHERE; forwards.len()];
    let mut costs = vec![u64::MAX; forwards.len()];
    costs[destination] = 0;
    let mut heap = BinaryHeap::from([Reverse((0u64, destination))]);
    while let Some(Reverse((cost, node))) = heap.pop() {
        if cost > costs[node] || !(forwards[node] || node == destination) {
            continue;
        }
        for &link in &into[node] {
            let edge = edges[link as usize];
            let (from, through) = (edge.from as usize, cost + u64::from(edge.cost));
            if (through, link) < (costs[from], next[from]) {
                costs[from] = through;
                next[from] = link;
                heap.push(Reverse((through, from)));
            }
        }
    }
    next
}

const NOWHERE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// Both directions of each link, as the network numbers them.
    fn edges(links: &[(u32, u32, u32)]) -> Vec<Edge> {
        let both = |&(a, b, cost): &(u32, u32, u32)| {
            [Edge { from: a, to: b, cost, up: true }, Edge { from: b, to: a, cost, up: true }]
        };
        links.iter().flat_map(both).collect()
    }

    /// Hosts 0 and 1; routers 2, 3, 4 in a triangle.
    fn triangle() -> (Vec<bool>, Vec<Edge>) {
        let links = [(0, 2, 1), (3, 1, 1), (2, 3, 3), (2, 4, 1), (4, 3, 1)];
        (vec![false, false, true, true, true], edges(&links))
    }

    fn path(routes: &Routes, edges: &[Edge], mut at: u32, to: u32) -> Vec<u32> {
        let mut path = vec![at];
        while at != to && path.len() < 10 {
            let Some(link) = routes.next(at, to) else { break };
            at = edges[link as usize].to;
            path.push(at);
        }
        path
    }

    #[test]
    fn the_cheapest_way_is_taken_both_ways() {
        let (forwards, edges) = triangle();
        let routes = Routes::new(&forwards, &edges);
        assert_eq!(path(&routes, &edges, 0, 1), [0, 2, 4, 3, 1]);
        assert_eq!(path(&routes, &edges, 1, 0), [1, 3, 4, 2, 0]);
        assert_eq!(path(&routes, &edges, 2, 4), [2, 4]);
    }

    #[test]
    fn a_link_that_is_down_is_avoided() {
        let (forwards, mut edges) = triangle();
        edges[6].up = false;
        edges[7].up = false;
        let routes = Routes::new(&forwards, &edges);
        assert_eq!(path(&routes, &edges, 0, 1), [0, 2, 3, 1]);
        for link in [4, 5] {
            edges[link].up = false;
        }
        let routes = Routes::new(&forwards, &edges);
        assert_eq!(routes.next(2, 1), None);
    }

    #[test]
    fn hosts_with_two_links_do_not_forward() {
        // 0 - 2 - 1 where 2 is a host.
        let edges = edges(&[(0, 2, 1), (2, 1, 1)]);
        let routes = Routes::new(&[false; 3], &edges);
        assert_eq!(routes.next(2, 1), Some(2));
        assert_eq!(path(&routes, &edges, 2, 0), [2, 0]);
    }
}
