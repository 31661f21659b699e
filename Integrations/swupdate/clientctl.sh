#!/bin/sh
# SWUpdate script of type `postinstall`: the update succeeds when the page of the client has confirmed its start.
# `make-swu` puts it into the .swu file. SWUpdate has written the kit to this path before.
set -eu
kit=/var/tmp/clientctl-kit.tar
trap 'rm -f "$kit"' EXIT
"${SWAP_CLIENTS_DEPLOY:-/usr/lib/clientctl/deploy}" install "$kit"
