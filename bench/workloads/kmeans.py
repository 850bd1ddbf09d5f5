"""k-means: the distance of every point to its nearest centroid, squared and summed."""

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("k-means", wrt=("centroids",), flops=lambda k, n, d: 3 * n * k * d,
                    sizes={f"k={k} n={n} d={d}": {"k": k, "n": n, "d": d} for k, n, d in ((10, 1000, 8), (100, 10_000, 16))},
                    tiny={"k": 3, "n": 9, "d": 2})


@workload.inputs
def inputs(rng, k, n, d):
    points = rng.random((n, d))
    return {"centroids": points[-k:] + 0.01, "points": points}


@workload.form("adcompile")
def cost(centroids, points):
    distances = np.sum((points[:, None, :] - centroids) ** 2, axis=2)
    return np.sum(np.min(distances, axis=1))


@workload.form("numba")
@hand
def by_hand(centroids, points):
    (n, d), k = points.shape, centroids.shape[0]
    g = np.zeros((k, d))
    value = 0.0
    for i in range(n):
        smallest, nearest = np.inf, 0
        for j in range(k):
            distance = 0.0
            for c in range(d):
                distance += (points[i, c] - centroids[j, c]) ** 2
            if distance < smallest:
                smallest, nearest = distance, j
        value += smallest
        for c in range(d):
            g[nearest, c] += 2.0 * (centroids[nearest, c] - points[i, c])
    return value, g


@workload.form("jax", "autograd", "torch", "pytensor")
@workload.form("torch_compile", sizes=("k=100 n=10000 d=16", "tiny"))
def with_arrays(np):
    least = np.amin if hasattr(np, "amin") else np.min

    def cost(centroids, points):
        distances = np.sum((points[:, None, :] - centroids[None]) ** 2, 2)
        return np.sum(least(distances, 1))
    return cost
