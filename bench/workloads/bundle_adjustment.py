"""ADBench's bundle adjustment, its first size: points seen by cameras.

Of each observation two residuals and one for its weight; the function is their weighted sum, whose gradient is a product with the
transposed Jacobian.

ADBench's files hold one observation, repeated; here it is perturbed by a percent, so that each one differs.
"""

import math

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

CAMERA = np.array([-0.758453, -1.109613, -0.845551, 34.556073, 39.676747, 53.881673, 419.194514, 5.864426, -8.518870, 0.087812,
                   0.002739])          # rotation (3), centre (3), focal length, principal point (2), distortion (2)
POINT, SEEN = np.array([7.203245, 0.001144, 3.023326]), np.array([271.760969, 834.209256])

workload = Workload("bundle adjustment", wrt=("cameras", "points", "weights"), flops=lambda n, m, p: 250 * p,
                    sizes={"ba1": {"n": 49, "m": 7776, "p": 31843}}, tiny={"n": 2, "m": 3, "p": 7})


@workload.inputs
def inputs(rng, n, m, p):
    def around(center, count):
        return center * (1.0 + 0.01 * rng.normal(size=(count, len(center))))
    return {"cameras": around(CAMERA, n), "points": around(POINT, m), "weights": rng.uniform(0.1, 1.0, p),
            "seen": around(SEEN, p), "camera_of": np.arange(p) % n, "point_of": np.arange(p) % m,
            "factors": rng.normal(size=(p, 3))}


@workload.form("adcompile")
def weighted_residuals(cameras, points, weights, seen, camera_of, point_of, factors):
    camera, X = cameras[camera_of], points[point_of]
    r, u = camera[:, :3], X - camera[:, 3:6]
    angle = np.sqrt(np.sum(r ** 2, axis=1, keepdims=True))
    v = r / angle
    cross = np.stack([v[:, 1] * u[:, 2] - v[:, 2] * u[:, 1], v[:, 2] * u[:, 0] - v[:, 0] * u[:, 2],
                      v[:, 0] * u[:, 1] - v[:, 1] * u[:, 0]], axis=1)
    along = np.sum(v * u, axis=1, keepdims=True)
    turned = u * np.cos(angle) + cross * np.sin(angle) + v * along * (1.0 - np.cos(angle))
    p = turned[:, :2] / turned[:, 2:]
    s = np.sum(p ** 2, axis=1, keepdims=True)
    p = p * (1.0 + camera[:, 9:10] * s + camera[:, 10:11] * s ** 2) * camera[:, 6:7] + camera[:, 7:9]
    return np.sum(factors[:, :2] * weights[:, None] * (p - seen)) + np.sum(factors[:, 2] * (1.0 - weights ** 2))


@workload.form("adcompile", variant="loops")
def weighted_residuals_with_loops(cameras, points, weights, seen, camera_of, point_of, factors):
    value = 0.0
    for i in range(weights.shape[0]):
        camera = cameras[camera_of[i]]
        r, u = camera[:3], points[point_of[i]] - camera[3:6]
        angle = np.sqrt(r @ r)
        v = r / angle
        turned = u * np.cos(angle) + np.cross(v, u) * np.sin(angle) + v * (v @ u) * (1.0 - np.cos(angle))
        p = turned[:2] / turned[2]
        s = p @ p
        p = p * (1.0 + camera[9] * s + camera[10] * s ** 2) * camera[6] + camera[7:9]
        value += factors[i, :2] @ (weights[i] * (p - seen[i])) + factors[i, 2] * (1.0 - weights[i] ** 2)
    return value


@workload.form("numba")
@hand
def by_hand(cameras, points, weights, seen, camera_of, point_of, factors):
    g_cameras, g_points, g_weights = np.zeros_like(cameras), np.zeros_like(points), np.empty_like(weights)
    value = 0.0
    for i in range(weights.shape[0]):
        camera, X, w = cameras[camera_of[i]], points[point_of[i]], weights[i]
        u0, u1, u2 = X[0] - camera[3], X[1] - camera[4], X[2] - camera[5]
        angle = math.sqrt(camera[0] * camera[0] + camera[1] * camera[1] + camera[2] * camera[2])
        inverse, c, s = 1.0 / angle, math.cos(angle), math.sin(angle)
        v0, v1, v2, rest = camera[0] * inverse, camera[1] * inverse, camera[2] * inverse, 1.0 - c
        x0, x1, x2 = v1 * u2 - v2 * u1, v2 * u0 - v0 * u2, v0 * u1 - v1 * u0
        along = v0 * u0 + v1 * u1 + v2 * u2
        depth = 1.0 / (u2 * c + x2 * s + v2 * along * rest)
        p0, p1 = (u0 * c + x0 * s + v0 * along * rest) * depth, (u1 * c + x1 * s + v1 * along * rest) * depth
        q = p0 * p0 + p1 * p1
        f, k1, k2 = camera[6], camera[9], camera[10]
        bend = 1.0 + k1 * q + k2 * q * q
        h0, h1 = p0 * bend * f + camera[7] - seen[i, 0], p1 * bend * f + camera[8] - seen[i, 1]
        a, b = factors[i, 0], factors[i, 1]
        value += w * (a * h0 + b * h1) + factors[i, 2] * (1.0 - w * w)
        # back
        g_weights[i] = a * h0 + b * h1 - 2.0 * w * factors[i, 2]
        a, b = a * w, b * w
        dot = a * p0 + b * p1
        bend_bar = f * dot
        q_bar = 2.0 * bend_bar * (k1 + 2.0 * k2 * q)
        p0_bar, p1_bar = f * bend * a + p0 * q_bar, f * bend * b + p1 * q_bar
        b0, b1, b2 = p0_bar * depth, p1_bar * depth, -(p0_bar * p0 + p1_bar * p1) * depth
        bv, bu = b0 * v0 + b1 * v1 + b2 * v2, b0 * u0 + b1 * u1 + b2 * u2
        u0_bar = c * b0 + s * (b1 * v2 - b2 * v1) + rest * bv * v0
        u1_bar = c * b1 + s * (b2 * v0 - b0 * v2) + rest * bv * v1
        u2_bar = c * b2 + s * (b0 * v1 - b1 * v0) + rest * bv * v2
        v0_bar = s * (u1 * b2 - u2 * b1) + rest * (along * b0 + bv * u0)
        v1_bar = s * (u2 * b0 - u0 * b2) + rest * (along * b1 + bv * u1)
        v2_bar = s * (u0 * b1 - u1 * b0) + rest * (along * b2 + bv * u2)
        turned_bar = c * (b0 * x0 + b1 * x1 + b2 * x2) - s * (bu - bv * along)
        angle_bar = turned_bar - (v0 * v0_bar + v1 * v1_bar + v2 * v2_bar) * inverse
        g, point = g_cameras[camera_of[i]], g_points[point_of[i]]
        g[0] += v0_bar * inverse + v0 * angle_bar
        g[1] += v1_bar * inverse + v1 * angle_bar
        g[2] += v2_bar * inverse + v2 * angle_bar
        g[3] -= u0_bar
        g[4] -= u1_bar
        g[5] -= u2_bar
        g[6] += bend * dot
        g[7] += a
        g[8] += b
        g[9] += bend_bar * q
        g[10] += bend_bar * q * q
        point[0] += u0_bar
        point[1] += u1_bar
        point[2] += u2_bar
    return value, (g_cameras, g_points, g_weights)


