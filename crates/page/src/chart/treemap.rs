//! A map of the space: a rectangle for each file and folder, its area the space that it takes.
//!
//! Rectangles are laid out squarified: rows along the shorter side, each as long as that makes its
//! rectangles less narrow. Source: Bruls, Huizing, van Wijk: Squarified Treemaps (2000), section 3.

use std::fmt::Write as _;

use cutpoint_terminal::page::escaped;
use cutpoint_terminal::units;

use super::{Frame, encoded, fitted, open};
use crate::space::{Node, Sizes};

/// The height of the line with the name of a folder.
const HEAD_HEIGHT: f64 = 19.0;
/// The minimum width and height of a rectangle that is drawn.
const SIDE_MIN: f64 = 2.5;
/// The minimum area of a folder whose children are drawn in it.
const INNER_AREA_MIN: f64 = 6000.0;
/// The maximum number of rectangles of one folder.
const CHILDREN_MAX: usize = 120;
/// The number of levels that are drawn.
const LEVELS: usize = 3;
/// The number of colours.
const COLOURS: usize = 8;

/// A rectangle: left, top, width, height.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Something to draw. `None` stands for what has no node of its own.
struct Cell<'a> {
    /// The names on the way. Folders that hold one folder alone are one cell with it.
    names: Vec<&'a [u8]>,
    node: Option<&'a Node>,
    sizes: Sizes,
}

/// Draws what is below `node`. With `link`, the address of `node`, folders are links to their own maps.
pub fn treemap(node: &Node, frame: Frame, link: Option<&str>) -> String {
    let Frame { width, height } = frame;
    let description = format!(
        "Map of {}: the larger the area, the more space; the table has the numbers",
        units::size(node.sizes.stored())
    );
    let mut svg = open(width, height, "treemap", &description);
    let area = Area { x: 0.0, y: 0.0, width, height };
    draw(&mut svg, &cells(node), area, (0, None, link));
    svg.push_str("</svg>\n");
    svg
}

/// Returns what is drawn of a folder, largest first.
fn cells(node: &Node) -> Vec<Cell<'_>> {
    let (children, mut rest) = node.largest();
    let mut cells = Vec::new();
    for (number, (name, child)) in children.into_iter().enumerate() {
        if number < CHILDREN_MAX {
            let (names, child) = joined(name, child);
            cells.push(Cell { names, node: Some(child), sizes: child.sizes });
        } else {
            rest += child.sizes;
        }
    }
    if rest.stored() > 0 {
        cells.push(Cell { names: Vec::new(), node: None, sizes: rest });
        cells.sort_by_key(|cell| std::cmp::Reverse(cell.sizes.stored()));
    }
    cells.retain(|cell| cell.sizes.stored() > 0);
    cells
}

/// Returns the first folder below `node` that holds more than one folder alone, and the names that lead
/// to it.
fn joined<'a>(name: &'a [u8], mut node: &'a Node) -> (Vec<&'a [u8]>, &'a Node) {
    let mut names = vec![name];
    while let (1, Some((name, child))) = (node.children.len(), node.children.iter().next()) {
        let is_all = child.sizes.stored() == node.sizes.stored();
        if !is_all || child.children.is_empty() {
            break;
        }
        names.push(name);
        node = child;
    }
    (names, node)
}

