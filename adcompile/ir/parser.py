"""Reads the text form of the graph IR (see printer.py). Raises `ParseError` naming the line."""

from __future__ import annotations

import ast
import re
from types import MappingProxyType
from typing import Any

import numpy as np

from .core import RELATIONS, ArrayConstant, Block, Function, Guard, Literal, Location, Operand, Operation, Size, Value
from .dims import Dim
from .op import literal_like
from .types import DType, Type

HEAD = re.compile(r"func @(?P<name>.*?)\((?P<params>.*)\) \{$")
SIZE = re.compile(r"size (?P<symbol>\w+) = (?:axis (?P<axis>\d+)|value) of %(?P<parameter>.+)$")
GUARD = re.compile(r"guard (?P<left>.*) (?P<relation>==|!=|<=|<|>=|>) (?P<right>.*)$")
OPERATION = re.compile(r"(?:(?P<results>%.*?) = )?(?P<op>\w+)(?P<operands>(?: [^{]*?)?)(?: \{(?P<attributes>.*?)\})?"
                       r"(?P<opens> do \(.*\) \{)?$")
NEXT_REGION = re.compile(r"\}(?P<opens> do \(.*\) \{)$")
LOCATION = re.compile(r"(?P<line>.*?) +  ?# (?P<file>.*):(?P<number>\d+) in (?P<function>.*)$")
STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
TYPE = re.compile(r"(?P<dtype>\w+)(?:\[(?P<dims>.*)\])?$")
ARRAY = re.compile(r"array\((?P<dtype>\w+), (?P<shape>\(.*?\)), (?:0x(?P<data>[0-9a-f]*)|(?P<entries>\[.*\]))\)$")


class ParseError(ValueError):
    """The text is not IR."""


def parse(text: str) -> Function:
    """The function that the text describes."""
    return Parser(text).function()


