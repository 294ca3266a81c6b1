"""Files that name the real hosts behind the servers of a solution."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import Field

from topoopt.core.cluster import HostSetting, LinkSetting
from topoopt.files.fields import MAX_SERVERS, FileModel, Label, SchemaVersion
from topoopt.files.findings import read_checked

MAX_LINKS = 64


class LinkSettingFile(FileModel):
    """A link of a host."""

    interface: Label | None = Field(default=None, description="of the network; default: the link of the solution")
    bridge: Label | None = Field(default=None, description="of Open vSwitch; default: br- and the interface")
    address: Label | None = Field(default=None, description="IPv4 and prefix length, 10.1.0.1/24")


class HostSettingFile(FileModel):
    """A host."""

    server: Label = Field(description="its name in the solution")
    name: Label | None = Field(default=None, description="of the host and its scripts; default: server")
    address: Label | None = Field(default=None, description="IPv4, reached over all its links")
    links: Annotated[list[LinkSettingFile], Field(max_length=MAX_LINKS)] = Field(
        default=[], description="all of them, in the order of the solution"
    )


class HostsFile(FileModel):
    """Names, interfaces and addresses of real hosts; what is not said is a default."""

    schema_version: SchemaVersion
    kind: Literal["hosts"]
    hosts: Annotated[list[HostSettingFile], Field(max_length=MAX_SERVERS)]


def read_hosts(path: str | os.PathLike[str]) -> tuple[HostSetting, ...]:
    """Settings of the servers that the file names; whether they fit a solution is for the exporter to say.

    Raises:
        InputError: everything wrong with the file.
    """
    file = read_checked(path, HostsFile)
    return tuple(
        HostSetting(
            host.server,
            host.name,
            host.address,
            tuple(LinkSetting(link.interface, link.bridge, link.address) for link in host.links),
        )
        for host in file.hosts
    )
