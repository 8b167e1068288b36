#!/bin/sh
# Install the engines that `make test-all` counts in: PostgreSQL, MariaDB, and Java with
# pyspark.
# Debian or Ubuntu, as root; without it the tests that need an engine say so and skip.
set -eu
cd "$(dirname "$0")/../.."
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql openjdk-17-jre-headless \
  mariadb-server
.venv/bin/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[mysql,spark]'
