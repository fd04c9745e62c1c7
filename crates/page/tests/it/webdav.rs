//! WebDAV clients.

use cutpoint_page::server::PageOptions;

use crate::client::{Answer, ask};
use crate::scene::{Scene, Served, link};

/// A client with the password of the page.
struct Client {
    served: Served,
    authorization: String,
}

impl Client {
    fn new(scene: &Scene) -> Client {
        let served = scene.serve(PageOptions { has_dav: true, ..PageOptions::default() });
        let (url, user, password) = served.page.dav().expect("an address");
        assert_eq!(url, format!("http://{}/dav/", served.address), "the address");
        let secret = base64(&format!("{user}:{password}"));
        Client { served, authorization: format!("Authorization: Basic {secret}") }
    }

    fn ask(&self, first: &str, headers: &[&str]) -> Answer {
        let own = [self.served.host.as_str(), self.authorization.as_str()];
        ask(self.served.address, first, &[&own, headers].concat(), "")
    }

    /// Returns the addresses of a folder and of what is in it.
    fn list(&self, path: &str) -> Vec<String> {
        let answer = self.ask(&format!("PROPFIND {path}"), &["Depth: 1"]);
        let text = answer.text();
        assert_eq!(answer.status, 207, "{path}: {text}");
        let hrefs = text.split("<D:href>").skip(1);
        hrefs.map(|it| it.split("</D:href>").next().unwrap().to_owned()).collect()
    }
}

fn base64(text: &str) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits =
            (0..3).fold(0_usize, |bits, at| bits << 8 | usize::from(*group.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let is_there = at <= group.len();
            out.push(if is_there { char::from(digits[bits >> (18 - 6 * at) & 63]) } else { '=' });
        }
    }
    out
}

#[test]
fn client_walks_from_hosts_to_files() {
    let scene = Scene::new();
    scene.write("folder/f\u{fc}nf & mehr.txt", "0123456789");
    scene.back_up("laptop", -1);
    std::os::unix::fs::symlink("folder", scene.folder().join("link")).unwrap();
    scene.back_up("server/1", 0);
    let client = Client::new(&scene);
    assert_eq!(client.list("/dav/"), ["/dav/", "/dav/laptop/", "/dav/server_1/"], "hosts");
    let snapshots = client.list("/dav/server_1/");
    assert_eq!(snapshots.len(), 2, "a snapshot: {snapshots:?}");
    let data = format!("{}{}/", snapshots[1].trim_end_matches('/'), link(&scene.folder()));
    let folder = format!("{data}folder/");
    assert_eq!(client.list(&data), [data.clone(), folder.clone()], "without the link");
    let members = client.list(&folder);
    let file = format!("{folder}f%C3%BCnf%20%26%20mehr.txt");
    assert_eq!(members[1..], [file.clone()], "the file");
    let whole = client.ask(&format!("GET {file}"), &[]);
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"), "its bytes");
    let part = client.ask(&format!("GET {file}"), &["Range: bytes=2-4"]);
    assert_eq!((part.status, part.text().as_str()), (206, "234"), "a range");
    let head = client.ask(&format!("HEAD {file}"), &[]);
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "10", 0));
    let itself = client.ask(&format!("PROPFIND {file}"), &["Depth: 0"]).text();
    assert!(itself.contains("<D:getcontentlength>10</D:getcontentlength>"), "{itself}");
    client.served.page.stop().unwrap();
}

#[test]
fn client_needs_the_password_and_can_only_read() {
    let scene = Scene::new();
    scene.write("file", "text");
    scene.back_up("host", 0);
    let client = Client::new(&scene);
    let (address, host) = (client.served.address, client.served.host.as_str());
    for headers in
        [vec![host], vec![host, &client.served.cookie], vec![host, "Authorization: Basic eDp5"]]
    {
        let answer = ask(address, "PROPFIND /dav/", &headers, "");
        assert_eq!(answer.status, 401, "{headers:?}");
        assert!(answer.header("www-authenticate").starts_with("Basic "), "{answer:?}");
    }
    let other = ["Host: evil.example", client.authorization.as_str()];
    assert_eq!(ask(address, "PROPFIND /dav/", &other, "").status, 403, "another host");
    for method in ["PUT", "DELETE", "MKCOL", "MOVE", "COPY", "PROPPATCH", "LOCK", "POST"] {
        let answer = client.ask(&format!("{method} /dav/host/new"), &[]);
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").contains("PROPFIND"), "{answer:?}");
    }
    let options = client.ask("OPTIONS /dav/", &[]);
    assert_eq!((options.status, options.header("dav")), (200, "1"), "class 1");
    assert_eq!(client.ask("PROPFIND /dav/", &["Depth: infinity"]).status, 403, "all levels");
    assert_eq!(client.ask("PROPFIND /dav/none/", &["Depth: 0"]).status, 404, "no host");
    client.served.page.stop().unwrap();
    let off = scene.serve(PageOptions::default());
    assert_eq!(off.get("/dav/").status, 404, "not asked for");
    off.page.stop().unwrap();
}
