"""ADBench's hand tracking, the complicated objective on the small model.

A hand of 22 bones is posed by 26 parameters, its skin follows the bones, and each measured point belongs to a place on a triangle
of the skin that two more parameters say. The function is the residuals' weighted sum, whose gradient is a product with the
transposed Jacobian.
"""

import math
from pathlib import Path

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

DATA = Path(__file__).parents[1] / "data" / "hand"

workload = Workload("hand tracking", wrt=("theta", "places"), flops=lambda count: 22 * 3 * 130 + count * 3 * 120,
                    sizes={"100 points": {"count": 100}}, tiny={"count": 3})


@workload.inputs
def inputs(rng, count):
    bones = [line.split(":") for line in (DATA / "bones.txt").read_text().split("\n") if line]
    vertices = [line.split(":") for line in (DATA / "vertices.txt").read_text().split("\n") if line]
    triangles = np.loadtxt(DATA / "triangles.txt", dtype=int, delimiter=":")
    skin = np.zeros((len(vertices), len(bones)))
    for row, line in zip(skin, vertices):
        for bone in range(int(line[8])):
            row[int(line[9 + 2 * bone])] = float(line[10 + 2 * bone])
    numbers = np.array((DATA / "complicated_c100.txt").read_text().split()[2:], dtype=float)
    measured, places, theta = numbers[:400].reshape(100, 4), numbers[400:600].reshape(100, 2), numbers[600:]
    transforms = np.array([line[2:] for line in bones], dtype=float).reshape(-1, 2, 4, 4)
    return {"theta": theta, "places": places[:count], "parents": np.array([int(line[1]) for line in bones]),
            "base": transforms[:, 0].copy(), "inverse": transforms[:, 1].copy(),
            "rest": np.array([[*line[:3], 1.0] for line in vertices], dtype=float), "skin": skin,
            "corners": triangles[measured[:count, 0].astype(int)], "points": measured[:count, 1:].copy(),
            "factors": rng.normal(size=(count, 3))}


