//! The recent figures of each connection, one point for each look.

use std::collections::{BTreeMap, VecDeque};

use clap::ValueEnum;

use crate::inspect::{Look, Seen};

/// The sort key of the table; the largest come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Bytes acknowledged and received a second
    Rate,
    /// Congestion window
    Cwnd,
    /// Smoothed round-trip time
    Srtt,
    /// Segments sent again
    Retransmits,
    /// The order in which they were made
    Number,
}

/// A connection over the last looks.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) seen: Seen,
    /// Bits a second between the last two looks; `None` after the first.
    pub(super) rate_bps: Option<u64>,
    /// The newest last.
    pub(super) points: VecDeque<Point>,
    moved: u64,
    /// Of these bytes, those received.
    received: u64,
    /// Most of what moved between the last two looks was received.
    pub(super) receives: bool,
}

/// The figures of one look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// The stack's clock in seconds.
    pub at: f64,
    pub rate_bps: u64,
    pub cwnd: u64,
    pub in_flight: u64,
    pub snd_wnd: u64,
    pub ssthresh: Option<u64>,
    pub rcv_wnd: u64,
    pub receive_queue: u64,
}

/// The connections of the last look.
#[derive(Debug)]
pub(super) struct Histories {
    of: BTreeMap<String, History>,
    /// Their ids, in the order of the table.
    order: Vec<String>,
    sort: Sort,
    at_us: u64,
    pub(super) left_out: u64,
}

impl Sort {
    pub const ALL: [(char, Self, &str); 5] = [
        ('r', Self::Rate, "rate"),
        ('c', Self::Cwnd, "cwnd"),
        ('s', Self::Srtt, "srtt"),
        ('t', Self::Retransmits, "retrans"),
        ('n', Self::Number, "number"),
    ];

    pub fn of_key(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|(key, ..)| *key == letter).map(|(_, sort, _)| sort)
    }
}

impl Histories {
    pub fn new(sort: Sort) -> Self {
        Self { of: BTreeMap::new(), order: Vec::new(), sort, at_us: 0, left_out: 0 }
    }

    pub fn sort_by(&mut self, sort: Sort) {
        self.sort = sort;
        self.put_in_order();
    }

    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// Adds a look. Connections that are missing from it are forgotten.
    pub fn add(&mut self, look: Look) {
        let elapsed_us = look.at_us.saturating_sub(self.at_us);
        let mut before = std::mem::take(&mut self.of);
        for seen in look.connections {
            let received = seen.info.bytes_received;
            let moved = seen.info.bytes_acked + received;
            // A number that recurs at another address belongs to another stack.
            let known = before.remove(&seen.id).filter(|known| {
                known.seen.local == seen.local && known.moved <= moved && known.received <= received
            });
            let rate_bps = known.as_ref().and_then(|known| {
                ((moved - known.moved) * 8).saturating_mul(1_000_000).checked_div(elapsed_us)
            });
            // While nothing moves, it stays what it was.
            let receives = known.as_ref().map_or(2 * received > moved, |known| {
                if moved == known.moved {
                    known.receives
                } else {
                    2 * (received - known.received) > moved - known.moved
                }
            });
            let mut points = known.map(|known| known.points).unwrap_or_default();
            if points.len() == POINTS_MAX {
                points.pop_front();
            }
            let info = &seen.info;
            points.push_back(Point {
                at: look.at_us as f64 / 1e6,
                rate_bps: rate_bps.unwrap_or(0),
                cwnd: info.cwnd,
                in_flight: info.in_flight,
                snd_wnd: u64::from(info.snd_wnd),
                ssthresh: info.ssthresh,
                rcv_wnd: u64::from(info.rcv_wnd),
                receive_queue: info.receive_queue,
            });
            self.of.insert(seen.id.clone(), History { seen, rate_bps, points, moved, received, receives });
        }
        (self.at_us, self.left_out) = (look.at_us, look.left_out);
        self.put_in_order();
    }

    /// In the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &History> {
        self.order.iter().filter_map(|id| self.of.get(id))
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// The row of a connection in the table.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.order.iter().position(|other| other == id)
    }

    pub fn at(&self, place: usize) -> Option<&History> {
        self.of.get(self.order.get(place)?)
    }

    /// Their total rate in bits a second.
    pub fn rate_bps(&self) -> u64 {
        self.of.values().filter_map(|history| history.rate_bps).sum()
    }

    fn put_in_order(&mut self) {
        // By number first: the sort below is stable, and keeps that order among equals.
        let number = |id: &str| {
            let (queue, number) = id.split_once('.').unwrap_or(("0", id));
            (queue.parse::<u64>().unwrap_or(u64::MAX), number.parse::<u64>().unwrap_or(u64::MAX))
        };
        self.order = self.of.keys().cloned().collect();
        self.order.sort_by_key(|id| number(id));
        let (of, sort) = (&self.of, self.sort);
        self.order.sort_by_key(|id| {
            let Some(History { seen, rate_bps, .. }) = of.get(id) else { return std::cmp::Reverse(0) };
            std::cmp::Reverse(match sort {
                Sort::Rate => rate_bps.unwrap_or(0),
                Sort::Cwnd => seen.info.cwnd,
                Sort::Srtt => u64::try_from(seen.info.srtt.as_nanos()).unwrap_or(u64::MAX),
                Sort::Retransmits => seen.info.retransmits,
                Sort::Number => 0,
            })
        });
    }
}

/// Points kept for each connection.
const POINTS_MAX: usize = 120;
