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
    /// How many such spans there usually are.
    pub(super) usual_spans: u64,
    pub(super) excess: u64,
}

/// A part of the excess of a slow span that is smaller than one in so many does not explain it.
const PART: i128 = 4;

/// A span, with the places of those directly inside.
pub(crate) struct Node<'a> {
    pub(crate) kept: &'a Kept,
    pub(crate) inside: Vec<usize>,
}

/// The spans directly inside one, of one site.
#[derive(Default)]
struct Group {
    places: Vec<usize>,
    time: u64,
    /// How many there usually are, and their time.
    usual_spans: u64,
    usual: u64,
    /// Whether there may usually be more of them: some are inside of other spans.
    may_be_fewer: bool,
    has_laps: bool,
}

impl Group {
    fn excess(&self) -> i128 {
        i128::from(self.time) - i128::from(self.usual)
    }
}

/// Returns where the time of `root` went. `inside` are the spans inside, in the order in which they ended. None if it took hardly longer
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
    let of_root = i128::from(excess);
    let nodes = nodes(root, inside);
    let mut at = nodes.last()?;
    loop {
        let mut groups = groups(usual, &nodes, at);
        let time_inside = groups.values().map(|group| group.time).sum();
        let own_time = usual.time(at.kept).saturating_sub(time_inside);
        let usual_own = usual_own(usual, at.kept, &groups);
        let own = match usual_own {
            Some(usual) => i128::from(own_time) - i128::from(usual),
            None => i128::from(excess) - groups.values().map(Group::excess).sum::<i128>(),
        };
        correct(&mut groups, i128::from(excess) - own);
        let most = groups.values().max_by_key(|group| group.excess());
        let most = most.filter(|it| it.excess() > own && it.excess() * PART >= of_root);
        let Some(group) = most else {
            let is_own = own * PART >= of_root && !groups.is_empty();
            let without = if is_own { &*at.inside } else { &[] };
            return Some(Found {
                spans: vec![at.kept],
                without: nodes_at(&nodes, without).map(|node| node.kept).collect(),
                time: if is_own { own_time } else { usual.time(at.kept) },
                usual: if is_own { usual_own } else { usual.median(at.kept) },
                usual_spans: 1,
                excess: if is_own { u64::try_from(own).unwrap_or(0) } else { excess },
            });
        };
        let longest = nodes_at(&nodes, &group.places).max_by_key(|node| usual.excess(node.kept))?;
        let of_longest = usual.excess(longest.kept);
        // There are more of them than usual, or none of them alone is to blame.
        if i128::from(of_longest) * 2 < group.excess() {
            return Some(Found {
                spans: nodes_at(&nodes, &group.places).map(|node| node.kept).collect(),
                without: Vec::new(),
                time: group.time,
                usual: usual.median(longest.kept).map(|_| group.usual),
                usual_spans: group.usual_spans,
                excess: u64::try_from(group.excess()).unwrap_or(u64::MAX),
            });
        }
        (at, excess) = (longest, of_longest);
    }
}

/// Returns the usual time of a span outside of the spans inside it. None if it is not known: laps inside are not counted as such.
fn usual_own(usual: &Usual<'_>, kept: &Kept, groups: &BTreeMap<usize, Group>) -> Option<u64> {
    let has_laps = groups.values().any(|group| group.has_laps);
    let mean = usual.own(kept).filter(|_| !has_laps)?;
    // The mean has the slow ones, too. What the medians leave is better, unless spans of the sites are also inside of others.
    let inside = groups.values().map(|group| group.usual).sum();
    let rest = usual.median(kept)?.checked_sub(inside).filter(|rest| *rest > 0);
    Some(rest.map_or(mean, |rest| rest.min(mean)))
}

/// Corrects the usual times of the groups, whose excess is this in all. It is too low where spans of a site are also inside of others.
fn correct(groups: &mut BTreeMap<usize, Group>, excess: i128) {
    let missing = excess - groups.values().map(Group::excess).sum::<i128>();
    let all = groups.values_mut().filter(|group| group.may_be_fewer);
    if let (Some(group), Ok(missing)) = (all.max_by_key(|group| group.time), u64::try_from(missing))
    {
        let rest = group.usual.saturating_sub(missing);
        let spans =
            u128::from(group.usual_spans) * u128::from(rest) / u128::from(group.usual.max(1));
        (group.usual, group.usual_spans) = (rest, u64::try_from(spans).unwrap_or(0));
    }
}

fn nodes_at<'n, 'a, 'p>(
    nodes: &'n [Node<'a>],
    places: &'p [usize],
) -> impl Iterator<Item = &'n Node<'a>> + use<'n, 'a, 'p> {
    places.iter().filter_map(|place| nodes.get(*place))
}

/// Returns the spans as trees. Each is after those inside it, the root is the last.
pub(crate) fn nodes<'a>(root: &'a Kept, inside: impl Iterator<Item = &'a Kept>) -> Vec<Node<'a>> {
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
        group.has_laps |= node.kept.raw.is_lap();
    }
    for group in groups.values_mut() {
        let Some(kept) = nodes_at(nodes, &group.places).next().map(|node| node.kept) else {
            continue;
        };
        let spans = group.places.len() as u64;
        // As many as there usually are in such a span, and none if there usually are none.
        let (inside, around) = (usual.count(kept), usual.count(at.kept).max(1));
        let often = (inside.saturating_mul(2) / around).saturating_add(1) / 2;
        group.may_be_fewer = often >= spans && spans > 1;
        group.usual_spans = often.min(spans);
        group.usual = usual.median(kept).unwrap_or(0).saturating_mul(group.usual_spans);
    }
    groups
}
