//! The verb and the folder of a request to an S3 server.

use cutpoint_testing::http::Request;
use percent_encoding::percent_decode_str;

/// The verb of a request, and the first folder below the prefix of the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    /// The method; `LIST` for a listing, `DELETES` for a request that deletes several objects.
    pub(crate) verb: String,
    /// The folder, empty for requests without one.
    pub(crate) folder: String,
}

impl Target {
    /// Returns the target of a request. Names of objects are `BUCKET/PREFIX/FOLDER/...`, with a prefix
    /// of one part.
    pub(crate) fn of(request: &Request) -> Target {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let parameters: Vec<(&str, &str)> =
            query.split('&').map(|each| each.split_once('=').unwrap_or((each, ""))).collect();
        let parameter =
            |wanted: &str| parameters.iter().find(|(name, _)| *name == wanted).map(|it| it.1);
        let key = path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key);
        let (verb, key) = match request.verb.as_str() {
            "GET" if key.is_empty() => ("LIST", decode(parameter("prefix").unwrap_or(""))),
            "POST" if parameter("delete").is_some() => {
                ("DELETES", keys_of(&request.body).next().unwrap_or_default())
            }
            verb => (verb, decode(key)),
        };
        let mut parts = key.split('/').skip(1);
        let folder = parts.next().unwrap_or_default().to_owned();
        Target { verb: verb.to_owned(), folder }
    }
}

/// Returns the names in the body of a bulk delete.
pub(crate) fn keys_of(body: &[u8]) -> impl Iterator<Item = String> {
    let text = String::from_utf8_lossy(body).into_owned();
    let keys: Vec<String> = text
        .split("<Key>")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned()))
        .collect();
    keys.into_iter()
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(verb: &str, target: &str, body: &str) -> (String, String) {
        let mut request = Request::default();
        request.verb.push_str(verb);
        request.target.push_str(target);
        request.body.extend_from_slice(body.as_bytes());
        let target = Target::of(&request);
        (target.verb, target.folder)
    }

    #[test]
    fn requests_are_told_apart() {
        let of = |verb: &str, folder: &str| (verb.to_owned(), folder.to_owned());
        assert_eq!(target("GET", "/bucket/r/commits/1f", ""), of("GET", "commits"));
        assert_eq!(target("HEAD", "/bucket/r/data/00/1f?x", ""), of("HEAD", "data"));
        let list = "/bucket?list-type=2&prefix=r%2Fcommits%2F";
        assert_eq!(target("GET", list, ""), of("LIST", "commits"));
        assert_eq!(target("GET", "/bucket/?list-type=2&prefix=r/", ""), of("LIST", ""));
        let body = "<Delete><Object><Key>r/data/00/1</Key></Object><Object><Key>r/x</Key></Object>";
        assert_eq!(target("POST", "/bucket?delete", body), of("DELETES", "data"));
        assert_eq!(keys_of(body.as_bytes()).count(), 2);
        assert_eq!(target("POST", "/bucket/r/data/1?uploads", ""), of("POST", "data"));
    }
}
