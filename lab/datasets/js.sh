#!/bin/bash
# JS: releases of a bundled and minified JavaScript package (monaco-editor, folder min/), as npm delivers them
. "$(dirname "$0")/common.sh"
VERSIONS="${VERSIONS:-0.44.0 0.45.0 0.46.0 0.47.0 0.48.0 0.49.0 0.50.0 0.51.0}"
w=$(mktemp -d); trap 'rm -rf "$w"' EXIT; n=0
for version in $VERSIONS; do
  n=$((n + 1)); v=$(printf 'v%02d' $n)
  (cd "$w" && npm pack --silent "monaco-editor@$version" > /dev/null)
  mkdir -p "$DATA/JS/$v"; tar -xzf "$w/monaco-editor-$version.tgz" -C "$DATA/JS/$v" --strip-components=2 package/min
  echo "$v $version $(du -sm "$DATA/JS/$v" | cut -f1) MB"
done
