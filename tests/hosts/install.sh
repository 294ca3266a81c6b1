#!/usr/bin/env bash
# What tests/hosts needs besides Python, on Debian: Open vSwitch (no kernel module), ip, tc, iperf3, ethtool. As root.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends openvswitch-switch iproute2 iperf3 ethtool