/// Draws cells in an area, on a level, with the colour and the address of their folder.
fn draw(
    svg: &mut String,
    cells: &[Cell<'_>],
    area: Area,
    (level, colour, link): (usize, Option<usize>, Option<&str>),
) {
    let weights: Vec<f64> = cells.iter().map(|cell| cell.sizes.stored() as f64).collect();
    for (number, (cell, area)) in cells.iter().zip(squarified(&weights, area)).enumerate() {
        if area.width < SIDE_MIN || area.height < SIDE_MIN {
            continue;
        }
        let colour = colour.unwrap_or(number % COLOURS);
        let link = link.map(|link| {
            let below = cell.names.iter().map(|name| format!("/{}", encoded(name)));
            format!("{link}{}", below.collect::<String>())
        });
        let folder = cell.node.filter(|node| node.is_folder && !node.children.is_empty());
        let is_link = folder.is_some() && link.is_some();
        if let (Some(link), true) = (&link, is_link) {
            write!(svg, "<a href=\"{link}\">").ok();
        }
        let is_open = folder.is_some()
            && level + 1 < LEVELS
            && area.width * area.height >= INNER_AREA_MIN
            && area.height > HEAD_HEIGHT * 2.5
            && area.width > 60.0;
        rectangle(svg, cell, area, (level, colour), is_open);
        if is_link {
            svg.push_str("</a>");
        }
        svg.push('\n');
        if let (Some(folder), true) = (folder, is_open) {
            let inner = Area {
                x: area.x + 3.0,
                y: area.y + HEAD_HEIGHT,
                width: area.width - 6.0,
                height: area.height - HEAD_HEIGHT - 3.0,
            };
            draw(svg, &self::cells(folder), inner, (level + 1, Some(colour), link.as_deref()));
        }
    }
}

/// Draws the rectangle of a cell with its name and, if there is space, its size.
fn rectangle(
    svg: &mut String,
    cell: &Cell<'_>,
    area: Area,
    (level, colour): (usize, usize),
    is_open: bool,
) {
    let Area { x, y, width, height } = area;
    let (width, height) = ((width - 1.0).max(0.5), (height - 1.0).max(0.5));
    let name = match cell.node {
        Some(_) => {
            let names = cell.names.iter().map(|name| cutpoint_terminal::escape::for_terminal(name));
            names.collect::<Vec<String>>().join("/")
        }
        None => "everything else".to_owned(),
    };
    let sizes = &cell.sizes;
    let shown = escaped(&name);
    write!(
        svg,
        "<g><title>{shown}: {} in the repository, {} of it only in older snapshots; files of {}</title>\
         <rect class=\"cell c{colour} l{level}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\" rx=\"2\"/>",
        units::size(sizes.stored()),
        units::size(sizes.older),
        units::size(sizes.logical),
    )
    .ok();
    if !is_open && sizes.older > 0 {
        let part = height * sizes.older as f64 / sizes.stored().max(1) as f64;
        write!(
            svg,
            "<rect class=\"older\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{part:.1}\" \
             rx=\"2\"/>",
            y + height - part
        )
        .ok();
    }
    if height > 15.0
        && let Some(text) = fitted(&name, width - 10.0)
    {
        write!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
            x + 5.0,
            y + 14.0
        )
        .ok();
        let size = units::size(sizes.stored());
        let used = (name.chars().count() + 2) as f64 * super::CHARACTER_WIDTH;
        if height > 32.0 && !is_open && fitted(&size, width - 10.0).is_some_and(|it| it == size) {
            let (x, y) = (x + 5.0, y + 29.0);
            write!(svg, "<text class=\"size\" x=\"{x:.1}\" y=\"{y:.1}\">{size}</text>").ok();
        } else if is_open && width - used > 70.0 {
            let (x, y) = (x + width - 5.0, y + 14.0);
            write!(svg, "<text class=\"size end\" x=\"{x:.1}\" y=\"{y:.1}\">{size}</text>").ok();
        }
    }
    svg.push_str("</g>");
}

/// Divides an area among weights, which are in falling order and more than 0.
fn squarified(weights: &[f64], area: Area) -> Vec<Area> {
    let mut areas = Vec::with_capacity(weights.len());
    let mut left = area;
    let mut weight_left: f64 = weights.iter().sum();
    let mut from = 0;
    while from < weights.len() && weight_left > 0.0 {
        let short = left.width.min(left.height).max(f64::MIN_POSITIVE);
        let scale = left.width * left.height / weight_left;
        let mut to = from + 1;
        let mut sum = weights[from];
        while to < weights.len()
            && worst(&weights[from..=to], sum + weights[to], scale, short)
                <= worst(&weights[from..to], sum, scale, short)
        {
            sum += weights[to];
            to += 1;
        }
        let thickness = sum * scale / short;
        let mut along = 0.0;
        for weight in &weights[from..to] {
            let length = short * weight / sum;
            areas.push(if left.width >= left.height {
                Area { x: left.x, y: left.y + along, width: thickness, height: length }
            } else {
                Area { x: left.x + along, y: left.y, width: length, height: thickness }
            });
            along += length;
        }
        if left.width >= left.height {
            left.x += thickness;
            left.width = (left.width - thickness).max(0.0);
        } else {
            left.y += thickness;
            left.height = (left.height - thickness).max(0.0);
        }
        weight_left -= sum;
        from = to;
    }
    areas
}

/// Returns the worst ratio of length and width in a row of rectangles.
fn worst(weights: &[f64], sum: f64, scale: f64, short: f64) -> f64 {
    let thickness = sum * scale / short;
    let ratio = |weight: &f64| {
        let length = short * weight / sum;
        (length / thickness).max(thickness / length)
    };
    weights.iter().map(ratio).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_those_of_the_weights_and_fill_the_frame() {
        let weights = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let frame = Area { x: 0.0, y: 0.0, width: 6.0, height: 4.0 };
        let areas = squarified(&weights, frame);
        for (area, weight) in areas.iter().zip(weights) {
            assert!((area.width * area.height - weight).abs() < 1e-9, "{area:?} of {weight}");
            assert!(area.x >= 0.0 && area.x + area.width <= 6.0 + 1e-9, "{area:?}");
            assert!(area.y >= 0.0 && area.y + area.height <= 4.0 + 1e-9, "{area:?}");
        }
        // The first row of the example in the paper: two rectangles of 3 by 2.
        assert_eq!((areas[0].width, areas[0].height), (3.0, 2.0), "the first");
        assert_eq!(squarified(&[], frame), [], "nothing");
    }

    #[test]
    fn names_are_no_markup() {
        let sizes = Sizes { current: 10, ..Sizes::default() };
        let mut root = Node { sizes, is_folder: true, ..Node::default() };
        let name = b"<script>\"&\xff\xe2\x80\xae";
        root.children.insert(name.as_slice().into(), Node { sizes, ..Node::default() });
        let svg = treemap(&root, Frame::of_width(900), Some("#/space"));
        assert!(!svg.contains("<script"), "{svg}");
        assert!(svg.contains("&lt;script&gt;&quot;&amp;\\xff\\u{202e}"), "{svg}");
    }
}
