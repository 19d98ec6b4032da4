"""Schemas as clients of OpenAI's API send them: pydantic's and msgspec's of ordinary models, OpenAI's strict form of
these, zod's two writers, OpenAPI's and LangChain's. Needs pydantic; msgspec, openai and email-validator are optional."""
import datetime
import decimal
import enum
import ipaddress
import uuid
from typing import Annotated, Any, Dict, FrozenSet, Generic, List, Literal, Optional, Set, Tuple, TypeVar, Union

import pydantic
from pydantic import BaseModel, ConfigDict, Field


class Color(str, enum.Enum):
    RED = "red"
    GREEN = "green"


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Mixed(enum.Enum):
    TEXT = "a"
    NUMBER = 2
    NOTHING = None


class Address(BaseModel):
    street: str
    zip: Annotated[str, Field(pattern=r"^\d{5}$")]
    country: Optional[str] = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(BaseModel):
    kind: Literal["dog", "wolf"]
    color: Optional[Color] = None


class Tree(BaseModel):
    value: int
    children: List["Tree"] = []


class Node(BaseModel):
    name: str
    next: Optional["Node"] = None


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int
    b: str = "x"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = Field(alias="firstNumber", description="The first number", examples=[1])


class Basic(BaseModel):
    whole: int
    number: float
    truth: bool
    text: str
    nothing: None
    numbers: List[int]
    by_name: Dict[str, float]
    pair: Tuple[int, str]
    colors: Set[Color]
    literal: Literal["a", 1, True, None]
    either: Union[int, str, List[str]]
    anything: Any


class Formats(BaseModel):
    date: datetime.date
    moment: datetime.datetime
    time: datetime.time
    span: datetime.timedelta
    id: uuid.UUID
    id4: pydantic.UUID4
    amount: decimal.Decimal
    url: pydantic.HttpUrl
    ip4: ipaddress.IPv4Address
    ip6: ipaddress.IPv6Address
    ip: pydantic.IPvAnyAddress
    raw: bytes
    password: pydantic.SecretStr
    file: pydantic.FilePath


class Limits(BaseModel):
    a: Annotated[int, Field(gt=0, lt=100)]
    b: Annotated[float, Field(ge=-1.5, le=2.5)]
    c: Annotated[str, Field(min_length=2, max_length=5)]
    d: Annotated[List[int], Field(min_length=1, max_length=3)]
    e: Annotated[int, Field(multiple_of=5)]
    f: Annotated[decimal.Decimal, Field(max_digits=5, decimal_places=2)]
    g: Annotated[str, Field(pattern="^[A-Z]{2}[0-9]+$")]
    h: Annotated[float, Field(multiple_of=0.01)]
    i: Dict[Annotated[str, Field(pattern="^x-")], int]
    j: Dict[Color, int]
    k: Dict[Literal["p", "q"], str]
    m: FrozenSet[Literal[1, 2, 3]]
    n: Annotated[Dict[str, int], Field(min_length=1, max_length=2)]


class Pets(BaseModel):
    pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")]
    pets: List[Annotated[Union[Cat, Dog], Field(discriminator="kind")]]


class Nested(BaseModel):
    home: Address
    others: Dict[str, List[Address]]
    either: Union[Address, Cat, None]
    number: Number
    mixed: Mixed
    color: Color = Color.RED
    tree: Tree
    node: Node
    closed: Closed
    open: Open


T = TypeVar("T")


class Response(BaseModel, Generic[T]):
    data: T
    error: Optional[str] = None


MODELS = [Address, Cat, Dog, Tree, Node, Closed, Open, Basic, Formats, Limits, Pets, Nested, Response[List[Address]]]

