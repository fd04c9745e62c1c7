//! The page in a real browser (`cutpoint_testing::Browser`).

use std::fs;
use std::path::{Path, PathBuf};

use cutpoint_lab::claims::{Claim, Test};
use cutpoint_lab::{Definition, Results, Run, Setting, report};
use cutpoint_testing::{Browser, chromium};
use serde_json::{Value, json};

/// Chooses an option, with the event that a user causes.
fn choose(browser: &mut Browser, id: &str, value: &str) {
    let script = format!(
        "{{ const e = document.getElementById({id:?}); e.value = {value:?}; e.dispatchEvent(new Event('change')); e.value }}"
    );
    assert_eq!(browser.evaluate(&script), value, "{id} has {value}");
}

/// Returns the number of drawn shapes of each chart that can be seen.
fn drawn(browser: &mut Browser) -> Vec<u64> {
    let counts = browser.evaluate(
        "[...document.querySelectorAll('.chart')].filter((chart) => chart.clientWidth) \
         .map((chart) => chart.querySelectorAll('svg .line, svg circle, svg rect, svg path').length)",
    );
    counts.as_array().expect("charts").iter().filter_map(Value::as_u64).collect()
}

/// Writes the page of the smallest run, and returns its path.
fn page(folder: &Path) -> PathBuf {
    let path = folder.join("page.html");
    if let Some(results) = std::env::var_os("CUTPOINT_RESULTS") {
        let results = Results::read(Path::new(&results)).expect("results");
        fs::write(&path, report::html(&results).expect("a page")).expect("written");
        return path;
    }
    let definitions = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../research/runs"));
    let definition = Definition::read(&definitions.join("smallest.toml")).expect("a definition");
    let mut results = Results::open(&folder.join("results")).expect("results");
    let run = Run::new(&definition, folder, Setting::here());
    run.measure(&mut results, &|| true, &mut |_| {}).expect("a run");
    fs::write(&path, report::html(&results).expect("a page")).expect("written");
    path
}

#[test]
fn page_works_in_a_browser() {
    let Some(program) = chromium("the page of the lab") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = page(folder.path());
    let mut browser = Browser::start(&program, folder.path());
    browser.size(1400, false);
    let url = format!("file://{}", path.display());
    browser.ask("Page.navigate", json!({ "url": url }));
    browser.wait_for("Page.loadEventFired");

    // The page loads completely, without network requests.
    assert_eq!(
        browser.evaluate("document.documentElement.dataset.ready"),
        "yes",
        "{:?}",
        browser.complaints
    );
    assert_eq!(browser.requested, [url], "one file");
    let size = fs::metadata(&path).expect("the page").len();
    assert!(size < 1_000_000, "the page has {size} bytes");

    every_claim_has_a_square_and_a_passage(&mut browser);
    charts_are_drawn(&mut browser);
    frontier_has_lines_limits_and_advice(&mut browser);
    filters_change_tables(&mut browser);
    keyboard_sorts_tables(&mut browser);
    page_fits_dark_phone_and_print(&mut browser);
    assert_eq!(browser.complaints, Vec::<String>::new(), "no complaint");
}

/// Every claim has a square in the overview, which leads to its passage below the paper.
fn every_claim_has_a_square_and_a_passage(browser: &mut Browser) {
    let claims = cutpoint_lab::claims::all();
    let is_counted = |claim: &&Claim| claim.test != Test::Contradiction;
    let expected = claims.iter().filter(is_counted).count() as u64;
    let squares = browser.evaluate("document.querySelectorAll('.square').length").as_u64();
    assert_eq!(squares, Some(expected), "a square for each claim");
    let lost = browser.evaluate(
        "[...document.querySelectorAll('.square')].filter((square) => \
         !document.getElementById(decodeURIComponent(square.hash.slice(1)))).map((square) => square.title)",
    );
    assert_eq!(lost, json!([]), "every square leads somewhere");
    browser.evaluate("location.hash = '#claim-H15.8'");
    browser.evaluate("new Promise((done) => setTimeout(done, 50))");
    let is_open = browser.evaluate("document.getElementById('claims-001').open");
    assert_eq!(is_open, true, "a link opens the list of claims");
    browser.evaluate("document.getElementById('claims-001').open = false; scrollTo(0, 0)");
}

/// There are ten findings, and charts have content, at most six colours, and a description.
fn charts_are_drawn(browser: &mut Browser) {
    let findings = browser.evaluate("document.querySelectorAll('.finding').length").as_u64();
    assert_eq!(findings, Some(10), "ten findings");
    let drawn = drawn(browser);
    assert!(drawn.len() >= 8, "charts: {}", drawn.len());
    assert!(drawn.iter().all(|count| *count > 0), "each has content: {drawn:?}");
    let unlabelled = browser.evaluate(
        "[...document.querySelectorAll('.chart')].filter((chart) => !chart.getAttribute('aria-label')).length",
    );
    assert_eq!(unlabelled, 0, "each has a description");
    let colours = browser.evaluate(
        "Math.max(...[...document.querySelectorAll('.chart')].map((chart) => new Set([...chart.querySelectorAll('.line')].map((line) => line.style.stroke)).size))",
    );
    assert!(colours.as_u64().is_some_and(|count| count <= 6), "colours: {colours}");
    browser.size(1400, false);
    browser.keep_screenshot("wide");
}

