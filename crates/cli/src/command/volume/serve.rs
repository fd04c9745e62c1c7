//! `volume serve`: offers a virtual disk to NBD clients.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use cutpoint_terminal::units::short_size;
use cutpoint_volume::nbd::{Address, Server};
use cutpoint_volume::{Access, DISK_NAME_DEFAULT, Device, Disk, Volume};

use crate::args::VolumeServe;
use crate::event::{Event, PathText, Serving, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;

/// The interval at which the log is looked through for dead segments.
const CLEAN_EVERY: Duration = Duration::from_secs(5);

/// The name of the socket in the folder of the volume.
const SOCKET: &str = "nbd.socket";

pub(crate) fn run(args: &VolumeServe, report: &Report) -> Result<Exit> {
    let address = match &args.listen {
        Some(text) => text.parse().map_err(|error| Failure::failed(format!("--listen {error}")))?,
        None => Address::Unix(args.folder.join(SOCKET)),
    };
    let mode = args.mode.as_deref().map(super::mode).transpose()?;
    let access = if args.read_only { Access::Read } else { Access::Write };
    let volume = Arc::new(super::open(&args.folder, access)?);
    if let Some(mode) = mode {
        volume.set_mode(mode).map_err(|error| super::failure(&args.folder, &error))?;
    }
    let disk = Disk::open(&volume, DISK_NAME_DEFAULT)
        .map_err(|error| super::failure(&args.folder, &error))?;
    let server = listen(&address)?;
    let interrupt = Interrupt::listen_without_limit();
    tell_serving(args, &disk, &server, report)?;
    serve(&disk, &server, &interrupt, report)?;
    drop(server);
    // The next opening reads no log.
    volume.checkpoint().map_err(|error| super::failure(&args.folder, &error))?;
    if report.is_json() {
        let elapsed_ns = report.elapsed_ns();
        report.event(&Event::Summary(Summary::VolumeServe { elapsed_ns }))?;
    } else {
        report.note(&format!("Closed {}.", args.folder.display()));
    }
    Ok(Exit::Well)
}

/// Serves until a signal comes, and cleans the log meanwhile.
fn serve(disk: &Disk, server: &Server, interrupt: &Interrupt, report: &Report) -> Result<()> {
    let volume: &Volume = disk.volume();
    let device: Arc<dyn Device> = Arc::new(disk.clone());
    // Dropped when the server has ended, which ends the thread.
    let (serving, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while is_over.recv_timeout(CLEAN_EVERY) == Err(RecvTimeoutError::Timeout) {
                // The dead segments stay; a write that meets the same error tells its client.
                if let Err(error) = volume.clean_if_due(&|| interrupt.is_asked()) {
                    report.warn(&format!("cannot free dead segments: {error}"));
                }
            }
        });
        let served = server.run(&device, &|| interrupt.is_asked());
        drop(serving);
        served.context("cannot accept connections")
    })
}

fn listen(address: &Address) -> Result<Server> {
    Server::listen(address).map_err(|error| {
        let failure = Failure::failed(format!("--listen {}: {error}", shown(address)));
        failure.with_remedy("name another address, such as --listen tcp:0").into()
    })
}

/// Returns an address as the option has it.
fn shown(address: &Address) -> String {
    match address {
        Address::Unix(path) => format!("unix:{}", path.display()),
        Address::Tcp(address) => format!("tcp:{}", address.port()),
    }
}

fn tell_serving(args: &VolumeServe, disk: &Disk, server: &Server, report: &Report) -> Result<()> {
    let address = server.address().context("address")?.to_string();
    let folder = std::path::absolute(&args.folder).context("current folder")?;
    if report.is_json() {
        report.event(&Event::Serving(Serving {
            path: PathText::of(&folder),
            address: &address,
            size_bytes: disk.size(),
            block_size_bytes: disk.block_size() as u64,
            mode: &disk.volume().mode().to_string(),
            read_only: args.read_only,
        }))?;
    } else {
        report.note(&text(&args.folder, disk, &address));
    }
    report.flush()
}

fn text(folder: &Path, disk: &Disk, address: &str) -> String {
    format!(
        "{}: {} in blocks of {}, mode {}, served at {address}. Ctrl-C ends it.",
        folder.display(),
        short_size(disk.size()),
        short_size(disk.block_size() as u64),
        disk.volume().mode(),
    )
}
