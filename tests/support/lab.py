"""Hosts for tests: network namespaces joined by bridges of a fabric, with Open vSwitch in userspace where wanted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
SETTINGS = (
    "net.ipv4.fib_multipath_hash_policy",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.arp_announce",
    "net.ipv4.ip_forward",
)


def run(*words: str, env: dict[str, str] | None = None, check: bool = True) -> str:
    """Output of a program."""
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=180, env={**os.environ, **(env or {})}, check=False
    )
    if check and done.returncode:
        raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + ("" if check else done.stderr)


def require(*tools: str) -> None:
    """Skip where such tests cannot run, with the reason."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (tests/hosts/install.sh)")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    probe = f"topoopt-probe-{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
    run("ip", "netns", "del", probe)


@dataclass(frozen=True)
class Machine:
    """A host: a namespace and a folder for its daemons and state."""

    name: str
    space: str
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """Of everything that runs there."""
        here = str(self.folder)
        ovs = {f"OVS_{kind}DIR": here for kind in ("RUN", "LOG", "DB", "SYSCONF")}
        return {**ovs, "TOPOOPT_STATE_DIR": f"{here}/state", "TOPOOPT_DATAPATH": "netdev"}

    def run(self, *words: str, check: bool = True) -> str:
        """Output of a program on this host."""
        return run("ip", "netns", "exec", self.space, *words, env=self.env, check=check)

    def script(self, file: Path, word: str, *, check: bool = True) -> str:
        """Output of a script on this host."""
        return self.run("bash", str(file), word, check=check)

    def snapshot(self, *, ovs: bool) -> dict[str, object]:
        """Everything that a script may change."""
        seen: dict[str, object] = {
            "addresses": [
                (link["ifname"], sorted(one["local"] for one in link["addr_info"]))
                for link in json.loads(self.run("ip", "-j", "address"))
                if link["ifname"] != "ovs-netdev"
            ],
            "rules": self.run("ip", "rule"),
            "routes": sorted(self.run("ip", "route", "show", "table", "all").splitlines()),
            "qdiscs": self.run("tc", "qdisc", "show"),
            "settings": [self.run("cat", f"/proc/sys/{key.replace('.', '/')}") for key in SETTINGS],
            "state": sorted(str(path) for path in (self.folder / "state").glob("*")),
        }
        if ovs:
            seen["rows"] = [
                sorted(self.run("ovs-vsctl", "--bare", "--columns=_uuid,external_ids", "list", table).split())
                for table in ("bridge", "port", "qos", "queue")
            ]
            seen["flows"] = [
                re.findall(r"cookie=\S+|priority=.*", self.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", bridge))
                for bridge in self.run("ovs-vsctl", "list-br").split()
            ]
        return seen


@contextmanager
def process(words: Sequence[str], env: dict[str, str], stdin: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A program that is ended and waited for; with an input that the caller closes, if wanted."""
    started = subprocess.Popen(
        words,
        env={**os.environ, **env},
        stdin=subprocess.PIPE if stdin else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.terminate()
        try:
            started.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()


@contextmanager
def lab(
    names: Sequence[str], links: int, folder: Path, *, ovs: bool, flat: bool = False
) -> Iterator[dict[str, Machine]]:
    """Hosts with interfaces eth1, eth2, ...; nothing is left behind.

    Link k of all of them is at one switch; flat: all links are.
    """
    with ExitStack() as stack:
        fabric = new_space(stack, "fabric")
        for k in range(links):
            run("ip", "-n", fabric, "link", "add", f"sw{k}", "type", "bridge")
            run("ip", "-n", fabric, "link", "set", f"sw{k}", "up")
        machines = {}
        for number, name in enumerate(names):
            machine = Machine(name, new_space(stack, name), folder / name)
            machine.folder.mkdir()
            for k in range(links):
                port, interface = f"p{number}x{k}", f"eth{k + 1}"
                ends = ["link", "add", interface, "netns", machine.space, "type", "veth"]
                run("ip", *ends, "peer", "name", port, "netns", fabric)
                run("ip", "-n", fabric, "link", "set", port, "master", f"sw{0 if flat else k}", "up")
                machine.run("ethtool", "-K", interface, "tx", "off", "gso", "off", "tso", "off", check=False)
                # Short queues: at these rates long ones would hold seconds, and in userspace all share one buffer.
                machine.run("ip", "link", "set", interface, "txqueuelen", "24", "up")
            if ovs:
                _switch(stack, machine)
            machines[name] = machine
        yield machines


def new_space(stack: ExitStack, label: str) -> str:
    """A network namespace of this process without IPv6, by its name."""
    name = f"tt{os.getpid()}-{label}"
    run("ip", "netns", "add", name)
    stack.callback(run, "ip", "netns", "del", name, check=False)
    run("ip", "netns", "exec", name, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6", check=False)
    run("ip", "-n", name, "link", "set", "lo", "up")
    return name


def _switch(stack: ExitStack, machine: Machine) -> None:
    """Open vSwitch with its own database and folder."""
    here, inside = machine.folder, ["ip", "netns", "exec", machine.space]
    run("ovsdb-tool", "create", f"{here}/conf.db", str(SCHEMA))
    quiet = ["-vconsole:off", "-vsyslog:off"]
    server = ["ovsdb-server", f"{here}/conf.db", f"--remote=punix:{here}/db.sock", f"--unixctl={here}/db.ctl"]
    stack.enter_context(process([*inside, *server, *quiet], machine.env))
    wait_for(here / "db.sock")
    machine.run("ovs-vsctl", "--no-wait", "init")
    daemon = ["ovs-vswitchd", f"unix:{here}/db.sock", f"--unixctl={here}/switch.ctl", f"--pidfile={here}/switch.pid"]
    stack.enter_context(process([*inside, *daemon, *quiet], machine.env))
    wait_for(here / "switch.ctl")
    # Daemons end while their namespace is still there.
    stack.callback(machine.run, "ovs-vsctl", "--timeout=10", "emer-reset", check=False)


def wait_for(path: Path) -> None:
    """Until a daemon has made its socket."""
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")
