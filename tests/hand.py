"""ADBench's hand tracking in plain loops: a hand of 22 bones is posed by 26 parameters, its skin follows the bones, and points
belong to vertices of the skin (simple) or to places on its triangles (complicated). The model is the one in `bench/data/hand`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

MODEL = Path(__file__).parents[1] / "bench" / "data" / "hand"
DATA = Path(__file__).parent / "data" / "hand"
FINGERS = 5


def model() -> dict[str, Any]:
    """Bones and skin."""
    bones = [line.split(":") for line in (MODEL / "bones.txt").read_text().splitlines() if line]
    vertices = [line.split(":") for line in (MODEL / "vertices.txt").read_text().splitlines() if line]
    skin = np.zeros((len(vertices), len(bones)))
    for row, line in zip(skin, vertices, strict=True):
        for k in range(int(line[8])):
            row[int(line[9 + 2 * k])] = float(line[10 + 2 * k])
    matrices = np.array([line[2:] for line in bones], dtype=float).reshape(-1, 2, 4, 4)
    return {"parents": np.array([int(line[1]) for line in bones]),
            "base": matrices[:, 0].copy(), "inverse": matrices[:, 1].copy(),
            "rest": np.array([[*line[:3], 1.0] for line in vertices], dtype=float), "skin": skin}


def problem(kind: str) -> dict[str, Any]:
    """The arguments of an objective (but for the weights of its residuals)."""
    count, *numbers = (DATA / f"{kind}.txt").read_text().split()
    values = np.array(numbers[1:], dtype=float)
    points, rest = values[: 4 * int(count)].reshape(-1, 4), values[4 * int(count):]
    found = {"theta": rest[-26:], **model(), "points": points[:, 1:].copy()}
    places = points[:, 0].astype(int)
    if kind == "simple":
        return {**found, "vertices": places}
    triangles = np.loadtxt(MODEL / "triangles.txt", dtype=int, delimiter=":")
    return {"places": rest[:-26].reshape(-1, 2), **found, "corners": triangles[places]}


def golden(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """ADBench's residuals and their Jacobian."""
    found = json.loads((DATA / f"{kind}.json").read_text())
    return np.array(found["objective"]), np.array(found["jacobian"])


def simple(theta: Any, parents: Any, base: Any, inverse: Any, rest: Any, skin: Any, points: Any, vertices: Any,
           weights: Any) -> Any:
    """The weighted sum of the residuals of points at vertices."""
    bones = posed(theta, parents, base)
    total = 0.0
    for i in range(len(points)):
        place = vertex(vertices[i], theta, bones, inverse, rest, skin)
        for a in range(3):
            total += weights[i, a] * (points[i, a] - place[a])
    return total


def complicated(places: Any, theta: Any, parents: Any, base: Any, inverse: Any, rest: Any, skin: Any, points: Any, corners: Any,
                weights: Any) -> Any:
    """The weighted sum of the residuals of points at places on triangles."""
    bones = posed(theta, parents, base)
    total = 0.0
    for i in range(len(points)):
        shares = [places[i, 0], places[i, 1], 1.0 - places[i, 0] - places[i, 1]]
        for a in range(3):
            total += weights[i, a] * points[i, a]
        for corner in range(3):
            place = vertex(corners[i, corner], theta, bones, inverse, rest, skin)
            for a in range(3):
                total -= weights[i, a] * shares[corner] * place[a]
    return total


def posed(theta: Any, parents: Any, base: Any) -> Any:
    """Where each bone is, from the wrist outwards."""
    angles = np.zeros((len(parents), 2))
    for finger in range(FINGERS):
        first, bone = 6 + 4 * finger, 2 + 4 * finger
        angles[bone] = theta[first], theta[first + 1]
        for joint in range(1, 3):
            angles[bone + joint, 0] = theta[first + joint + 1]
    bones = np.zeros((len(parents), 4, 4))
    for i in range(len(parents)):
        own = base[i] @ bent(angles[i, 0], angles[i, 1])
        if parents[i] < 0:
            bones[i] = own
        else:
            bones[i] = bones[parents[i]] @ own
    return bones


def bent(x: Any, z: Any) -> Any:
    """A turn about the x axis, then about the z axis."""
    sx, cx, sz, cz = np.sin(x), np.cos(x), np.sin(z), np.cos(z)
    return np.array([[cz, -sz * cx, sz * sx, 0.0], [sz, cz * cx, -cz * sx, 0.0], [0.0, sx, cx, 0.0], [0.0, 0.0, 0.0, 1.0]])


def vertex(v: Any, theta: Any, bones: Any, inverse: Any, rest: Any, skin: Any) -> Any:
    """Where a vertex of the skin is."""
    place = np.zeros(3)
    for b in range(len(bones)):
        if skin[v, b] != 0.0:
            place += skin[v, b] * (bones[b] @ (inverse[b] @ rest[v]))[:3]
    return turned(theta[:3], place) + theta[3:6]


def turned(r: Any, p: Any) -> Any:
    """p turned about the axis r by its length."""
    angle = np.sqrt(r @ r)
    if angle < 1e-4:
        return p
    u = r / angle
    return p * np.cos(angle) + np.cross(u, p) * np.sin(angle) + u * (u @ p) * (1.0 - np.cos(angle))
