"""Shape of the sections `topology` and `demand`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, SerializerFunctionWrapHandler, Strict, Tag, model_serializer

from topoopt.files.fields import MAX_SERVERS, FileModel, Seed
from topoopt.files.file_part import is_none
from topoopt.files.topology_families import FAMILIES
from topoopt.files.topology_named import DISTANCE_REGULAR
from topoopt.workloads.demand_matrices import DEMAND_FAMILIES

MAX_LINKS = 64 * MAX_SERVERS
Server = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
Servers = Annotated[int, Field(ge=2, le=MAX_SERVERS)]
Degree = Annotated[int, Field(ge=1, le=MAX_SERVERS)]
Hops = Annotated[int, Field(ge=1, le=MAX_SERVERS)]
Amount = Annotated[float, Field(ge=0, le=1e12)]
Capacity = Annotated[float, Field(ge=1e-9, le=1e15)]
RateAttribute = Annotated[str, Field(min_length=1, max_length=200)] | None
RATE_ATTRIBUTE: Any = Field(
    default=None,
    exclude_if=is_none,
    description="attribute or column of links that is their rate; default: the one with a usual name (capacity, ...)",
)
# A row is a list in the file and a tuple once read; what is in it stays strict.
ArcRow = Annotated[tuple[Server, Server], Strict(False)]
ArcRows = Annotated[list[ArcRow], Field(max_length=MAX_LINKS)]
_FAMILY_KEYS = "; ".join(f"{family.name}: {', '.join(family.needs)}" for family in FAMILIES.values())


LATER_KEYS = frozenset(
    {"loops", "graph", "modulus", "order", "twist", "generators", "of", "times", "copies", "factors"}
)
"""Of families, added after instances of others had been solved."""


class FamilyTopology(FileModel):
    """A topology by the name of its family."""

    family: str = Field(description=f"what each family needs: {_FAMILY_KEYS}", json_schema_extra={"enum": [*FAMILIES]})
    servers: Servers | None = Field(default=None, description="n")
    degree: Degree | None = Field(default=None, description="d, links of a server")
    dims: Annotated[list[Servers], Field(min_length=1, max_length=12)] | None = Field(
        default=None, description="servers along each axis of a torus; an axis of two has one link, not two"
    )
    dimension: int | None = Field(default=None, ge=1, le=12, description="of a hypercube")
    sides: Annotated[list[Annotated[int, Field(ge=1, lt=MAX_SERVERS)]], Field(min_length=2, max_length=2)] | None = (
        Field(default=None, description="servers on the two sides of a complete bipartite graph")
    )
    offsets: Annotated[list[Server], Field(min_length=1, max_length=MAX_SERVERS)] | None = Field(
        default=None, description="ring distances of a circulant; repeated ones are parallel links"
    )
    links: Literal["bidirectional", "unidirectional"] | None = Field(
        default=None, description="fibre pairs (default where the family allows it) or single fibres"
    )
    seed: Seed | None = Field(default=None, description="of a random regular graph; default: 0")
    loops: Literal["joined", "dropped"] | None = Field(
        default=None,
        description="links of a server to itself in Kautz and de Bruijn graphs: led round a ring of such servers "
        "(default), or left out",
    )
    graph: str | None = Field(
        default=None, description="name of a distance-regular graph", json_schema_extra={"enum": [*DISTANCE_REGULAR]}
    )
    modulus: int | None = Field(
        default=None, ge=1, le=MAX_SERVERS, description="m of the group Z_m x| Z_k of a Cayley or Haar graph"
    )
    order: int | None = Field(default=None, ge=1, le=MAX_SERVERS, description="k of it")
    twist: int | None = Field(default=None, ge=0, le=MAX_SERVERS, description="r of it, r^k = 1 modulo m")
    generators: Annotated[list[Server], Field(min_length=1, max_length=MAX_SERVERS)] | None = Field(
        default=None, description="of it: numbers k a + b of elements (a, b)"
    )
    of: FamilyTopology | None = Field(default=None, description="the smaller topology that is expanded")
    times: int | None = Field(default=None, ge=1, le=12, description="line graphs of line graphs; default: 1")
    copies: int | None = Field(default=None, ge=2, le=MAX_SERVERS, description="of every server")
    factors: Annotated[list[FamilyTopology], Field(min_length=2, max_length=12)] | None = Field(
        default=None, description="of a Cartesian product"
    )

    @model_serializer(mode="wrap")
    def _without_later_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out those of LATER_KEYS that are not given, so that instances without them keep their identity."""
        return {key: value for key, value in dump(self).items() if value is not None or key not in LATER_KEYS}