def turn(axis_times_angle):
    angle = np.sqrt(np.sum(axis_times_angle ** 2))
    x, y, z = axis_times_angle / angle
    s, c = np.sin(angle), np.cos(angle)
    return np.array([[x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
                     [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
                     [x * z * (1 - c) - y * s, y * z * (1 - c) + x * s, z * z + (1 - z * z) * c]])


def joint(x, z):
    sx, cx, sz, cz = np.sin(x), np.cos(x), np.sin(z), np.cos(z)
    return np.array([[cz, -sz * cx, sz * sx, 0.0], [sz, cz * cx, -cz * sx, 0.0], [0.0, sx, cx, 0.0], [0.0, 0.0, 0.0, 1.0]])


@workload.form("adcompile")
def weighted_residuals(theta, places, parents, base, inverse, rest, skin, corners, points, factors):
    bones = base.shape[0]
    bend, spread = np.zeros(bones), np.zeros(bones)
    for finger in range(5):
        first, bone = 6 + 4 * finger, 2 + 4 * finger
        bend[bone], spread[bone] = theta[first], theta[first + 1]
        bend[bone + 1], bend[bone + 2] = theta[first + 2], theta[first + 3]
    pose = np.zeros((bones, 4, 4))
    pose[0] = base[0]
    for i in range(1, bones):
        pose[i] = pose[parents[i]] @ base[i] @ joint(bend[i], spread[i])
    moves = np.einsum("bij,bjk->bik", pose, inverse)[:, :3]
    skinned = np.einsum("vb,bij,vj->vi", skin, moves, rest)
    vertices = skinned @ turn(theta[:3]).T + theta[3:6]
    first, second, third = vertices[corners[:, 0]], vertices[corners[:, 1]], vertices[corners[:, 2]]
    u, v = places[:, :1], places[:, 1:]
    return np.sum(factors * (points - (u * first + v * second + (1.0 - u - v) * third)))


@hand
def product(a, b, out):
    """4 x 4."""
    for i in range(4):
        for j in range(4):
            out[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j] + a[i, 3] * b[3, j]


@workload.form("numba")
@hand
def by_hand(theta, places, parents, base, inverse, rest, skin, corners, points, factors):
    """Only the vertices that are needed; bones by their weights that are not zero."""
    bones = base.shape[0]
    angles = np.zeros((bones, 2))
    for finger in range(5):
        first, bone = 6 + 4 * finger, 2 + 4 * finger
        angles[bone, 0], angles[bone, 1] = theta[first], theta[first + 1]
        angles[bone + 1, 0], angles[bone + 2, 0] = theta[first + 2], theta[first + 3]
    joints, moves = np.zeros((bones, 4, 4)), np.empty((bones, 4, 4))
    relative, pose = np.empty((bones, 4, 4)), np.empty((bones, 4, 4))
    for i in range(bones):
        sx, cx = math.sin(angles[i, 0]), math.cos(angles[i, 0])
        sz, cz = math.sin(angles[i, 1]), math.cos(angles[i, 1])
        T = joints[i]
        T[0, 0], T[0, 1], T[0, 2] = cz, -sz * cx, sz * sx
        T[1, 0], T[1, 1], T[1, 2] = sz, cz * cx, -cz * sx
        T[2, 1], T[2, 2], T[3, 3] = sx, cx, 1.0
        product(base[i], T, relative[i])
        if parents[i] < 0:
            pose[i] = relative[i]
        else:
            product(pose[parents[i]], relative[i], pose[i])
        product(pose[i], inverse[i], moves[i])
    angle = math.sqrt(theta[0] * theta[0] + theta[1] * theta[1] + theta[2] * theta[2])
    x, y, z, s, c = theta[0] / angle, theta[1] / angle, theta[2] / angle, math.sin(angle), math.cos(angle)
    o = 1.0 - c
    R = np.array([[x * x + (1 - x * x) * c, x * y * o - z * s, x * z * o + y * s],
                  [x * y * o + z * s, y * y + (1 - y * y) * c, y * z * o - x * s],
                  [x * z * o - y * s, y * z * o + x * s, z * z + (1 - z * z) * c]])
    value = 0.0
    g, g_places, R_bar, moves_bar = np.zeros(26), np.zeros_like(places), np.zeros((3, 3)), np.zeros((bones, 4, 4))
    skinned, skinned_bar, shares, along = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for i in range(points.shape[0]):
        shares[0], shares[1], shares[2] = places[i, 0], places[i, 1], 1.0 - places[i, 0] - places[i, 1]
        for a in range(3):
            value += factors[i, a] * points[i, a]
        for corner in range(3):
            vertex = corners[i, corner]
            skinned[:] = 0.0
            for b in range(bones):
                w = skin[vertex, b]
                if w != 0.0:
                    for a in range(3):
                        skinned[a] += w * (moves[b, a, 0] * rest[vertex, 0] + moves[b, a, 1] * rest[vertex, 1]
                                           + moves[b, a, 2] * rest[vertex, 2] + moves[b, a, 3])
            along[corner] = 0.0
            skinned_bar[:] = 0.0
            for a in range(3):
                d = -factors[i, a] * shares[corner]
                moved = theta[3 + a]
                for k in range(3):
                    moved += R[a, k] * skinned[k]
                    R_bar[a, k] += d * skinned[k]
                    skinned_bar[k] += d * R[a, k]
                g[3 + a] += d
                along[corner] -= factors[i, a] * moved
            value += shares[corner] * along[corner]
            for b in range(bones):
                w = skin[vertex, b]
                if w != 0.0:
                    for a in range(3):
                        for k in range(4):
                            moves_bar[b, a, k] += w * skinned_bar[a] * rest[vertex, k]
        g_places[i, 0] = along[0] - along[2]
        g_places[i, 1] = along[1] - along[2]
    pose_bar, relative_bar, joint_bar, part = np.zeros((bones, 4, 4)), np.empty((4, 4)), np.empty((4, 4)), np.empty((4, 4))
    angles_bar = np.zeros((bones, 2))
    for i in range(bones - 1, -1, -1):
        product(moves_bar[i], inverse[i].T, part)
        pose_bar[i] += part
        if parents[i] < 0:
            relative_bar[:] = pose_bar[i]
        else:
            product(pose[parents[i]].T, pose_bar[i], relative_bar)
            product(pose_bar[i], relative[i].T, part)
            pose_bar[parents[i]] += part
        product(base[i].T, relative_bar, joint_bar)
        sx, cx = math.sin(angles[i, 0]), math.cos(angles[i, 0])
        sz, cz = math.sin(angles[i, 1]), math.cos(angles[i, 1])
        B = joint_bar
        angles_bar[i, 0] = sz * (B[0, 1] * sx + B[0, 2] * cx) - cz * (B[1, 1] * sx + B[1, 2] * cx) + B[2, 1] * cx - B[2, 2] * sx
        angles_bar[i, 1] = cz * B[1, 0] - sz * B[0, 0] - cz * (B[0, 1] * cx - B[0, 2] * sx) - sz * (B[1, 1] * cx - B[1, 2] * sx)
    for finger in range(5):
        first, bone = 6 + 4 * finger, 2 + 4 * finger
        g[first], g[first + 1] = angles_bar[bone, 0], angles_bar[bone, 1]
        g[first + 2], g[first + 3] = angles_bar[bone + 1, 0], angles_bar[bone + 2, 0]
    B = R_bar
    xy, xz, yz = B[0, 1] + B[1, 0], B[0, 2] + B[2, 0], B[1, 2] + B[2, 1]
    dx, dy, dz = B[2, 1] - B[1, 2], B[0, 2] - B[2, 0], B[1, 0] - B[0, 1]
    x_bar = o * (2.0 * x * B[0, 0] + y * xy + z * xz) + s * dx
    y_bar = o * (2.0 * y * B[1, 1] + x * xy + z * yz) + s * dy
    z_bar = o * (2.0 * z * B[2, 2] + x * xz + y * yz) + s * dz
    c_bar = (1 - x * x) * B[0, 0] + (1 - y * y) * B[1, 1] + (1 - z * z) * B[2, 2] - x * y * xy - x * z * xz - y * z * yz
    angle_bar = c * (x * dx + y * dy + z * dz) - s * c_bar - (x * x_bar + y * y_bar + z * z_bar) / angle
    g[0], g[1], g[2] = x_bar / angle + x * angle_bar, y_bar / angle + y * angle_bar, z_bar / angle + z * angle_bar
    return value, (g, g_places)


@workload.form("jax")
def with_jax(np):
    """All joints at once; only the vertices that are needed, all by one matrix product."""
    def weighted_residuals(theta, places, parents, base, inverse, rest, skin, corners, points, factors):
        bones = base.shape[0]
        bone, first = 2 + 4 * np.arange(5), 6 + 4 * np.arange(5)
        x = np.zeros(bones).at[bone].set(theta[first]).at[bone + 1].set(theta[first + 2]).at[bone + 2].set(theta[first + 3])
        z = np.zeros(bones).at[bone].set(theta[first + 1])
        sx, cx, sz, cz, zero, one = np.sin(x), np.cos(x), np.sin(z), np.cos(z), np.zeros(bones), np.ones(bones)
        joints = np.array([[cz, -sz * cx, sz * sx, zero], [sz, cz * cx, -cz * sx, zero], [zero, sx, cx, zero],
                           [zero, zero, zero, one]]).transpose(2, 0, 1)
        relative = base @ joints
        pose = np.zeros((bones, 4, 4)).at[0].set(relative[0])
        for i in range(1, bones):
            pose = pose.at[i].set(pose[parents[i]] @ relative[i])
        moves = (pose @ inverse)[:, :3]
        used = corners.ravel()
        blended = (skin[used][:, :, None] * rest[used][:, None, :]).reshape(used.size, -1)
        skinned = blended @ moves.transpose(0, 2, 1).reshape(-1, 3)
        angle = np.sqrt(theta[:3] @ theta[:3])
        x, y, z = theta[:3] / angle
        s, c = np.sin(angle), np.cos(angle)
        R = np.array([[x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
                      [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
                      [x * z * (1 - c) - y * s, y * z * (1 - c) + x * s, z * z + (1 - z * z) * c]])
        vertices = (skinned @ R.T + theta[3:6]).reshape(-1, 3, 3)
        u, v = places[:, :1], places[:, 1:]
        return np.sum(factors * (points - (u * vertices[:, 0] + v * vertices[:, 1] + (1.0 - u - v) * vertices[:, 2])))
    return weighted_residuals


@workload.form("casadi", "casadi_c")
def with_casadi(ca, theta, places, parents, base, inverse, rest, skin, corners, points, factors, symbols="SX", constants=True):
    """Scalar operations, the model folded in."""
    pose = []
    for i, parent in enumerate(parents):
        finger, place = divmod(i - 2, 4)
        relative = ca.SX(base[i])
        if 0 <= finger < 5 and place < 3:
            first = 6 + 4 * finger
            x, z = (theta[first], theta[first + 1]) if place == 0 else (theta[first + 1 + place], ca.SX(0))
            sx, cx, sz, cz = ca.sin(x), ca.cos(x), ca.sin(z), ca.cos(z)
            turn = ca.vertcat(ca.horzcat(cz, -sz * cx, sz * sx), ca.horzcat(sz, cz * cx, -cz * sx), ca.horzcat(0, sx, cx))
            relative = ca.mtimes(relative, ca.sparsify(ca.diagcat(turn, 1)))
        pose.append(relative if parent < 0 else ca.mtimes(pose[parent], relative))
    moves = [ca.mtimes(p, inverse[i])[:3, :] for i, p in enumerate(pose)]
    angle = ca.norm_2(theta[:3])
    x, y, z = ca.vertsplit(theta[:3] / angle)
    s, c = ca.sin(angle), ca.cos(angle)
    R = ca.vertcat(ca.horzcat(x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s),
                   ca.horzcat(x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s),
                   ca.horzcat(x * z * (1 - c) - y * s, y * z * (1 - c) + x * s, z * z + (1 - z * z) * c))
    vertices = {}
    for vertex in np.unique(corners):
        skinned = sum(skin[vertex, b] * ca.mtimes(moves[b], rest[vertex]) for b in np.flatnonzero(skin[vertex]))
        vertices[vertex] = ca.mtimes(R, skinned) + theta[3:6]
    value = 0
    for i, (a, b, c) in enumerate(corners):
        u, v = places[i, 0], places[i, 1]
        value += ca.dot(factors[i], points[i] - (u * vertices[a] + v * vertices[b] + (1 - u - v) * vertices[c]))
    return value
