#!/bin/sh
# Install what the tests of sessions through proxies need: Debian's nginx and tinyproxy.
# Debian or Ubuntu, as root; without them the tests say so and skip. Neither is started:
# the tests run their own, on loopback, and end them.
set -eu
if command -v nginx >/dev/null && command -v tinyproxy >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  echo "nginx or tinyproxy is not installed: install them, or run this as root on Debian or Ubuntu" >&2
  exit 1
fi
kept=
if [ ! -e /usr/sbin/policy-rc.d ]; then  # or the packages would start their services
  printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
  kept=/usr/sbin/policy-rc.d
fi
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nginx-light tinyproxy
if [ -n "$kept" ]; then rm "$kept"; fi