class LinksTopology(FileModel):
    """A topology link by link."""

    links: ArcRows = Field(min_length=1, description="pairs of servers; a repeated pair is a parallel link")
    directed: bool = Field(default=True, description="false: every pair stands for a link in both directions")
    servers: Servers | None = Field(default=None, description="n; default: the highest number in use, plus one")
    capacities: Annotated[list[Capacity], Field(max_length=MAX_LINKS)] | None = Field(
        default=None,
        exclude_if=is_none,
        description="of each of links, in the unit of the demand; default: 1 each",
    )
    degree: Degree | None = Field(default=None, description="most links out of, and into, a server; default: unchecked")


class FileTopology(FileModel):
    """A topology from a file: GraphML (.graphml), node-link JSON (.json), or a table of links (.csv, .txt)."""

    file: str = Field(min_length=1, max_length=1000, description="relative to the folder of this file")
    directed: bool | None = Field(default=None, description="default: what the file says; a list of links is directed")
    rate_attribute: RateAttribute = RATE_ATTRIBUTE
    servers: Servers | None = Field(default=None, description="n; default: what the file says")
    degree: Degree | None = Field(default=None, description="most links out of, and into, a server; default: unchecked")


UNIT = "capacity of one link (a unit of capacity where links have capacities), or Gbit/s"


class FamilyDemand(FileModel):
    """A generated demand."""

    family: str = Field(json_schema_extra={"enum": [*DEMAND_FAMILIES]})
    seed: Seed = Field(default=0, description="of the generator; nothing to do with the seed of the search")
    scale: float = Field(default=1.0, gt=0, le=1e12, description="mean demand of an ordered pair")
    unit: Literal["link", "gbps"] = Field(default="link", description=UNIT)


class MatrixDemand(FileModel):
    """A demand matrix in the file."""

    matrix: Annotated[list[Annotated[list[Amount], Field(max_length=MAX_SERVERS)]], Field(max_length=MAX_SERVERS)] = (
        Field(description="row i, column j: what server i sends to server j")
    )
    unit: Literal["link", "gbps"] = Field(default="link", description=UNIT)


class FileDemand(FileModel):
    """A demand matrix from a file: .csv, .npy or .parquet."""

    file: str = Field(min_length=1, max_length=1000, description="relative to the folder of this file")
    unit: Literal["link", "gbps"] = Field(default="link", description=UNIT)


def topology_shape(value: object) -> str:
    """Which shape of a topology is meant; the answer names the class."""
    if isinstance(value, FamilyTopology | LinksTopology | FileTopology):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "file" in keys and "family" not in keys:
        return "FileTopology"
    # `links` is a list of pairs here, and a word beside `family`.
    return "LinksTopology" if isinstance(value, dict) and "family" not in keys and "links" in keys else "FamilyTopology"


def demand_shape(value: object) -> str:
    """Which shape of a demand is meant; the answer names the class."""
    if isinstance(value, FamilyDemand | MatrixDemand | FileDemand):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "family" in keys:
        return "FamilyDemand"
    return "MatrixDemand" if "matrix" in keys else "FileDemand" if "file" in keys else "FamilyDemand"


TopologySection = Annotated[
    Annotated[FamilyTopology, Tag("FamilyTopology")]
    | Annotated[LinksTopology, Tag("LinksTopology")]
    | Annotated[FileTopology, Tag("FileTopology")],
    Discriminator(topology_shape),
]


DemandSection = Annotated[
    Annotated[FamilyDemand, Tag("FamilyDemand")]
    | Annotated[MatrixDemand, Tag("MatrixDemand")]
    | Annotated[FileDemand, Tag("FileDemand")],
    Discriminator(demand_shape),
]
