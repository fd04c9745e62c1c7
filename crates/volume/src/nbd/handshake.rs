//! The handshake: which export, and which extensions.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::exports::Exports;
use super::wire::{
    ALLOCATION, ALLOCATION_ID, Fields, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_SIZE_MAX,
    broken, export, info, option, read_array, read_bytes, reply,
};
use crate::device::Device;

/// The flags of the server: fixed newstyle, and no zeros behind `NBD_OPT_EXPORT_NAME`.
const SERVER_FLAGS: u16 = 3;
/// The flag of a client that wants no zeros.
const NO_ZEROES: u32 = 2;
/// The maximum number of bytes of an option.
const OPTION_SIZE_MAX: u32 = 64 * 1024;
/// The maximum number of options of a handshake.
const OPTION_COUNT_MAX: u32 = 1000;
/// The maximum number of exports in a list.
const EXPORTS_MAX: usize = 10_000;

/// The extensions that both sides use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) has_structured_replies: bool,
    /// Set if the client may ask for block status.
    pub(super) has_allocation: bool,
}

/// The encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// There is none, and none is offered.
    Clear,
    /// The client must begin TLS.
    NeedsTls,
    /// TLS has begun.
    Tls,
}

/// What follows a greeting: flags of the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Greeted {
    /// Set if 124 zeros follow the answer to `NBD_OPT_EXPORT_NAME`.
    has_zeros: bool,
}

/// The end of a handshake.
pub(super) enum Negotiated {
    /// Requests for a disk follow.
    Begin(Agreed, Arc<dyn Device>),
    /// TLS follows, and options after that.
    StartTls(Greeted),
    /// The client is done.
    End,
}

/// The effect of an option.
enum Next {
    Option,
    Transmission(Arc<dyn Device>),
    StartTls,
    End,
}

/// Greets a client, and agrees with it on an export.
pub(super) fn negotiate(
    stream: &mut (impl Read + Write),
    exports: &dyn Exports,
    security: Security,
) -> io::Result<Negotiated> {
    let mut greeting = Vec::with_capacity(18);
    greeting.extend_from_slice(&MAGIC.to_be_bytes());
    greeting.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&SERVER_FLAGS.to_be_bytes());
    stream.write_all(&greeting)?;
    let flags = u32::from_be_bytes(read_array(stream)?);
    if flags & !u32::from(SERVER_FLAGS) != 0 || flags & 1 == 0 {
        return Err(broken("flags of the client"));
    }
    options(stream, exports, security, Greeted { has_zeros: flags & NO_ZEROES == 0 })
}

/// Answers options until the client begins or ends. What was agreed on before TLS does not count.
pub(super) fn options(
    stream: &mut (impl Read + Write),
    exports: &dyn Exports,
    security: Security,
    greeted: Greeted,
) -> io::Result<Negotiated> {
    let (agreed, context_export) = (Agreed::default(), Vec::new());
    let mut handshake = Handshake { stream, exports, security, greeted, agreed, context_export };
    for _ in 0..OPTION_COUNT_MAX {
        match handshake.option()? {
            Next::Option => {}
            Next::Transmission(device) => return Ok(Negotiated::Begin(handshake.agreed, device)),
            Next::StartTls => return Ok(Negotiated::StartTls(greeted)),
            Next::End => return Ok(Negotiated::End),
        }
    }
    Err(broken("number of options"))
}

struct Handshake<'a, S> {
    stream: &'a mut S,
    exports: &'a dyn Exports,
    security: Security,
    greeted: Greeted,
    agreed: Agreed,
    /// The name of the export for which a context was agreed on.
    context_export: Vec<u8>,
}

