//! A page with a chart of the Pareto front, and all numbers.

use std::fmt::Write;

use anyhow::Result;
use cutpoint_lab::tune::{Origin, TuneResult, Tuning};
use cutpoint_terminal::page::{self, escaped};
use cutpoint_terminal::units::{self, percent};

use super::{is_compared, ranges, share, speed, speed_share};

/// The width of the chart. All lengths are in pixels of the chart, which scales with the page.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;

pub(super) fn html(target_size: u64, tuning: &Tuning) -> Result<String> {
    let mut body = String::new();
    writeln!(
        body,
        "<p>{} of {}; {} with a mean near {} on random data.</p>",
        units::size(tuning.sample_bytes),
        units::count(tuning.file_count, "file"),
        units::count(tuning.candidate_count, "combination"),
        units::size(target_size)
    )?;
    if !tuning.unreached_algorithms.is_empty() {
        let names = tuning.unreached_algorithms.join(", ");
        writeln!(body, "<p>No such mean: {}.</p>", escaped(&names))?;
    }
    chart(&mut body, &tuning.tuned)?;
    body.push_str("<h2>The best of each algorithm, beside Table I of the SeqCDC papers</h2>\n");
    table(&mut body, tuning.tuned.iter().filter(|each| is_compared(each)))?;
    body.push_str("<h2>All numbers</h2>\n");
    table(&mut body, tuning.tuned.iter())?;
    body.push_str(
        "<p><b>net saved</b>: savings less the size of tables of contents, index and recipes. \
         <b>best</b>: no other row with this mean is better in both, net savings and speed. \
         <b>GB/s</b>: cutting, CPU time of one thread, 10^9 bytes.</p>\n",
    );
    Ok(page::page("cutpoint-lab tune", &body))
}

fn table<'a>(body: &mut String, rows: impl Iterator<Item = &'a TuneResult>) -> Result<()> {
    body.push_str(
        "<div class=\"wide\"><table>\n<tr><th>specification</th><th>from</th>\
         <th>best</th><th>net saved</th><th>dedup</th><th>GB/s</th><th>chunks</th>\
         <th>mean here</th><th>on random</th></tr>\n",
    );
    for tuned in rows {
        let mean = tuned.savings.chunk_size_mean().unwrap_or(0.0);
        let random = tuned.random_mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.0}"));
        writeln!(
            body,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{mean:.0}</td><td>{random}</td></tr>",
            escaped(&tuned.spec.to_string()),
            tuned.origin.name(),
            if tuned.is_best { "*" } else { "" },
            percent(tuned.net.space_savings()),
            percent(tuned.savings.space_savings()),
            speed(tuned),
            tuned.savings.chunk_count
        )?;
    }
    body.push_str("</table></div>\n");
    Ok(())
}

fn chart(body: &mut String, tuned: &[TuneResult]) -> Result<()> {
    let measured: Vec<&TuneResult> =
        tuned.iter().filter(|each| each.bytes_per_second > 0.0).collect();
    let Some((savings, speeds)) = ranges(&measured) else { return Ok(()) };
    let x = |each: &TuneResult| MARGIN + speed_share(each, speeds) * (WIDTH - 2.0 * MARGIN);
    let y = |each: &TuneResult| {
        let saved = share(each.net.space_savings().unwrap_or(0.0), savings);
        HEIGHT - MARGIN - saved * (HEIGHT - 2.0 * MARGIN)
    };
    let (bottom, right) = (HEIGHT - MARGIN + 12.0, WIDTH - MARGIN + 12.0);
    writeln!(
        body,
        "<h2>Net savings over speed</h2>\n<p class=\"legend\"><span class=\"key four\"></span>best \
         <span class=\"key two\"></span>Table I <span class=\"key one\"></span>others</p>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Net savings over speed; the table has the numbers\">\n\
         <line class=\"axis\" x1=\"44\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>\
         <line class=\"axis\" x1=\"44\" y1=\"40\" x2=\"44\" y2=\"{bottom}\"/>\n\
         <text class=\"number\" x=\"0\" y=\"34\">{} saved</text>\
         <text class=\"number\" x=\"0\" y=\"{bottom}\">{}</text>\
         <text class=\"number\" x=\"44\" y=\"{:.0}\">{:.2}</text>\
         <text class=\"number\" x=\"{right}\" y=\"{:.0}\" text-anchor=\"end\">{:.2} GB/s</text>",
        percent(Some(savings.1)),
        percent(Some(savings.0)),
        bottom + 18.0,
        speeds.0 / 1e9,
        bottom + 18.0,
        speeds.1 / 1e9
    )?;
    let front: Vec<String> = measured
        .iter()
        .filter(|each| each.is_best)
        .map(|each| format!("{:.1},{:.1}", x(each), y(each)))
        .collect();
    writeln!(body, "<polyline class=\"front\" points=\"{}\"/>", front.join(" "))?;
    for each in &measured {
        let class = match (each.is_best, each.origin) {
            (true, _) => "four",
            (false, Origin::Paper) => "two",
            _ => "one",
        };
        writeln!(
            body,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}: {} saved, {} \
             GB/s</title></circle>",
            x(each),
            y(each),
            escaped(&each.spec.to_string()),
            percent(each.net.space_savings()),
            speed(each)
        )?;
    }
    body.push_str("</svg>\n");
    Ok(())
}
