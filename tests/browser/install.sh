#!/usr/bin/env bash
# Installs what the tests in a real browser need: Debian's chromium, and axe-core at a pinned version.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=4.10.2
if ! command -v chromium >/dev/null; then
  if [ "$(id -u)" != 0 ]; then
    echo "chromium is not installed: install it, or run this as root on Debian or Ubuntu" >&2
    exit 1
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
if [ ! -f "$here/axe.min.js" ]; then
  folder=$(mktemp -d)
  (cd "$folder" && npm pack --silent "axe-core@$version" >/dev/null && tar -xzf "axe-core-$version.tgz")
  cp "$folder/package/axe.min.js" "$here/axe.min.js"
  rm -r "$folder"
fi
echo "chromium and axe-core $version are there"
