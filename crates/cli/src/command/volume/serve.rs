//! `volume serve`: offers a virtual disk to NBD clients.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use cutpoint_terminal::units::short_size;
use cutpoint_volume::nbd::{Address, Clients, Server, Tls, VolumeExports};
use cutpoint_volume::{Access, OpenOptions, Volume};

use super::control::{Answer, Control, Request};
use super::requests;
use crate::args::{Secrets, VolumeServe};
use crate::event::{Event, PathText, Serving, Summary};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::report::Report;

/// The name of the socket in the folder of the volume.
pub(super) const SOCKET: &str = "nbd.socket";

pub(crate) fn run(args: &VolumeServe, secrets: &Secrets, report: &Report) -> Result<Exit> {
    let address = match &args.listen {
        Some(text) => text.parse().map_err(|error| Failure::failed(format!("--listen {error}")))?,
        None => Address::Unix(args.folder.join(SOCKET)),
    };
    let clients = if args.tls_any_client { Clients::Any } else { Clients::WithCertificate };
    let tls = args.tls_certificates.as_ref().map(|folder| Tls::read(folder, clients));
    let tls = tls.transpose().context("--tls-certificates")?;
    let mode = args.mode.as_deref().map(super::mode).transpose()?;
    let compression = args.compression.as_deref().map(super::compression).transpose()?;
    let access = if args.read_only { Access::Read } else { Access::Write };
    let options = OpenOptions {
        memory: args.memory,
        limit: args.limit,
        reserve: args.reserve,
        ..OpenOptions::new(access)
    };
    let volume = Arc::new(super::open(&args.folder, &options, secrets, report)?);
    let failed = |error| super::failure(&args.folder, &error);
    if let Some(mode) = mode {
        volume.set_mode(mode).map_err(failed)?;
    }
    if let Some(compression) = compression {
        volume.set_compression(compression).map_err(failed)?;
    }
    if let Some(switch) = args.verify_duplicates {
        volume.set_verifies_duplicates(switch.is_on()).map_err(failed)?;
    }
    let control = Control::listen(&args.folder);
    let control = control.with_context(|| format!("{}: control socket", args.folder.display()))?;
    let server = listen(&address, tls)?;
    let interrupt = Interrupt::listen_without_limit();
    tell_serving(args, &volume, &server, report)?;
    serve(&volume, &server, &control, &interrupt, report)?;
    drop((server, control));
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

/// Serves until a signal comes, and answers requests and cleans the log meanwhile.
fn serve(
    volume: &Arc<Volume>,
    server: &Server,
    control: &Control,
    interrupt: &Interrupt,
    report: &Report,
) -> Result<()> {
    let exports = VolumeExports(Arc::clone(volume));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_over = || is_over.load(Ordering::Relaxed) || interrupt.is_asked();
            volume.keep_up(&is_over, &|what, error| report.warn(&format!("{what}: {error}")));
        });
        scope.spawn(|| {
            let perform = |request: &Request| {
                let performed = requests::perform(volume, request, true, &|| interrupt.is_asked());
                performed.unwrap_or_else(|error| Answer::Failed {
                    exit: super::exit_of(&error).code(),
                    message: error.to_string(),
                })
            };
            control.run(&perform, &|| interrupt.is_asked());
        });
        let served = server.run(&exports, &|| interrupt.is_asked());
        is_over.store(true, Ordering::Relaxed);
        served.context("cannot accept connections")
    })
}

fn listen(address: &Address, tls: Option<Tls>) -> Result<Server> {
    Server::listen(address, tls).map_err(|error| {
        let failure = Failure::failed(format!("--listen {}: {error}", shown(address)));
        if error.kind() == std::io::ErrorKind::PermissionDenied && error.get_ref().is_some() {
            return failure.with_remedy("name certificates with --tls-certificates").into();
        }
        failure.with_remedy("name another address, such as --listen tcp:0").into()
    })
}

/// Returns an address as the option has it.
fn shown(address: &Address) -> String {
    match address {
        Address::Unix(path) => format!("unix:{}", path.display()),
        Address::Tcp(address) => format!("tcp:{address}"),
    }
}

fn tell_serving(
    args: &VolumeServe,
    volume: &Volume,
    server: &Server,
    report: &Report,
) -> Result<()> {
    let address = server.address().context("address")?;
    let address = match address {
        // Clients have other current folders.
        Address::Unix(path) => Address::Unix(std::path::absolute(path).context("current folder")?),
        address => address,
    };
    let address = address.to_string();
    let folder = std::path::absolute(&args.folder).context("current folder")?;
    if report.is_json() {
        report.event(&Event::Serving(Serving {
            path: PathText::of(&folder),
            address: &address,
            size_bytes: volume.disks().iter().map(|disk| disk.size).sum(),
            block_size_bytes: volume.block_size() as u64,
            mode: &volume.mode().to_string(),
            read_only: args.read_only,
        }))?;
    } else {
        report.note(&text(&args.folder, volume, &address));
    }
    report.flush()
}

fn text(folder: &Path, volume: &Volume, address: &str) -> String {
    let disks = volume.disks().into_iter();
    let disks: Vec<String> =
        disks.map(|disk| format!("{} ({})", disk.name, short_size(disk.size))).collect();
    format!(
        "{}: {} in blocks of {}, mode {}, served at {address}. Ctrl-C ends it.",
        folder.display(),
        disks.join(", "),
        short_size(volume.block_size() as u64),
        volume.mode(),
    )
}
