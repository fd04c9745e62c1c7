//! Connections to servers in tests.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// Serves each connection to `listener` by a thread of its own. `serve` returns `None` if the client
/// has hung up.
pub(crate) fn accept(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> Option<()> + Send + Sync + 'static,
) {
    let serve = Arc::new(serve);
    // The thread ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
}
