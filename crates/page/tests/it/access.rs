//! Who gets what from the page.

use cutpoint_page::server::PageOptions;

use crate::client::ask;
use crate::scene::Scene;

/// The headers that every answer must have, whatever it is.
const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", "default-src 'none';"),
    ("content-security-policy", "frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// The addresses that say something of the repository.
const SECRET: [&str; 7] = [
    "/",
    "/assets/page.js",
    "/api/session",
    "/api/snapshots",
    "/api/folder?snapshot=x",
    "/api/space",
    "/unknown",
];

#[test]
fn browser_without_the_cookie_gets_nothing() {
    let scene = Scene::new();
    let (page, address) = scene.start(PageOptions::default());
    let host = format!("Host: {address}");
    for path in SECRET {
        for cookie in ["Accept: */*", "Cookie: cutpoint=1", "Cookie: cutpoint_00000000=0"] {
            let answer = ask(address, &format!("GET {path}"), &[&host, cookie], "");
            assert_eq!(answer.status, 401, "{path} with {cookie}");
            assert!(!answer.text().contains("proof"), "{path}");
        }
        let answer = ask(address, &format!("GET {path}?token=0"), &[&host], "");
        assert_eq!(answer.status, 401, "{path} with a wrong token");
    }
    page.stop().unwrap();
}

#[test]
fn token_opens_the_page_once() {
    let scene = Scene::new();
    let (page, address) = scene.start(PageOptions::default());
    let url = page.url();
    let path = url.strip_prefix(&format!("http://{address}")).unwrap().to_owned();
    let host = format!("Host: {address}");
    let first = ask(address, &format!("GET {path}"), &[&host], "");
    let cookie = first.header("set-cookie");
    assert_eq!(first.status, 200, "it opens");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    let second = ask(address, &format!("GET {path}"), &[&host], "");
    assert_eq!((second.status, second.header("set-cookie")), (401, ""), "a second time");
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(ask(address, "GET /", &[&host, &cookie], "").status, 200, "the cookie");
    assert!(!page.url().contains(&path), "the token is void");
    page.stop().unwrap();
}

#[test]
fn other_names_and_other_sites_are_refused() {
    let scene = Scene::new();
    let served = scene.serve(PageOptions::default());
    let cookie = served.cookie.as_str();
    for host in ["Host: evil.example", "Host: 127.0.0.1.evil.example:80", "Host: 10.0.0.1"] {
        let answer = ask(served.address, "GET /api/snapshots", &[host, cookie], "");
        assert_eq!(answer.status, 403, "{host}");
    }
    for site in ["cross-site", "same-site"] {
        let site = format!("Sec-Fetch-Site: {site}");
        assert_eq!(served.get_with("/api/snapshots", &[&site]).status, 403, "{site}");
    }
    assert_eq!(served.get_with("/api/snapshots", &["Sec-Fetch-Site: same-origin"]).status, 200);
    served.page.stop().unwrap();
}

#[test]
fn changes_need_the_page_and_the_option() {
    let scene = Scene::new();
    let served = scene.serve(PageOptions::default());
    let (host, cookie) = (served.host.as_str(), served.cookie.as_str());
    let origin = format!("Origin: http://{}", served.address);
    for headers in [vec![host, cookie], vec![host, cookie, origin.as_str()]] {
        let answer = ask(served.address, "POST /api/restore", &headers, "{}");
        assert_eq!(answer.status, 403, "without a proof");
    }
    let answer = served.post("/api/restore", "{}");
    assert_eq!(answer.status, 403, "without --allow-restore");
    assert!(answer.text().contains("--allow-restore"), "{}", answer.text());
    for method in ["PUT", "DELETE", "PROPFIND", "PATCH"] {
        let answer = ask(served.address, &format!("{method} /api/restore"), &[host, cookie], "");
        assert_eq!(answer.status, 405, "{method}");
    }
    served.page.stop().unwrap();
}

#[test]
fn every_answer_has_the_headers() {
    let scene = Scene::new();
    scene.write("page.html", "<script>alert(1)</script>");
    let id = scene.back_up("host", 0);
    let served = scene.serve(PageOptions::default());
    let path = crate::scene::link(&scene.folder().join("page.html"));
    let file = format!("/api/download?snapshot={id}&path={path}");
    let refused = ask(served.address, "GET /api/session", &["Host: evil"], "");
    for answer in
        SECRET.map(|path| served.get(path)).into_iter().chain([served.get(&file), refused])
    {
        for (name, value) in HEADERS {
            assert!(answer.header(name).contains(value), "{name}: {answer:?}");
        }
    }
    let answer = served.get(&file);
    assert_eq!(answer.text(), "<script>alert(1)</script>", "the bytes");
    assert!(answer.header("content-security-policy").contains("sandbox"), "{answer:?}");
    assert!(answer.header("content-disposition").starts_with("attachment;"), "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/octet-stream", "no page");
    served.page.stop().unwrap();
}

#[test]
fn page_has_no_inline_script_and_names_no_other_place() {
    let scene = Scene::new();
    let served = scene.serve(PageOptions::default());
    let page = served.get("/").text();
    assert!(!page.contains("<style") && !page.contains(" style="), "no inline style");
    assert!(!page.contains("onclick") && !page.contains("onload"), "no inline handlers");
    assert_eq!(page.matches("<script").count(), 1, "one script, of this address");
    assert!(page.contains("src=\"/assets/page.js\""), "{page}");
    let mut names = vec!["page.js".to_owned()];
    let mut number = 0;
    while let Some(name) = names.get(number).cloned() {
        let script = served.get(&format!("/assets/{name}"));
        assert_eq!(script.status, 200, "{name}");
        let text = script.text();
        let places =
            text.matches("://").count() - text.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(places, 0, "{name} names another place");
        assert!(!text.contains("innerHTML") && !text.contains("eval("), "{name} makes no markup");
        for line in text.lines().filter(|line| line.starts_with("import")) {
            let other = line.split("'./").nth(1).unwrap().trim_end_matches("';").to_owned();
            if !names.contains(&other) {
                names.push(other);
            }
        }
        number += 1;
    }
    assert!(names.len() > 5, "{names:?}");
    served.page.stop().unwrap();
}