@workload.form("jax")
def with_jax(np):
    import jax

    def one(camera, X, w, seen, factor):
        r, u = camera[:3], X - camera[3:6]
        angle = np.sqrt(r @ r)
        v = r / angle
        turned = u * np.cos(angle) + np.cross(v, u) * np.sin(angle) + v * (v @ u) * (1.0 - np.cos(angle))
        p = turned[:2] / turned[2]
        s = p @ p
        p = p * (1.0 + camera[9] * s + camera[10] * s ** 2) * camera[6] + camera[7:9]
        return factor[:2] @ (w * (p - seen)) + factor[2] * (1.0 - w ** 2)

    def weighted_residuals(cameras, points, weights, seen, camera_of, point_of, factors):
        return np.sum(jax.vmap(one)(cameras[camera_of], points[point_of], weights, seen, factors))
    return weighted_residuals


@workload.form("torch", "torch_compile")
def with_torch(torch):
    def weighted_residuals(cameras, points, weights, seen, camera_of, point_of, factors):
        camera, X = cameras[camera_of], points[point_of]
        r, u = camera[:, :3], X - camera[:, 3:6]
        angle = torch.sqrt(torch.sum(r ** 2, 1, keepdim=True))
        v = r / angle
        along = torch.sum(v * u, 1, keepdim=True)
        turned = u * torch.cos(angle) + torch.linalg.cross(v, u) * torch.sin(angle) + v * along * (1.0 - torch.cos(angle))
        p = turned[:, :2] / turned[:, 2:]
        s = torch.sum(p ** 2, 1, keepdim=True)
        p = p * (1.0 + camera[:, 9:10] * s + camera[:, 10:11] * s ** 2) * camera[:, 6:7] + camera[:, 7:9]
        return torch.sum(factors[:, :2] * weights[:, None] * (p - seen)) + torch.sum(factors[:, 2] * (1.0 - weights ** 2))
    return weighted_residuals


@workload.form("casadi", "casadi_c")
def with_casadi(ca, cameras, points, weights, seen, camera_of, point_of, factors):
    """One observation in scalar operations, mapped; cameras and points are picked by products with sparse matrices."""
    camera, X, w, at, factor = (ca.SX.sym(name, size) for name, size in (("c", 11), ("X", 3), ("w", 1), ("at", 2), ("f", 3)))
    r, u = camera[:3], X - camera[3:6]
    angle = ca.norm_2(r)
    v = r / angle
    turned = u * ca.cos(angle) + ca.cross(v, u) * ca.sin(angle) + v * ca.dot(v, u) * (1 - ca.cos(angle))
    p = turned[:2] / turned[2]
    s = ca.sumsqr(p)
    p = p * (1 + camera[9] * s + camera[10] * s ** 2) * camera[6] + camera[7:9]
    value = ca.dot(factor[:2], w * (p - at)) + factor[2] * (1 - w ** 2)
    count = len(camera_of)
    each = ca.Function("observation", [camera, X, w, at, factor], [value, *(ca.gradient(value, s) for s in (camera, X, w))])

    def picked(rows, of):
        return ca.DM.triplet(of.tolist(), range(count), ca.DM.ones(count), rows, count)

    one, other = picked(cameras.shape[0], camera_of), picked(points.shape[0], point_of)
    values, g_cameras, g_points, g_weights = each.map(count)(
        ca.mtimes(cameras.T, one), ca.mtimes(points.T, other), weights.T, seen.T, factors.T)
    return ca.sum2(values), [ca.mtimes(one, g_cameras.T), ca.mtimes(other, g_points.T), g_weights.T]
