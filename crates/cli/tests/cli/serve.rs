//! The page of `serve`, as a program and its user see it. `crates/page` tests the page itself.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::sandbox::Sandbox;
use crate::served::Served;

/// Asks for an address, and returns the answer.
fn get(url: &str, headers: &str) -> String {
    let (address, path) =
        url.strip_prefix("http://").and_then(|it| it.split_once('/')).expect("a URL");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request =
        format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn printed_address_opens_the_page_once() {
    let sandbox = Sandbox::with_source();
    let first = sandbox.backup("source");
    let mut served = Served::new(&mut sandbox.command(["serve", "--json", "--webdav"]));
    let event = served.event();
    assert_eq!((&event["type"], &event["snapshot_count"]), (&"page".into(), &1.into()), "{event}");
    assert_eq!(event["may_restore"], false, "not unless it is asked for");
    assert_eq!(event["webdav"]["user"], "cutpoint", "{event}");
    let url = event["url"].as_str().expect("an address");
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let answer = get(url, "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let cookie = answer.split("set-cookie: ").nth(1).and_then(|it| it.split(';').next());
    let cookie = format!("Cookie: {}\r\n", cookie.expect("a cookie"));
    assert!(get(url, "").starts_with("HTTP/1.1 401 "), "once");
    let list = url.split('?').next().expect("an address").to_owned() + "api/snapshots";
    assert!(get(&list, &cookie).contains(&first), "the snapshot");
    assert!(get(&list, "").starts_with("HTTP/1.1 401 "), "not without the cookie");
    // A snapshot that is made meanwhile appears.
    let second = sandbox.backup("source");
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(get(&list, &cookie).contains(&second), "the newer one");
    let (event, code) = served.end("-INT");
    assert_eq!((&event["command"], code), (&"serve".into(), Some(0)), "the last event");
}

#[test]
fn addresses_of_other_machines_and_used_ports_are_refused() {
    let sandbox = Sandbox::with_repository();
    sandbox.run(["serve", "--listen", "0.0.0.0:0"]).ended(2, &["--listen", "ssh -L"]);
    sandbox.run(["serve", "--listen", "8080"]).ended(2, &["--listen", "127.0.0.1:PORT"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().map(|it| (it.to_string(), taken)).expect("its address");
    sandbox.run(["serve", "--listen", &taken.0]).ended(2, &[&taken.0, "choose another port"]);
}

#[test]
fn page_of_sizes_is_written() {
    let sandbox = Sandbox::with_source();
    fs::write(sandbox.path("source/<b>bold"), [7; 100_000]).expect("written");
    sandbox.backup("source");
    let run = sandbox.run(["stats", "--html", "page.html"]).well();
    assert!(run.text().contains("logical"), "the numbers as well: {}", run.text());
    let html = fs::read_to_string(sandbox.path("page.html")).expect("it is written");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let page = roxmltree::Document::parse_with_options(&html, options).expect("the page is XML");
    let is_cell = |node: &roxmltree::Node<'_, '_>| {
        node.attribute("class").is_some_and(|class| class.starts_with("cell "))
    };
    assert!(page.descendants().filter(is_cell).count() > 0, "a map");
    assert!(!html.contains("<script") && !html.contains("<b>bold"), "no script and no markup");
    let links = html.matches("http").count() - html.matches("http://www.w3.org/").count();
    assert_eq!(links, 0, "nothing is fetched");
    sandbox.run(["stats", "--html", "nowhere/x.html"]).ended(2, &["nowhere/x.html: not found"]);
    sandbox.run(["stats", "latest", "--html", "x.html"]).ended(2, &["--html"]);
}
