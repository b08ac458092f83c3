//! Where the time of a slow span went.
//!
//! From the slow span, the search goes to the spans inside that took the most longer than usual, and from there on inside, until
//! the largest part of the excess is that of no span inside.

use super::usual::Usual;
use crate::collect::Kept;
use std::collections::BTreeMap;

/// A place in a slow span.
pub(super) struct Found<'a> {
    /// One span, or all spans of a site that are directly inside of one.
    pub(super) spans: Vec<&'a Kept>,
    /// The spans directly inside, if their time is not part of the place's.
    pub(super) without: Vec<&'a Kept>,
    /// In nanoseconds.
    pub(super) time: u64,
    /// What is usual for it. None if that is not known.
    pub(super) usual: Option<u64>,
    pub(super) excess: u64,
}

/// A span, with the places of those directly inside.
struct Node<'a> {
    kept: &'a Kept,
    inside: Vec<usize>,
}

/// The spans directly inside one, of one site.
#[derive(Default)]
struct Group {
    places: Vec<usize>,
    time: u64,
    usual: u64,
}

impl Group {
    fn excess(&self) -> i128 {
        i128::from(self.time) - i128::from(self.usual)
    }
}

/// Returns where the time of `root` went. `inside` are the spans inside, in the order in which they ended. None if it took no longer
/// than usual.
pub(super) fn find<'a>(
    usual: &Usual<'_>,
    root: &'a Kept,
    inside: impl Iterator<Item = &'a Kept>,
) -> Option<Found<'a>> {
    // What is below a tenth of the usual time is not worth a sentence.
    const LITTLE: u64 = 10;
    let mut excess = usual.excess(root);
    if excess <= usual.median(root).unwrap_or(0) / LITTLE {
        return None;
    }
    let nodes = nodes(root, inside);
    let mut at = nodes.last()?;
    loop {
        let groups = groups(usual, &nodes, at);
        let in_groups: i128 = groups.values().map(Group::excess).sum();
        let most = groups.values().max_by_key(|group| group.excess());
        let own = i128::from(excess) - in_groups;
        // Where no part stands out, the span as a whole is the place.
        const PART: i128 = 4;
        let most = most
            .filter(|group| group.excess() > own && group.excess() * PART >= i128::from(excess));
        let Some(group) = most else {
            let time_inside = groups.values().map(|group| group.time).sum();
            let usual_inside = groups.values().map(|group| group.usual).sum();
            let is_own = own * PART >= i128::from(excess) && !groups.is_empty();
            let [time_inside, usual_inside] =
                [time_inside, usual_inside].map(|ns: u64| if is_own { ns } else { 0 });
            return Some(Found {
                spans: vec![at.kept],
                without: match is_own {
                    true => of(&nodes, &at.inside).map(|node| node.kept).collect(),
                    false => Vec::new(),
                },
                time: usual.time(at.kept).saturating_sub(time_inside),
                usual: usual.median(at.kept).map(|median| median.saturating_sub(usual_inside)),
                excess,
            });
        };
        let longest = of(&nodes, &group.places).max_by_key(|node| usual.excess(node.kept))?;
        let of_longest = usual.excess(longest.kept);
        if group.places.len() > 1 && i128::from(of_longest) * 2 < group.excess() {
            return Some(Found {
                spans: of(&nodes, &group.places).map(|node| node.kept).collect(),
                without: Vec::new(),
                time: group.time,
                usual: usual.median(longest.kept).map(|_| group.usual),
                excess: u64::try_from(group.excess()).unwrap_or(u64::MAX),
            });
        }
        (at, excess) = (longest, of_longest);
    }
}

fn of<'n, 'a, 'p>(
    nodes: &'n [Node<'a>],
    places: &'p [usize],
) -> impl Iterator<Item = &'n Node<'a>> + use<'n, 'a, 'p> {
    places.iter().filter_map(|place| nodes.get(*place))
}

/// Returns the spans as trees. Each is after those inside it, the root is the last.
fn nodes<'a>(root: &'a Kept, inside: impl Iterator<Item = &'a Kept>) -> Vec<Node<'a>> {
    let mut nodes: Vec<Node<'a>> = Vec::new();
    // Those that are in none yet.
    let mut free: Vec<usize> = Vec::new();
    for kept in inside {
        let is_inside = |place: &usize| nodes.get(*place).is_some_and(|it| it.kept.is_inside(kept));
        let first = free.iter().rposition(|place| !is_inside(place)).map_or(0, |last| last + 1);
        let inside = free.split_off(first);
        free.push(nodes.len());
        nodes.push(Node { kept, inside });
    }
    nodes.push(Node { kept: root, inside: free });
    nodes
}

/// Returns the spans directly inside one, by site.
fn groups(usual: &Usual<'_>, nodes: &[Node<'_>], at: &Node<'_>) -> BTreeMap<usize, Group> {
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for place in &at.inside {
        let Some(node) = nodes.get(*place) else { continue };
        let group = groups.entry(std::ptr::from_ref(node.kept.raw.site).addr()).or_default();
        group.places.push(*place);
        group.time = group.time.saturating_add(usual.time(node.kept));
    }
    for group in groups.values_mut() {
        let Some(kept) = of(nodes, &group.places).next().map(|node| node.kept) else { continue };
        let spans = group.places.len() as u64;
        // As many as there usually are in such a span, and none if there usually are none.
        let (inside, around) = (usual.count(kept), usual.count(at.kept).max(1));
        let often = ((inside.saturating_mul(2) / around).saturating_add(1) / 2).min(spans);
        group.usual = usual.median(kept).unwrap_or(0).saturating_mul(often);
    }
    groups
}
