#!/usr/bin/env bash
# Installs what the tests in a real browser need: Debian's chromium, and axe-core at a pinned version.
# They are skipped, with a sentence, where this was not run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=4.10.2
command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium fonts-dejavu-core
if [ ! -f "$here/axe.min.js" ]; then
  folder=$(mktemp -d)
  (cd "$folder" && npm pack --silent "axe-core@$version" >/dev/null && tar -xzf "axe-core-$version.tgz")
  cp "$folder/package/axe.min.js" "$here/axe.min.js"
  rm -r "$folder"
fi
echo "chromium and axe-core $version are there"