OTHERS = {
    "OpenAI's example of a user": {
        "type": "object", "additionalProperties": False, "required": ["name", "username", "email", "temperature", "unit"], "properties": {
            "name": {"type": "string", "description": "The name of the user"}, "username": {"type": "string", "pattern": "^@[a-zA-Z0-9_]+$"},
            "email": {"type": "string", "format": "email"}, "temperature": {"type": ["number", "null"], "minimum": -130, "maximum": 130},
            "unit": {"type": ["string", "null"], "enum": ["F", "C", None]}}},
    "OpenAI's example of a page": {
        "type": "object", "additionalProperties": False, "required": ["type", "label", "children"], "properties": {
            "type": {"type": "string", "enum": ["div", "button", "form"]}, "label": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#"}}}},
    "zod 3": {
        "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/mine", "definitions": {"mine": {
            "type": "object", "additionalProperties": False, "required": ["text", "either"], "properties": {
                "text": {"type": "string", "minLength": 5}, "either": {"type": ["number", "boolean"]},
                "maybe": {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
                                    {"type": "null"}]},
                "record": {"type": "object", "additionalProperties": {"type": "number"}}, "again": {"$ref": "#/definitions/mine/properties/maybe"},
                "pair": {"type": "array", "minItems": 2, "maxItems": 2, "items": [{"type": "string"}, {"type": "number"}]}}}}},
    "zod 4": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
        "required": ["email", "ip", "int", "record", "choices"], "properties": {
            "email": {"type": "string", "format": "email", "pattern":
                      "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"},
            "ip": {"type": "string", "format": "ipv4", "pattern": "^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\\.){3}"
                   "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])$"},
            "id": {"type": "string", "format": "cuid", "pattern": "^[cC][^\\s-]{8,}$"},
            "int": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
            "record": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}},
            "choices": {"type": "object", "propertyNames": {"type": "string", "enum": ["a", "b"]}, "additionalProperties": {"type": "number"},
                        "required": ["a", "b"]}}},
    "OpenAPI 3.0": {
        "type": "object", "required": ["id", "name"], "xml": {"name": "x"}, "components": {"schemas": {"Cat": {
            "type": "object", "properties": {"x": {"type": "string"}}}}}, "properties": {
                "id": {"type": "integer", "format": "int64", "example": 10}, "name": {"type": "string", "nullable": True},
                "price": {"type": "number", "format": "float"}, "password": {"type": "string", "format": "password"},
                "raw": {"type": "string", "format": "byte"}, "cat": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/Cat"}]},
                "status": {"type": "string", "enum": ["a", "b"], "default": "a"}}},
    "a tool of LangChain": {
        "title": "multiply", "description": "Multiplies.", "type": "object", "required": ["a", "b"], "properties": {
            "a": {"title": "A", "type": "integer"}, "b": {"title": "B", "type": "integer"}}},
    "a form with conditions": {
        "type": "object", "required": ["country"], "properties": {"country": {"enum": ["US", "CA"]}, "zip": {"type": "string"}},
        "if": {"properties": {"country": {"const": "US"}}}, "then": {"properties": {"zip": {"pattern": "^[0-9]{5}$"}}},
        "else": {"properties": {"zip": {"pattern": "^[A-Z][0-9]$"}}}, "dependentRequired": {"zip": ["country"]}},
}


def schemas():
    """Pairs (name, schema)."""
    for model in MODELS:
        for mode in ("validation", "serialization"):
            yield f"pydantic's of {model.__name__}, {mode}", model.model_json_schema(mode=mode)
    try:
        from openai.lib._pydantic import to_strict_json_schema
        for model in MODELS:
            yield f"openai's of {model.__name__}", to_strict_json_schema(model)
    except ImportError:
        pass
    try:
        import msgspec

        class Point(msgspec.Struct, tag="point"):
            x: int
            name: Annotated[str, msgspec.Meta(pattern="^a", max_length=4)] = "a"
            times: Optional[List[datetime.datetime]] = None

        class Line(msgspec.Struct, tag="line"):
            ends: Tuple[Point, Point]
            widths: Dict[str, float] = {}
        yield "msgspec's", msgspec.json.schema(Union[Point, Line])
    except ImportError:
        pass
    yield from OTHERS.items()
