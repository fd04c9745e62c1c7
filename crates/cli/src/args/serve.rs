//! The arguments of `serve`.

use std::net::SocketAddr;

use clap::Args as ClapArgs;

/// Show snapshots in a browser of this machine
#[derive(Debug, ClapArgs)]
#[command(
    long_about = "\
Show snapshots in a browser of this machine

Prints an address to open in a browser. The page has folders and files of all snapshots, a search, \
previews, downloads, the difference between two versions of a file, the state of the last backups, \
and what takes the space of the repository. Nothing in it can be changed. With --allow-restore, it \
also restores files to folders of this machine, and overwrites nothing.

The address opens the page once, in one browser. The page stays open there until the command ends. \
To open it again, start the command again.

Only this machine can reach the page: it is bound to 127.0.0.1. Another machine reaches it through \
SSH (see the examples). Programs and users of this machine cannot read it without the address, but \
see docs/serve.md on machines that several users share.

New snapshots appear within a few seconds. Backups and `cutpoint prune` can run meanwhile. The page \
loads nothing from elsewhere. Names and contents of files are shown as text, and never run: only \
pictures of checked formats (PNG, JPEG, GIF, WebP, AVIF) are shown as such.

--webdav also answers WebDAV clients, for systems without FUSE, where `cutpoint mount` does not \
work. They can only read, too, and need the password that is printed.

The command runs in the foreground. Ctrl-C or SIGTERM ends it.",
    before_help = "\
Examples:
  cutpoint serve
      Open the printed address in a browser.
  cutpoint serve --listen 127.0.0.1:8080 --allow-restore
  cutpoint serve --json | jq -r '.url // empty'
      Prints only the address, for a program.
  ssh -L 8080:127.0.0.1:8080 HOST \\
    cutpoint serve --listen 127.0.0.1:8080
      Opens the snapshots of HOST in a browser here.
  cutpoint serve --webdav
      Open the second address in a file manager."
)]
pub(crate) struct Serve {
    /// Listen at this address and port [default: 127.0.0.1:0]
    ///
    /// The address must be one of this machine alone: 127.0.0.1 or [::1]. Port 0 stands for one that
    /// is free.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_listen,
        default_value = "127.0.0.1:0", hide_default_value = true)]
    pub(crate) listen: SocketAddr,
    /// Let the page restore files to folders of this machine
    #[arg(long)]
    pub(crate) allow_restore: bool,
    /// Answer WebDAV clients as well
    #[arg(long)]
    pub(crate) webdav: bool,
}

/// Parses an address of the loopback interface.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected 127.0.0.1:PORT or [::1]:PORT";
    let address: SocketAddr =
        text.parse().map_err(|_| format!("no address and port ({expected})"))?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(format!(
            "other machines could reach this address, and the page is not encrypted ({expected}); \
             they reach it by `ssh -L`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_accepted() {
        for text in ["127.0.0.1:0", "127.0.0.1:8080", "[::1]:80"] {
            assert!(parse_listen(text).is_ok(), "{text}");
        }
        for text in ["0.0.0.0:80", "192.168.1.2:80", "[::]:80", "localhost", "8080", ""] {
            assert!(parse_listen(text).is_err(), "{text}");
        }
    }
}
