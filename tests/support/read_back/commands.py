"""Commands of the scripts for hosts, followed one by one; what they leave behind on a host."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from tests.support.read_back.words import Words, whole
from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.files.untrusted import read_text

MAX_BYTES = 64 * MIB

PLAIN = re.compile(r"  [A-Za-z0-9@=:,./_-]+(?: [A-Za-z0-9@=:,./_-]+)*", re.ASCII)
"""A line whose words mean nothing else to a shell."""


@dataclass
class Machine:
    """A host after its script: what each command left behind."""

    name: str
    bridges: dict[str, str] = field(default_factory=dict)
    addresses: list[tuple[IPv4Interface, str]] = field(default_factory=list)
    root: dict[str, int] = field(default_factory=dict)
    classes: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    chosen: dict[str, dict[IPv4Address, int]] = field(default_factory=lambda: defaultdict(dict))
    filters: dict[str, dict[IPv4Address, int]] = field(default_factory=lambda: defaultdict(dict))
    routes: dict[int, dict[IPv4Network, list[tuple[IPv4Address | None, str, int]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    rules: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def interface_of(self, device: str) -> str:
        """Interface that what leaves a device goes through."""
        return self.bridges.get(device, device)


def refused(machine: str, message: str, value: object = None) -> InputError:
    """An error about a script."""
    return InputError([Problem(message, path=machine, value=None if value is None else str(value)[:200])])


def commands_of(file: Path) -> Iterator[list[str]]:
    """Words of what the script applies; a line that says more to a shell than its words is refused."""
    text = read_text(file, MAX_BYTES)
    found = re.search(r"^apply_host\(\) \{\n(.*?)^\}$", text, re.MULTILINE | re.DOTALL)
    if found is None or text.count("apply_host() {") != 1:
        raise refused(file.name, "no list of commands")
    for line in found[1].splitlines():
        if not PLAIN.fullmatch(line):
            raise refused(file.name, "not one plain command", line)
        yield line.split()


def read_machine(file: Path, rendering: str) -> Machine:
    """The host of a script.

    Raises:
        InputError: a command that is not understood.
    """
    machine = Machine(file.name.removesuffix(f".{rendering}.sh"))
    for words in commands_of(file):
        try:
            _execute(machine, words)
        except (ValueError, KeyError, IndexError) as error:
            raise refused(machine.name, f"a command that is not understood: {error}", " ".join(words)) from error
    linked = {machine.interface_of(name) for _, name in machine.addresses if name != "lo"}
    if set(machine.root) != linked or set(machine.classes) != linked:
        raise refused(machine.name, "an interface without a rate, or a rate without an address", sorted(linked))
    return machine


def _execute(machine: Machine, words: list[str]) -> None:
    verb, rest = words[0], words[1:]
    if verb == "run":
        return _run(machine, rest)
    if verb == "bridge":
        name, interface = rest
        machine.bridges[name] = interface
    elif verb == "address":
        address, device = rest
        machine.addresses.append((IPv4Interface(address), device))
    elif verb == "vsctl":
        _qos(machine, rest)
    elif verb == "classify":
        interface, address, minor, _ = rest
        machine.filters[interface][IPv4Address(address)] = int(minor, 16) - 1
    elif verb == "setting":
        whole(rest[1])
    else:
        raise ValueError(f"verb {verb}")
    return None


def _run(machine: Machine, words: list[str]) -> None:
    given = Words(words)
    if given.take("ovs-ofctl", "-O", "OpenFlow13", "add-flow"):
        _flow(machine, *given.rest())
    elif given.take("tc", "qdisc", "replace", "dev"):
        interface = given.next()
        given.expect("root", "handle", "7106:", "htb", "default", "1")
        machine.classes[interface] = {}
    elif given.take("tc", "class", "add", "dev"):
        _class(machine, given)
    elif given.take("tc", "filter", "add", "dev"):
        interface = given.next()
        given.expect("parent", "7106:", "protocol", "ip", "prio")
        whole(given.next())
        given.expect("u32", "match", "ip", "dst")
        target = IPv4Network(given.next())
        given.expect("flowid")
        machine.chosen[interface][target.network_address] = _minor(given.next()) - 1
    elif given.take("ip", "route", "replace"):
        _route(machine, given)
    elif given.take("ip", "rule", "add", "from"):
        source = given.next()
        given.expect("lookup")
        table = whole(given.next())
        given.expect("priority", str(table), "protocol", "106")
        machine.rules[table].append(source)
    elif given.take("ip", "link", "set"):
        given.next()
        given.expect("up")
    else:
        raise ValueError(f"program {words[0]}")
    given.end()


def _qos(machine: Machine, words: list[str]) -> None:
    """`set port P qos=@qos -- --id=@qos create qos ... -- --id=@qN create queue ...`."""
    groups: list[list[str]] = []
    for word in words:
        if word == "--":
            groups.append([])
        else:
            groups[-1].append(word)
    (_, _, interface, asked), (identity, *qos), *queues = groups
    if asked != "qos=@qos" or identity != "--id=@qos" or groups[0][:2] != ["set", "port"]:
        raise ValueError("transaction")
    named = {key.removeprefix("queues:"): value for key, value in _pairs(qos[2:]) if key.startswith("queues:")}
    options = dict(_pairs(qos[2:]))
    if options["type"] != "linux-htb" or options["external_ids:owner"] != "topoopt":
        raise ValueError("qos")
    machine.root[interface] = whole(options["other_config:max-rate"])
    made = {}
    for identity, create, table, *rest in queues:
        options = dict(_pairs(rest))
        if (create, table, options["external_ids:owner"]) != ("create", "queue", "topoopt"):
            raise ValueError("queue")
        rates = whole(options["other_config:min-rate"]), whole(options["other_config:max-rate"])
        whole(options["other_config:burst"])
        made[identity.removeprefix("--id=")] = rates
    if len(made) != len(queues) or set(made) != set(named.values()):
        raise ValueError("queues of the QoS")
    machine.classes[interface] = {whole(number): made[name] for number, name in named.items()}


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(word)
        yield key, value


def _flow(machine: Machine, bridge: str, flow: str) -> None:
    form = r"cookie=0x746f706f,priority=200,ip,in_port=LOCAL,nw_dst=([0-9.]+),actions=set_queue:([0-9]+),NORMAL"
    found = re.fullmatch(form, flow)
    if found is None:
        raise ValueError("flow")
    target, interface = IPv4Address(found[1]), machine.bridges[bridge]
    if target in machine.chosen[interface]:
        raise ValueError("a destination with two queues")
    machine.chosen[interface][target] = whole(found[2])


def _minor(text: str) -> int:
    major, _, minor = text.partition(":")
    if major != "7106":
        raise ValueError(text)
    return int(minor, 16)


def _class(machine: Machine, given: Words) -> None:
    interface = given.next()
    given.expect("parent")
    parent = given.next()
    given.expect("classid")
    number = _minor(given.next())
    given.expect("htb", "rate")
    least = whole(given.next().removesuffix("bit"))
    given.expect("ceil")
    most = whole(given.next().removesuffix("bit"))
    for key in ("burst", "cburst"):
        given.expect(key)
        whole(given.next().removesuffix("b"))
    given.expect("quantum")
    whole(given.next())
    given.take("prio", "7")
    if parent == "7106:":
        machine.root[interface] = least
        return
    if _minor(parent) != 0xFFFF or number - 1 in machine.classes[interface]:
        raise ValueError("class")
    machine.classes[interface][number - 1] = least, most


def _route(machine: Machine, given: Words) -> None:
    target = IPv4Network(given.next())
    hops: list[tuple[IPv4Address | None, str, int]] = []
    table = 0
    direct = ""
    while not given.empty():
        word = given.next()
        if word == "table":
            table = whole(given.next())
        elif word == "proto":
            given.expect("106")
        elif word == "src":
            if IPv4Address(given.next()) not in {address.ip for address, _ in machine.addresses}:
                raise ValueError("source address")
        elif word == "dev":
            direct = given.next()
        elif word in ("via", "nexthop"):
            if word == "nexthop":
                given.expect("via")
            via = IPv4Address(given.next())
            given.expect("dev")
            device = given.next()
            hops.append((via, device, whole(given.next()) if given.take("weight") else 1))
        else:
            raise ValueError(word)
    if target in machine.routes[table] or table == 0:
        raise ValueError("route")
    machine.routes[table][target] = hops or [(None, direct, 1)]
