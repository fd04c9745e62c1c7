//! HTTP/1.1 as far as a proxy in front of a server needs it: connections, the bounds of requests and
//! answers, and their relaying.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// The maximum length of the head of a request or an answer, in bytes.
const HEAD_LEN_MAX: usize = 64 << 10;
/// The maximum length of a body in bytes, which is more than any object has.
const BODY_LEN_MAX: usize = 256 << 20;

/// Listens on a free port and calls `serve` for each connection, in a thread of its own. The threads
/// end with the process. Returns the endpoint, `http://127.0.0.1:PORT`.
///
/// # Errors
///
/// Returns an error if no port can be opened.
pub fn listen<F>(serve: F) -> io::Result<String>
where
    F: Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let serve = serve.clone();
            // A connection that fails is a fault like others, which the client notices.
            thread::spawn(move || client.set_nodelay(true).and_then(|()| serve(client)).ok());
        }
    });
    Ok(endpoint)
}

/// The duration of a connection between the proxy and a client or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// The connection ends after the answer.
    Close,
    /// The connection stays open for further requests.
    KeepAlive,
}

/// A request of a client.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method, such as `GET`.
    pub verb: String,
    /// The path with the query.
    pub target: String,
    /// The head without the fields `Connection` and `Expect` and without the empty line.
    head: Vec<u8>,
    /// The body, complete.
    pub body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection. Returns `None` at the end of the connection. A client
    /// that expects leave to send the body gets the leave at `client`.
    ///
    /// # Errors
    ///
    /// Returns errors of the connection, and `InvalidData` for a request that is not understood or too
    /// long.
    pub fn read(reader: &mut impl BufRead, client: &mut impl Write) -> io::Result<Option<Request>> {
        let Some(head) = Head::read(reader)? else { return Ok(None) };
        if head.is_chunked {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut words = head.first_line.split(' ').map(str::to_owned);
        let (Some(verb), Some(target)) = (words.next(), words.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if head.expects {
            client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = vec![0; head.body_len.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        Ok(Some(Request { verb, target, head: head.kept, body }))
    }

    /// Returns `true` if the head has this field with this value.
    pub fn has(&self, name: &str, value: &str) -> bool {
        let field = format!("{name}: {value}").to_ascii_lowercase();
        let head = String::from_utf8_lossy(&self.head).to_ascii_lowercase();
        head.lines().any(|line| line == field)
    }

    /// Directs the request to another target and host.
    pub fn redirect(&mut self, verb: &str, target: &str, host: &str) {
        let head = String::from_utf8_lossy(&self.head).into_owned();
        let fields = head.lines().skip(1).filter(|line| {
            let name = line.split(':').next().unwrap_or_default();
            !name.eq_ignore_ascii_case("host")
        });
        let mut text = format!("{verb} {target} HTTP/1.1\r\nHost: {host}\r\n");
        fields.for_each(|field| text.push_str(&format!("{field}\r\n")));
        (self.verb, self.target, self.head) = (verb.to_owned(), target.to_owned(), text.into());
    }
}

/// An answer of the server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Head and body as the server sent them.
    pub bytes: Vec<u8>,
    /// The state of the connection after the answer.
    pub connection: Connection,
}

/// A server with at most one open connection to it.
#[derive(Debug)]
pub struct Upstream {
    address: String,
    open: Option<BufReader<TcpStream>>,
}

impl Upstream {
    /// Returns a server at `address`, such as `127.0.0.1:9000`, without a connection.
    pub fn new(address: &str) -> Upstream {
        Upstream { address: address.to_owned(), open: None }
    }

    /// Sends a request to the server and returns the answer. A connection on which an earlier request
    /// was answered may have been closed by the server; in that case the request is sent again.
    ///
    /// # Errors
    ///
    /// Returns errors of the connection, and `InvalidData` for an answer that is not understood or too
    /// long.
    pub fn exchange(&mut self, request: &Request, connection: Connection) -> io::Result<Answer> {
        if let Some(open) = self.open.take()
            && let Ok(Some(answer)) = self.try_exchange(open, request, connection)
        {
            return Ok(answer);
        }
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        let answer = self.try_exchange(BufReader::new(stream), request, connection)?;
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Returns `None` if the server closed the connection without an answer.
    fn try_exchange(
        &mut self,
        mut open: BufReader<TcpStream>,
        request: &Request,
        connection: Connection,
    ) -> io::Result<Option<Answer>> {
        let field: &[u8] = match connection {
            Connection::Close => b"Connection: close\r\n\r\n",
            Connection::KeepAlive => b"Connection: keep-alive\r\n\r\n",
        };
        let bytes = [&request.head, field, &request.body].concat();
        open.get_mut().write_all(&bytes)?;
        let Some(head) = Head::read(&mut open)? else { return Ok(None) };
        let mut bytes = head.all;
        let is_bodyless = request.verb == "HEAD"
            || matches!(head.first_line.split(' ').nth(1), Some("204" | "304"));
        let mut ends_connection = head.closes || connection == Connection::Close;
        match head.body_len {
            _ if is_bodyless => {}
            _ if head.is_chunked => read_chunks(&mut open, &mut bytes)?,
            Some(len) => read_len(&mut open, len, &mut bytes)?,
            None => {
                open.read_to_end(&mut bytes)?;
                ends_connection = true;
            }
        }
        if ends_connection {
            return Ok(Some(Answer { bytes, connection: Connection::Close }));
        }
        self.open = Some(open);
        Ok(Some(Answer { bytes, connection: Connection::KeepAlive }))
    }
}

/// The head of a request or an answer.
#[derive(Debug, Default)]
struct Head {
    first_line: String,
    /// The head with the empty line.
    all: Vec<u8>,
    /// The head without the fields `Connection` and `Expect` and without the empty line.
    kept: Vec<u8>,
    body_len: Option<usize>,
    is_chunked: bool,
    expects: bool,
    closes: bool,
}

impl Head {
    /// Returns `None` if the connection ends before the first byte.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
        let mut head = Head::default();
        loop {
            let begin = head.all.len();
            let left = (HEAD_LEN_MAX - begin) as u64;
            reader.by_ref().take(left).read_until(b'\n', &mut head.all)?;
            let line = &head.all[begin..];
            if line == b"\r\n" && begin > 0 {
                return Ok(Some(head));
            }
            if !line.ends_with(b"\n") {
                let is_end = begin == 0 && line.is_empty();
                return if is_end { Ok(None) } else { Err(io::ErrorKind::InvalidData.into()) };
            }
            let text = String::from_utf8_lossy(line).trim_end().to_owned();
            if begin == 0 {
                head.first_line.clone_from(&text);
            }
            let text = text.to_ascii_lowercase();
            if let Some(value) = text.strip_prefix("content-length:") {
                let len = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
                if len > BODY_LEN_MAX {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                head.body_len = Some(len);
            }
            head.is_chunked |= text.starts_with("transfer-encoding:") && text.contains("chunked");
            head.expects |= text.starts_with("expect:");
            head.closes |= text.starts_with("connection:") && text.contains("close");
            if !text.starts_with("connection:") && !text.starts_with("expect:") {
                head.kept.extend_from_slice(&head.all[begin..]);
            }
        }
    }
}

fn read_len(reader: &mut impl BufRead, len: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    if len > BODY_LEN_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let begin = bytes.len();
    bytes.resize(begin + len, 0);
    reader.read_exact(&mut bytes[begin..])
}

/// Reads a body of chunks in the form in which it was sent.
fn read_chunks(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let begin = bytes.len();
        reader.by_ref().take(HEAD_LEN_MAX as u64).read_until(b'\n', bytes)?;
        let line = String::from_utf8_lossy(&bytes[begin..]);
        let digits = line.split(';').next().unwrap_or_default().trim();
        let len = usize::from_str_radix(digits, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        if bytes.len() + len > BODY_LEN_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // A chunk ends with a line end. The chunk of length 0 is followed by fields and an empty line.
        if len > 0 {
            read_len(reader, len + 2, bytes)?;
            continue;
        }
        loop {
            let begin = bytes.len();
            reader.by_ref().take(HEAD_LEN_MAX as u64).read_until(b'\n', bytes)?;
            match &bytes[begin..] {
                b"\r\n" => return Ok(()),
                b"" => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_read_with_its_body() {
        let text = b"PUT /b/r/data/x?y HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\
                     Connection: close\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n";
        let (mut reader, mut client) = (&text[..], Vec::new());
        let first = Request::read(&mut reader, &mut client).expect("valid").expect("one");
        assert_eq!((first.verb.as_str(), first.target.as_str()), ("PUT", "/b/r/data/x?y"));
        assert_eq!(first.head, b"PUT /b/r/data/x?y HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n");
        assert_eq!(first.body, b"abc");
        assert!(client.starts_with(b"HTTP/1.1 100"), "the client got leave");
        let second = Request::read(&mut reader, &mut client).expect("valid").expect("one");
        assert_eq!((second.verb.as_str(), second.body.len()), ("GET", 0));
        assert!(Request::read(&mut reader, &mut client).expect("valid").is_none());
    }

    #[test]
    fn chunks_are_read_to_their_end() {
        let text = b"3\r\nabc\r\n0\r\nx: y\r\n\r\nrest";
        let (mut reader, mut bytes) = (&text[..], Vec::new());
        read_chunks(&mut reader, &mut bytes).expect("valid");
        assert_eq!((bytes.as_slice(), reader), (&text[..text.len() - 4], &b"rest"[..]));
    }

    #[test]
    fn connection_is_used_again_and_replaced_when_closed() {
        let server = listen(|mut stream| {
            let mut reader = BufReader::new(stream.try_clone()?);
            // Two answers for each connection, which ends without a word about that.
            for _ in 0..2 {
                let Some(request) = Request::read(&mut reader, &mut stream)? else { break };
                let len = request.body.len();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n")?;
                stream.write_all(&request.body)?;
            }
            Ok(())
        });
        let server = server.expect("a port is free");
        let mut upstream = Upstream::new(server.trim_start_matches("http://"));
        for count in 0..5 {
            let text =
                format!("PUT / HTTP/1.1\r\nContent-Length: {count}\r\n\r\n{}", "x".repeat(count));
            let request = Request::read(&mut text.as_bytes(), &mut Vec::new());
            let request = request.expect("valid").expect("one");
            let answer = upstream.exchange(&request, Connection::KeepAlive).expect("answered");
            assert!(answer.bytes.ends_with(&request.body), "the body came back");
            assert_eq!(answer.connection, Connection::KeepAlive);
        }
    }
}