/// The frontier has a line for each algorithm, the limits, and the sentences that follow.
fn frontier_has_lines_limits_and_advice(browser: &mut Browser) {
    let count = |browser: &mut Browser, selector: &str| {
        let script = format!("document.querySelectorAll('#frontier-section {selector}').length");
        browser.evaluate(&script).as_u64().unwrap_or(0)
    };
    let timed = browser.evaluate(
        "new Set(given.frontier.points.filter((point) => point.speed).map((point) => point.algorithm)).size",
    );
    assert!(timed.as_u64().is_some_and(|count| count >= 2), "algorithms: {timed}");
    assert_eq!(Some(count(browser, "svg .line")), timed.as_u64(), "a line for each");
    assert!(count(browser, "svg .limit") >= 2, "fingerprints and a read");
    let advice = browser.evaluate("document.getElementById('frontier-advice').textContent");
    assert!(advice.as_str().is_some_and(|text| text.contains("as little as possible")), "{advice}");
    let order = browser.evaluate(
        "[...document.querySelectorAll('section')].map((section) => section.id).slice(0, 4)",
    );
    let expected = json!(["findings-section", "strip-section", "frontier-section", "wall-section"]);
    assert_eq!(order, expected, "behind the headline numbers");
}

/// Filters change the tables.
fn filters_change_tables(browser: &mut Browser) {
    browser.evaluate("document.querySelectorAll('#rows-section details').forEach((each) => { each.open = true; })");
    let first = browser.evaluate("document.querySelector('#savings-table tbody').textContent");
    choose(browser, "savings-selection", "equal");
    assert_ne!(
        browser.evaluate("document.querySelector('#savings-table tbody').textContent"),
        first,
        "other parameters"
    );
    let level = browser.evaluate("document.querySelector('#speed-level').options[1].value");
    choose(browser, "speed-level", level.as_str().expect("a level"));
    let levels = browser.evaluate("[...new Set([...document.querySelectorAll('#speed-table tbody tr')].map((row) => row.cells[1].textContent))]");
    assert_eq!(levels, json!([level]), "only that level");
}

/// Tables can be sorted by keyboard alone.
fn keyboard_sorts_tables(browser: &mut Browser) {
    browser.evaluate("document.querySelector('#savings-table th:nth-child(3) button').focus()");
    browser.press("Enter", 13);
    let sorted = "const cells = [...document.querySelectorAll('#savings-table tbody tr')].map((row) => parseFloat(row.cells[2].textContent) || 0)";
    let falls = browser
        .evaluate(&format!("{{ {sorted}; cells.every((cell, i) => !i || cells[i - 1] >= cell) }}"));
    assert_eq!(falls, true, "falling");
    browser.press("Enter", 13);
    let rises = browser
        .evaluate(&format!("{{ {sorted}; cells.every((cell, i) => !i || cells[i - 1] <= cell) }}"));
    assert_eq!(rises, true, "rising");
    assert_eq!(
        browser.evaluate(
            "document.querySelector('#savings-table th:nth-child(3)').getAttribute('aria-sort')"
        ),
        "ascending",
        "and says so"
    );
}

/// The page supports dark mode, small screens and print.
fn page_fits_dark_phone_and_print(browser: &mut Browser) {
    let light = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    browser.ask(
        "Emulation.setEmulatedMedia",
        json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] }),
    );
    assert_ne!(browser.evaluate("getComputedStyle(document.body).backgroundColor"), light, "dark");
    browser.keep_screenshot("dark");
    browser.ask("Emulation.setEmulatedMedia", json!({ "features": [] }));
    browser.size(400, true);
    let wide = browser.evaluate(
        "[...document.querySelectorAll('body *')].filter((each) => !each.closest('.scroll, pre, .skip, svg') \
         && each.getBoundingClientRect().right > 401).map((each) => each.tagName + '#' + each.id + '.' + each.className)",
    );
    assert_eq!(wide, json!([]), "nothing is wider than a phone");
    let widest = browser.evaluate("document.documentElement.scrollWidth").as_u64();
    assert!(widest.is_some_and(|width| width <= 400), "nor does it scroll: {widest:?}");
    let cut = browser.evaluate(
        "[...document.querySelectorAll('.chart svg text')].filter((text) => text.closest('svg').clientWidth \
         && text.getBoundingClientRect().right > 401).map((text) => text.textContent)",
    );
    assert_eq!(cut, json!([]), "no label is cut");
    browser.keep_screenshot("phone");
    browser.size(1400, false);
    browser.ask("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    assert_eq!(
        browser.evaluate("getComputedStyle(document.querySelector('.controls')).display"),
        "none",
        "no controls on paper"
    );
    browser.keep_screenshot("print");
}
