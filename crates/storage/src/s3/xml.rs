//! The few parts of XML documents of S3 that `object_store` does not show.

use std::collections::BTreeSet;

/// Returns `true` if `answer`, to a request to delete objects, names exactly the objects of
/// `request`.
pub(super) fn is_answered(request: &[u8], answer: &[u8]) -> bool {
    let (request, answer) = (keys(request), keys(answer));
    !request.is_empty() && request == answer
}

/// Returns the texts of all elements `Key` of a document.
fn keys(document: &[u8]) -> BTreeSet<String> {
    let document = String::from_utf8_lossy(document);
    let elements = document.split("<Key>").skip(1);
    let keys = elements.filter_map(|rest| Some(unescape(rest.split_once("</Key>")?.0)));
    keys.collect()
}

/// Returns the text of the first element `name` of a document.
pub(super) fn element(document: &str, name: &str) -> Option<String> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(unescape(text.trim()))
}

/// Replaces the entities of XML in a text.
fn unescape(text: &str) -> String {
    let marks = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&apos;", "'"),
        ("&#39;", "'"),
    ];
    let text = marks.iter().fold(text.to_owned(), |text, (mark, sign)| text.replace(mark, sign));
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_has_to_name_each_object_of_the_request() {
        let request = b"<Delete><Object><Key>data/a</Key></Object><Object><Key>b&amp;c</Key>";
        let complete = b"<DeleteResult><Error><Key>b&amp;c</Key><Code>AccessDenied</Code></Error>\
            <Deleted><Key>data/a</Key></Deleted></DeleteResult>";
        assert!(is_answered(request, complete), "deleted or refused");
        assert!(!is_answered(request, b"<DeleteResult></DeleteResult>"), "names nothing");
        assert!(!is_answered(request, &complete[..complete.len() / 2]), "is cut");
        let foreign = b"<DeleteResult><Deleted><Key>data/a</Key></Deleted><Error><Key>z</Key>";
        assert!(!is_answered(request, foreign), "names an object that was not asked for");
        assert!(!is_answered(b"", b""), "a request of no objects");
    }
}
