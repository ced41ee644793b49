//! The cases, a module for each area. `side` is the one on which they run.

mod bind;
mod connect;
mod data;
mod families;
mod options;
mod reset;
mod shutdown;
mod socket;
mod split;
mod support;

use super::side;
use crate::answers::Case;

pub(crate) fn all() -> Vec<Case> {
    let areas = [
        bind::all(),
        connect::all(),
        data::all(),
        families::all(),
        options::all(),
        reset::all(),
        shutdown::all(),
        socket::all(),
        split::all(),
    ];
    areas.into_iter().flatten().collect()
}
