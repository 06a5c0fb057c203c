#!/bin/sh
# Builds a container image (OCI) in which `wiretime` is set up: `make image`, or scripts/image.sh FILE.tar. Needs one of
# buildah, podman and docker, and Debian's archive.
set -eu
cd "$(dirname "$0")/.."
. ./scripts/prepare.sh
out=${1:?usage: scripts/image.sh FILE.tar}
folder=build/image
rm -rf "$folder"
mkdir -p "$folder" "$(dirname "$out")"
tool=$(for t in buildah podman docker; do have "$t" && echo "$t" && break; done) ||
    fail "needs buildah, podman or docker: none is installed"

.venv/bin/wiretime setup --export "$folder/wiretime.tar"
# The release whose Python the export's packages are for.
python=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case "$python" in
    3.11) suite=bookworm ;;
    3.13) suite=trixie ;;
    *) fail "an image needs the Python of Debian 12 or 13 (3.11, 3.13); the environment's is $python" ;;
esac
say "a minimal Debian ($suite)"
mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,cpio,ca-certificates "$suite" "$folder/rootfs.tar"

say "building with $tool"
case "$tool" in
    buildah | podman)
        # In a container or a namespace of its own there is neither overlay nor a runtime: files and chroot do.
        set -- --storage-driver vfs
        "$tool" "$@" build --isolation chroot --tag wiretime --file Containerfile "$folder" >&2
        rm -f "$out"
        "$tool" "$@" push wiretime "oci-archive:$out:wiretime"
        ;;
    docker)
        docker build --tag wiretime --file Containerfile "$folder" >&2
        docker save --output "$out" wiretime
        ;;
esac
(cd "$(dirname "$out")" && sha256sum "$(basename "$out")" | tee "$(basename "$out").sha256")
