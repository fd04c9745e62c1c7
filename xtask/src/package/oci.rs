//! The image for containers: an OCI image layout in a tar archive, for all targets.

use serde_json::{Value, json};

use super::archive::tar;
use super::parts::{Part, Parts, gzip};
use super::release::{HOMEPAGE, Release, SUMMARY, TARGETS, Target, rfc3339, sha256};

/// The beginning of the media types.
const MEDIA: &str = "application/vnd.oci.image";

/// Makes the image. It contains the program, the licences, and a folder for temporary files.
pub(super) fn package(release: &Release) -> Result<(), String> {
    let mut files = Vec::new();
    let mut manifests = Vec::new();
    for target in &TARGETS {
        manifests.push(image(release, target, &mut files)?);
    }
    let name = format!("cutpoint:{}", release.version);
    for manifest in &mut manifests {
        manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": format!("{MEDIA}.index.v1+json"),
        "manifests": manifests,
    });
    // Each image has the name of the version, so that a reader takes the one for its architecture.
    let inner = blob(&mut files, index.to_string().into_bytes(), "index.v1+json");
    let outer = json!({
        "schemaVersion": 2,
        "mediaType": format!("{MEDIA}.index.v1+json"),
        "manifests": [{
            "mediaType": inner["mediaType"],
            "digest": inner["digest"],
            "size": inner["size"],
            "annotations": {
                "org.opencontainers.image.ref.name": release.version,
                "io.containerd.image.name": format!("docker.io/library/{name}"),
            },
        }],
    });
    files.push(Part::new("index.json", outer.to_string().into_bytes()));
    files.push(Part::new("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    let archive = tar(&files, release.time_s, "")?;
    release.write(&format!("cutpoint-{}.oci.tar", release.version), &archive)
}

/// Adds the blobs of the image for `target`, and returns the description of its manifest.
fn image(release: &Release, target: &Target, files: &mut Vec<Part>) -> Result<Value, String> {
    let parts = Parts::make(release, target)?;
    let doc = "usr/share/doc/cutpoint";
    let mut content = vec![
        Part::folder("root", 0o700),
        Part::folder("tmp", 0o1777),
        Part::program("usr/bin/cutpoint", parts.program),
        Part::new(format!("{doc}/THIRD-PARTY.txt"), parts.notices),
    ];
    for (name, text) in parts.licences {
        content.push(Part::new(format!("{doc}/{name}"), text));
    }
    let layer = tar(&content, release.time_s, "")?;
    let layer_sum = format!("sha256:{}", sha256(&layer));
    let layer = blob(files, gzip(&layer), "layer.v1.tar+gzip");
    let created = rfc3339(release.time_s);
    let labels = json!({
        "org.opencontainers.image.title": "cutpoint",
        "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.revision": release.commit,
        "org.opencontainers.image.source": HOMEPAGE,
        "org.opencontainers.image.version": release.version,
    });
    let config = json!({
        "created": created,
        "architecture": target.oci,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/cutpoint"],
            "Env": ["PATH=/usr/bin", "HOME=/root"],
            "Labels": labels,
        },
        "rootfs": { "type": "layers", "diff_ids": [layer_sum] },
        "history": [{ "created": created, "created_by": "cargo xtask package oci" }],
    });
    let config = blob(files, config.to_string().into_bytes(), "config.v1+json");
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": format!("{MEDIA}.manifest.v1+json"),
        "config": config,
        "layers": [layer],
        "annotations": labels,
    });
    let mut described = blob(files, manifest.to_string().into_bytes(), "manifest.v1+json");
    described["platform"] = json!({ "architecture": target.oci, "os": "linux" });
    Ok(described)
}

/// Adds a blob, and returns its description.
fn blob(files: &mut Vec<Part>, bytes: Vec<u8>, kind: &str) -> Value {
    let sum = sha256(&bytes);
    let described = json!({
        "mediaType": format!("{MEDIA}.{kind}"),
        "digest": format!("sha256:{sum}"),
        "size": bytes.len(),
    });
    let path = format!("blobs/sha256/{sum}");
    if files.iter().all(|file| file.path != path) {
        files.push(Part::new(path, bytes));
    }
    described
}