class Parser:
    """Reads line by line; `names` are the values defined so far."""

    def __init__(self, text: str) -> None:
        self.lines = [line.strip() for line in text.splitlines()]
        self.at = 0
        self.names: dict[str, Value] = {}

    # ------------------------------------------------------------------------------------------------ lines
    def fail(self, what: str) -> ParseError:
        """The error for the line read last."""
        return ParseError(f"line {self.at}: {what}: {self.lines[self.at - 1] if self.lines else ''}")

    def next(self) -> tuple[str, Location | None]:
        """The next line that is not empty, and the place behind it."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            if line:
                return split_location(line)
        raise self.fail("the text ends too early")

    def function(self) -> Function:
        """The whole function."""
        line, _ = self.next()
        head = HEAD.match(line)
        if head is None:
            raise self.fail("not a function's first line")
        params = self.declarations(head["params"])
        sizes, guards = self.relations(params)
        body = self.block(params, "return")
        if self.next()[0] != "}":
            raise self.fail("the closing brace is missing")
        return Function(head["name"], body, MappingProxyType(sizes), tuple(guards))

    def relations(self, params: tuple[Value, ...]) -> tuple[dict[str, Size], list[Guard]]:
        """The size and guard lines."""
        sizes: dict[str, Size] = {}
        guards: list[Guard] = []
        while True:
            start = self.at
            line, location = self.next()
            size, guard = SIZE.match(line), GUARD.match(line)
            if size is not None:
                parameter = [p.name for p in params].index(size["parameter"])
                sizes[size["symbol"]] = Size(parameter, None if size["axis"] is None else int(size["axis"]))
            elif guard is not None and guard["relation"] in RELATIONS:
                guards.append(Guard(self.dim(guard["left"]), guard["relation"], self.dim(guard["right"]), location))
            else:
                self.at = start
                return sizes, guards

    def block(self, arguments: tuple[Value, ...], terminator: str) -> Block:
        """Operations up to the terminator."""
        operations: list[Operation] = []
        while True:
            line, location = self.next()
            if line.split(" ")[0] == terminator:
                return Block(arguments, tuple(operations), self.operands(line.removeprefix(terminator).strip()))
            operations.append(self.operation(line, location))

    def operation(self, line: str, location: Location | None) -> Operation:
        """One operation, with its regions."""
        match = OPERATION.match(line)
        if match is None:
            raise self.fail("not an operation")
        operands = self.operands(match["operands"].strip())
        attributes = self.attributes(match["attributes"] or "")
        regions = self.regions(match["opens"])
        results = self.declarations(match["results"] or "")
        return Operation(match["op"], operands, results, MappingProxyType(attributes), regions, location)

    def regions(self, opens: str | None) -> tuple[Block, ...]:
        """The regions, from the end of an operation's line on."""
        found: list[Block] = []
        while opens is not None:
            arguments = self.declarations(opens.removeprefix(" do (").removesuffix(") {"))
            found.append(self.block(arguments, "yield"))
            line, _ = self.next()
            another = NEXT_REGION.match(line)
            if another is None and line != "}":
                raise self.fail("a region must end with its yield")
            opens = another["opens"] if another is not None else None
        return tuple(found)

    # ------------------------------------------------------------------------------------------------ parts of a line
    def declarations(self, text: str) -> tuple[Value, ...]:
        """Values where they are defined: `%x: f64[X_0], %k: i64`."""
        found = []
        for part in split_commas(text):
            name, colon, type_text = part.partition(": ")
            if not colon or not name.startswith("%"):
                raise self.fail(f"{part!r} does not declare a value")
            value = Value(name[1:], self.type(type_text))
            self.names[value.name] = value
            found.append(value)
        return tuple(found)

    def type(self, text: str) -> Type:
        """A type."""
        match = TYPE.match(text)
        if match is None or match["dtype"] not in DType.__members__:
            raise self.fail(f"{text!r} is not a type")
        return Type(DType[match["dtype"]], tuple(map(self.dim, split_commas(match["dims"] or ""))))

    def dim(self, text: str) -> Dim:
        """A size."""
        try:
            return Dim.parse(text)
        except (SyntaxError, ValueError) as error:
            raise self.fail(f"{text!r} is not a size") from error

    def operands(self, text: str) -> tuple[Operand, ...]:
        """Names and numbers."""
        return tuple(map(self.operand, split_commas(text)))

    def operand(self, text: str) -> Operand:
        """A name or a number."""
        if text.startswith("%"):
            if text[1:] not in self.names:
                raise self.fail(f"{text} is not defined")
            return self.names[text[1:]]
        number, colon, dtype = text.partition(":")
        value = self.number(number)
        if colon and dtype not in DType.__members__:
            raise self.fail(f"{dtype!r} is not an element type")
        if colon:
            return literal_like(value, DType[dtype])
        plain = {bool: DType.bool, int: DType.i64, float: DType.f64, complex: DType.c128}[type(value)]
        return Literal(value, plain)

    def number(self, text: str) -> Any:
        """A Python number, inf and nan included."""
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            try:
                return complex(text) if "j" in text else float(text)
            except ValueError as error:
                raise self.fail(f"{text!r} is not a number") from error
        if not isinstance(value, (bool, int, float, complex)):
            raise self.fail(f"{text!r} is not a number")
        return value

    def attributes(self, text: str) -> dict[str, Any]:
        """`key=value, ...`"""
        found = {}
        for part in split_commas(text):
            key, _, value = part.partition("=")
            found[key] = self.attribute(value)
        return found

    def attribute(self, text: str) -> Any:
        """The value of an attribute."""
        if text.startswith("<"):
            return self.dim(text[1:-1])
        if text.startswith("["):
            return tuple(map(self.dim, split_commas(text[1:-1])))
        if text.startswith("("):
            return tuple(map(self.attribute, split_commas(text[1:-1])))
        if text.startswith("array("):
            return self.constant(text)
        if text in DType.__members__:
            return DType[text]
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return self.number(text)

    def constant(self, text: str) -> ArrayConstant:
        """An array, written out or as bytes."""
        match = ARRAY.match(text)
        if match is None or match["dtype"] not in DType.__members__:
            raise self.fail(f"{text!r} is not an array")
        dtype, shape = DType[match["dtype"]], ast.literal_eval(match["shape"])
        if match["data"] is not None:
            return ArrayConstant(dtype, shape, bytes.fromhex(match["data"]))
        return ArrayConstant(dtype, shape, np.array(ast.literal_eval(match["entries"]), dtype.numpy).tobytes())


def split_location(line: str) -> tuple[str, Location | None]:
    """A line without the place behind it, and the place."""
    match = LOCATION.match(line)
    if match is None:
        return line, None
    return match["line"], Location(match["file"], int(match["number"]), match["function"])


def split_commas(text: str) -> list[str]:
    """The parts between commas that are in no bracket and no string; an empty last part is left out."""
    parts, depth, start = [], 0, 0
    outside = STRING.sub(lambda match: "_" * len(match[0]), text)
    for k, character in enumerate(outside):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