impl<S: Read + Write> Handshake<'_, S> {
    /// Answers the next option.
    fn option(&mut self) -> io::Result<Next> {
        let header: [u8; 16] = read_array(self.stream)?;
        let mut fields = Fields(&header);
        if fields.u64() != Some(OPTION_MAGIC) {
            return Err(broken("magic of an option"));
        }
        let (Some(option), Some(len)) = (fields.u32(), fields.u32()) else {
            return Err(broken("header of an option"));
        };
        if len > OPTION_SIZE_MAX {
            return Err(broken("length of an option"));
        }
        let data = read_bytes(self.stream, len)?;
        match option {
            option::ABORT => {
                // A client may be gone already.
                self.reply(option, reply::ACK, &[]).ok();
                return Ok(Next::End);
            }
            option::START_TLS => return self.start_tls(&data),
            option::EXPORT_NAME if self.security == Security::NeedsTls => {
                return Err(broken("export without TLS"));
            }
            _ if self.security == Security::NeedsTls => {
                self.reply(option, reply::ERR_TLS_REQUIRED, &[])?;
            }
            option::EXPORT_NAME => return self.export_name(&data),
            option::LIST => self.list(&data)?,
            option::INFO | option::GO => return self.info(option, &data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.agreed.has_structured_replies = true;
                self.reply(option, reply::ACK, &[])?;
            }
            option::STRUCTURED_REPLY => self.reply(option, reply::ERR_INVALID, &[])?,
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, &data)?,
            _ => self.reply(option, reply::ERR_UNSUPPORTED, &[])?,
        }
        Ok(Next::Option)
    }

    fn start_tls(&mut self, data: &[u8]) -> io::Result<Next> {
        let error = match self.security {
            Security::NeedsTls if data.is_empty() => {
                self.reply(option::START_TLS, reply::ACK, &[])?;
                return Ok(Next::StartTls);
            }
            Security::Clear => reply::ERR_UNSUPPORTED,
            Security::NeedsTls | Security::Tls => reply::ERR_INVALID,
        };
        self.reply(option::START_TLS, error, &[])?;
        Ok(Next::Option)
    }

    /// Answers the old way to begin, which has no error but the end of the connection.
    fn export_name(&mut self, name: &[u8]) -> io::Result<Next> {
        let Some(device) = self.open(name) else {
            return Err(broken("name of an export that does not exist"));
        };
        let mut answer = self.export(&*device);
        answer.resize(answer.len() + if self.greeted.has_zeros { 124 } else { 0 }, 0);
        self.stream.write_all(&answer)?;
        Ok(self.begin(name, device))
    }

    fn open(&self, name: &[u8]) -> Option<Arc<dyn Device>> {
        self.exports.open(std::str::from_utf8(name).ok()?)
    }

    /// Begins with an export. A context of another one does not count.
    fn begin(&mut self, name: &[u8], device: Arc<dyn Device>) -> Next {
        self.agreed.has_allocation &= self.context_export == name;
        Next::Transmission(device)
    }

    /// Returns size and flags of the export.
    fn export(&self, device: &dyn Device) -> Vec<u8> {
        let mut flags = export::HAS_FLAGS
            | export::FLUSH
            | export::FUA
            | export::TRIM
            | export::WRITE_ZEROES
            | export::MULTI_CONNECTION;
        if device.is_read_only() {
            flags =
                export::HAS_FLAGS | export::READ_ONLY | export::FLUSH | export::MULTI_CONNECTION;
        }
        if self.agreed.has_structured_replies {
            flags |= export::DONT_FRAGMENT;
        }
        [device.size().to_be_bytes().as_slice(), &flags.to_be_bytes()].concat()
    }

    fn list(&mut self, data: &[u8]) -> io::Result<()> {
        if !data.is_empty() {
            return self.reply(option::LIST, reply::ERR_INVALID, &[]);
        }
        for name in self.exports.names().iter().take(EXPORTS_MAX) {
            self.reply(option::LIST, reply::SERVER, &named(name.as_bytes()))?;
        }
        self.reply(option::LIST, reply::ACK, &[])
    }

    /// Answers `NBD_OPT_INFO` and `NBD_OPT_GO`.
    fn info(&mut self, option: u32, data: &[u8]) -> io::Result<Next> {
        let name = export_of(data);
        let Some((name, device)) = name.and_then(|name| Some((name, self.open(name)?))) else {
            let error = if name.is_none() { reply::ERR_INVALID } else { reply::ERR_UNKNOWN };
            self.reply(option, error, &[])?;
            return Ok(Next::Option);
        };
        let export = [info::EXPORT.to_be_bytes().as_slice(), &self.export(&*device)].concat();
        self.reply(option, reply::INFO, &export)?;
        let mut sizes = info::BLOCK_SIZE.to_be_bytes().to_vec();
        for size in [1, device.preferred_size().max(4096), REQUEST_SIZE_MAX] {
            sizes.extend_from_slice(&size.to_be_bytes());
        }
        self.reply(option, reply::INFO, &sizes)?;
        self.reply(option, reply::ACK, &[])?;
        Ok(if option == option::GO { self.begin(name, device) } else { Next::Option })
    }

    /// Answers `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
    fn contexts(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            self.agreed.has_allocation = false;
        }
        let parsed = queries(data).filter(|_| self.agreed.has_structured_replies);
        let Some((name, queries)) = parsed else {
            return self.reply(option, reply::ERR_INVALID, &[]);
        };
        if self.open(name).is_none() {
            return self.reply(option, reply::ERR_UNKNOWN, &[]);
        }
        if is_set {
            self.context_export = name.to_vec();
        }
        let is_asked = queries.contains(&ALLOCATION.as_bytes())
            || !is_set && (queries.is_empty() || queries.contains(&b"base:".as_slice()));
        if is_asked {
            // A list numbers no context.
            let id = if is_set { ALLOCATION_ID } else { 0 };
            let context = [id.to_be_bytes().as_slice(), ALLOCATION.as_bytes()].concat();
            self.reply(option, reply::META_CONTEXT, &context)?;
            self.agreed.has_allocation |= is_set;
        }
        self.reply(option, reply::ACK, &[])
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
        let len = u32::try_from(data.len()).map_err(|_| broken("length of a reply"))?;
        for number in [option, kind, len] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes)
    }
}

/// Returns the name of the export of an option that asks for information.
fn export_of(data: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields(data);
    let name = fields.text()?;
    let count = usize::from(fields.u16()?);
    (fields.0.len() == 2 * count).then_some(name)
}

/// Returns the name of the export and the queries of an option about metadata contexts.
fn queries(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut fields = Fields(data);
    let name = fields.text()?;
    let count = fields.u32()?;
    // Each has four bytes for its length at least, so that the loop ends with the data.
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(fields.text()?);
    }
    fields.0.is_empty().then_some((name, queries))
}

/// Returns a text behind its length.
fn named(name: &[u8]) -> Vec<u8> {
    let len = u32::try_from(name.len()).unwrap_or_default();
    [len.to_be_bytes().as_slice(), name].concat()
}
