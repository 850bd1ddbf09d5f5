"""Plain NumPy functions as people write them, each with sample inputs: what the tests and the golden files share.

`CORPUS` maps a name to a `Program`. No function here has control flow that depends on its arguments' values. Nothing
imports adcompile: `tests/oracle.py` gives the right values and gradients.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.special import gammaln, logsumexp, xlogy

Rng = np.random.Generator


@dataclass(frozen=True)
class Program:
    """A function with its sample inputs.

    * `inputs(rng, *size)` makes the arguments; `sizes` lists the sizes to try, at least two, one compiled object for all.
    * `wrt`: what is differentiated, as `compile_grad` takes it.
    * `analytic`: whether the complex step gives the derivative (no abs, max, comparison, or real-only function).
    * `rtol`: what the gradient can be held to, against the oracle.
    """

    name: str
    function: Callable[..., Any]
    inputs: Callable[..., tuple]
    sizes: tuple[tuple[int, ...], ...]
    wrt: Any = 0
    analytic: bool = False
    rtol: float = 1e-7
    topic: str = ""

    def samples(self) -> list[tuple]:
        """The arguments for each size, the same ones at every call."""
        return [self.sample(i) for i in range(len(self.sizes))]

    def sample(self, index: int = 0) -> tuple:
        """The arguments for one size."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), index, *self.sizes[index]])
        return self.inputs(rng, *self.sizes[index])


CORPUS: dict[str, Program] = {}
TOPIC = [""]


def add(name: str, function: Callable[..., Any], inputs: Callable[..., tuple], sizes: Sequence[Any], **fields: Any) -> None:
    """Put a function into the corpus."""
    assert name not in CORPUS, name
    whole = tuple(s if isinstance(s, tuple) else (s,) for s in sizes)
    CORPUS[name] = Program(name, function, inputs, whole, topic=TOPIC[-1], **fields)


def program(inputs: Callable[..., tuple], *sizes: Any, **fields: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: put the function into the corpus under its own name."""
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        add(function.__name__, function, inputs, sizes, **fields)
        return function
    return decorate


def topic(name: str) -> None:
    """What follows belongs to this topic."""
    TOPIC.append(name)


def vector(r: Rng, n: int) -> tuple:
    """One vector of n normal numbers."""
    return (r.normal(size=n),)


def positive(r: Rng, n: int) -> tuple:
    """One vector of n numbers between 0.5 and 2."""
    return (r.uniform(0.5, 2.0, n),)


def matrix(r: Rng, n: int, m: int) -> tuple:
    """One n x m matrix."""
    return (r.normal(size=(n, m)),)


def two_vectors(r: Rng, n: int) -> tuple:
    """Two vectors of one length."""
    return r.normal(size=n), r.normal(size=n)


def labelled(r: Rng, n: int, d: int) -> tuple:
    """Weights, a design matrix, labels of -1 and 1."""
    return r.normal(size=d), r.normal(size=(n, d)), r.choice([-1.0, 1.0], n)


def regression(r: Rng, n: int, d: int) -> tuple:
    """Weights, a design matrix, real targets."""
    return r.normal(size=d), r.normal(size=(n, d)), r.normal(size=n)


# ======================================================================================================== statistics
topic("statistics")


@program(lambda r, n: (0.3, 1.7, r.normal(size=n)), 5, 40, 1, 0, wrt=(0, 1), analytic=True)
def normal_log_likelihood(mu, sigma, x):
    z = (x - mu) / sigma
    return np.sum(-0.5 * z ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi))


@program(lambda r, n: (r.normal(size=2), r.normal(size=n)), 6, 23, analytic=True)
def normal_packed(theta, x):
    mu, log_sigma = theta
    sigma = np.exp(log_sigma)
    return -np.sum((x - mu) ** 2) / (2 * sigma ** 2) - x.size * log_sigma


@program(lambda r, n: (4.2, 0.1, 1.3, r.normal(size=n)), 7, 30, wrt=("nu", "mu", "scale"))
def student_t(nu, mu, scale, x):
    z = (x - mu) / scale
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * nu) - np.log(scale)
    return np.sum(constant - (nu + 1) / 2 * np.log1p(z ** 2 / nu))


@program(lambda r, n, d: (0.3 * r.normal(size=d), r.normal(size=(n, d)), r.poisson(2.0, n).astype(float)), (8, 3), (50, 2),
         analytic=True)
def poisson_regression(beta, X, counts):
    eta = X @ beta
    return np.sum(np.exp(eta) - counts * eta)


@program(labelled, (6, 3), (40, 5), (1, 2), analytic=True)
def logistic_loss(w, X, y):
    return np.sum(np.log1p(np.exp(-y * (X @ w))))


@program(lambda r, n, d: (r.normal(size=d), 0.2, r.normal(size=(n, d)), r.integers(0, 2, n).astype(float), 0.05),
         (9, 4), (30, 2), wrt=("w", "b"), analytic=True)
def logistic_regression_l2(w, b, X, y, lam):
    z = X.dot(w) + b
    p = 1.0 / (1.0 + np.exp(-z))
    cross_entropy = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return cross_entropy + lam * np.sum(w ** 2)


@program(labelled, (6, 3), (25, 4))
def logistic_stable(w, X, y):
    return np.mean(np.logaddexp(0.0, -y * (X @ w)))


@program(lambda r, n, k: (r.normal(size=k), r.normal(size=k), r.uniform(0.5, 2.0, k), r.normal(size=n)), (10, 3), (33, 2),
         wrt=(0, 1, 2), analytic=True)
def normal_mixture(logits, means, scales, x):
    weights = np.exp(logits) / np.sum(np.exp(logits))
    z = (x[:, None] - means[None, :]) / scales
    density = weights * np.exp(-0.5 * z ** 2) / (scales * math.sqrt(2 * math.pi))
    return np.sum(np.log(density.sum(axis=1)))


@program(lambda r, n: (0.6, 0.2, 0.8, r.normal(size=n)), 12, 50, wrt=(0, 1, 2), analytic=True)
def ar1_log_likelihood(phi, c, sigma, x):
    residual = x[1:] - c - phi * x[:-1]
    return -0.5 * np.sum((residual / sigma) ** 2) - (len(x) - 1) * np.log(sigma)


@program(lambda r, n: (np.array([0.4, -0.2, 0.1]), r.normal(size=n)), 9, 41, analytic=True)
def ar3_residuals(phi, x):
    fitted = phi[0] * x[2:-1] + phi[1] * x[1:-2] + phi[2] * x[:-3]
    return np.mean((x[3:] - fitted) ** 2)


@program(lambda r, n: (2.5, 1.4, r.gamma(2.0, size=n)), 8, 21, wrt=(0, 1))
def gamma_log_likelihood(shape, rate, x):
    return np.sum(shape * np.log(rate) - special.gammaln(shape) + (shape - 1) * np.log(x) - rate * x)


@program(lambda r, n: (2.0, 3.0, r.uniform(0.1, 0.9, n)), 5, 20, wrt=(0, 1))
def beta_log_likelihood(a, b, x):
    return np.sum(xlogy(a - 1, x) + xlogy(b - 1, 1 - x)) - x.size * (gammaln(a) + gammaln(b) - gammaln(a + b))


@program(lambda r, n: (1.5, 0.7, r.exponential(size=n) + 0.1, r.integers(0, 2, n).astype(bool)), 9, 26, wrt=(0, 1),
         analytic=True)
def weibull_censored(k, scale, t, observed):
    hazard = (t / scale) ** k
    log_density = np.log(k / scale) + (k - 1) * np.log(t / scale)
    return np.sum(np.where(observed, log_density, 0.0) - hazard)


@program(lambda r, n: (1.2, r.normal(size=n), r.integers(0, 2, n).astype(float)), 6, 31)
def probit(slope, x, y):
    p = 0.5 * special.erfc(-slope * x / np.sqrt(2))
    return -np.sum(y * np.log(p) + (1 - y) * np.log1p(-p))


@program(lambda r, n: (r.normal(size=n), r.uniform(0.5, 2, n)), 5, 17, wrt=(0, 1), analytic=True)
def kl_between_normals(mean, scale):
    return 0.5 * np.sum(scale ** 2 + mean ** 2 - 1.0 - 2.0 * np.log(scale))


@program(lambda r, groups, n: (r.normal(size=groups), 0.1, -0.3, r.integers(0, groups, n), r.normal(size=n)), (3, 12), (5, 30),
         wrt=(0, 1, 2), analytic=True)
def varying_intercepts(alpha, mu, log_tau, group, y):
    prior = -0.5 * np.sum(((alpha - mu) / np.exp(log_tau)) ** 2) - alpha.shape[0] * log_tau
    return prior - 0.5 * np.sum((y - alpha[group]) ** 2)


@program(two_vectors, 8, 40, wrt=(0, 1), analytic=True)
def correlation(x, y):
    dx, dy = x - x.mean(), y - y.mean()
    return (dx * dy).sum() / np.sqrt((dx ** 2).sum() * (dy ** 2).sum())


@program(matrix, (7, 3), (30, 2), analytic=True)
def covariance_entries(X):
    centred = X - X.mean(axis=0)
    cov = centred.T @ centred / (X.shape[0] - 1)
    return np.sum(cov ** 2) - np.trace(cov)


# ======================================================================================================== curve fits
topic("curve fits")


@program(lambda r, n: (np.array([2.0, 0.7, 0.3]), np.linspace(0, 3, n), r.normal(size=n)), 8, 25, analytic=True)
def exponential_decay(p, t, y):
    model = p[0] * np.exp(-p[1] * t) + p[2]
    return np.sum((model - y) ** 2)


@program(lambda r, n: (1.0, 0.2, 0.6, 0.1, np.linspace(-2, 2, n), r.normal(size=n)), 9, 30, wrt=(0, 1, 2, 3), analytic=True)
def gaussian_peak(height, centre, width, offset, x, y):
    return 0.5 * np.mean((offset + height * np.exp(-((x - centre) / width) ** 2 / 2) - y) ** 2)


@program(lambda r, n: (r.normal(size=4), np.linspace(-1, 1, n), r.normal(size=n)), 6, 22, analytic=True)
def cubic_polynomial(c, x, y):
    return np.sum((c[0] + c[1] * x + c[2] * x ** 2 + c[3] * x ** 3 - y) ** 2)


@program(lambda r, n, d: (r.normal(size=d), np.linspace(-1, 1, n), r.normal(size=n)), (6, 3), (20, 5), analytic=True)
def polynomial_by_powers(c, x, y):
    powers = x[:, None] ** np.arange(c.shape[0])
    return np.sum((powers @ c - y) ** 2)


@program(lambda r, n: (1.0, 2.0, 0.5, np.linspace(0, 6, n), r.normal(size=n)), 7, 28, wrt=(0, 1, 2), analytic=True)
def sinusoid(amplitude, omega, phase, t, y):
    return np.sum(np.square(amplitude * np.sin(omega * t + phase) - y))


@program(lambda r, n: (3.0, 1.1, r.uniform(0.1, 4, n), r.uniform(0.1, 3, n)), 5, 19, wrt=("vmax", "km"), analytic=True)
def michaelis_menten(vmax, km, s, v):
    return np.sum((vmax * s / (km + s) - v) ** 2)


@program(lambda r, n: (5.0, 0.8, 1.5, np.linspace(0, 5, n), r.uniform(0, 5, n)), 8, 24, wrt=(0, 1, 2), analytic=True)
def logistic_growth(capacity, rate, midpoint, t, y):
    return np.mean((capacity / (1 + np.exp(-rate * (t - midpoint))) - y) ** 2)


@program(lambda r, n, d: (*regression(r, n, d), 0.1), (8, 3), (30, 6), analytic=True)
def ridge(w, X, y, alpha):
    residual = y - X @ w
    return residual @ residual + alpha * w @ w


@program(regression, (8, 3), (30, 6))
def elastic_net(w, X, y):
    return 0.5 * np.mean((X @ w - y) ** 2) + 0.1 * np.linalg.norm(w, 1) + 0.2 * np.linalg.norm(w) ** 2


@program(lambda r, n: (1.3, 0.4, r.uniform(0.5, 2, n), r.normal(size=n)), 6, 21, wrt=(0, 1), analytic=True)
def power_law(a, b, x, y):
    return np.sum((a * x ** b - y) ** 2)


# ====================================================================================================== robust losses
topic("robust losses")


@program(lambda r, n: (3 * r.normal(size=n), 1.2), 7, 40, 0)
def huber(residual, delta):
    a = np.abs(residual)
    return np.sum(np.where(a <= delta, 0.5 * residual ** 2, delta * (a - 0.5 * delta)))


@program(labelled, (7, 3), (30, 4))
def squared_hinge(w, X, y):
    return np.sum(np.maximum(0.0, 1.0 - y * (X @ w)) ** 2)


@program(two_vectors, 6, 22, wrt=(0, 1))
def quantile_loss(prediction, target):
    error = target - prediction
    return np.mean(np.maximum(0.9 * error, -0.1 * error))


@program(vector, 8, 30, analytic=True)
def cauchy_loss(x):
    return np.sum(np.log1p((x / 2.3849) ** 2))


@program(vector, 8, 30)
def tukey_biweight(x):
    inside = np.abs(x) < 1.2
    return np.sum(np.where(inside, 1 - (1 - (x / 1.2) ** 2) ** 3, 1.0)) / 6


@program(vector, 9, 31)
def clipped_square(x):
    return (np.clip(x, -0.8, 1.1) ** 2 + 0.1 * x).sum()


@program(vector, 9, 28)
def minimum_and_absolute(x):
    return np.sum(np.minimum(x ** 2, 1.5) * abs(x))


@program(two_vectors, 5, 20, wrt=(0, 1), analytic=True)
def log_cosh(a, b):
    return np.mean(np.log(np.cosh(a - b)))


@program(vector, 7, 25)
def safe_log(x):
    return np.sum(np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), x))


@program(vector, 7, 22)
def where_unsafe_branch(x):
    return np.where(x > 0, np.sqrt(x), -x).sum()


@program(vector, 6, 24)
def elu_and_softsign(x):
    return np.sum(np.where(x > 0, x, np.expm1(x)) + x / (1 + np.abs(x)))


# ========================================================================================= softmax and cross entropy
topic("softmax")


@program(vector, 5, 18, 1)
def softmax_entropy(z):
    e = np.exp(z - np.max(z))
    p = e / np.sum(e)
    return -np.sum(p * np.log(p))


@program(lambda r, n, k: (r.normal(size=(n, k)), r.integers(0, k, n)), (5, 3), (20, 4))
def cross_entropy_by_index(logits, label):
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(log_p[np.arange(len(label)), label])


@program(lambda r, n, d, k: (r.normal(size=(d, k)), r.normal(size=k), r.normal(size=(n, d)), np.eye(k)[r.integers(0, k, n)]),
         (6, 4, 3), (15, 2, 5), wrt=("W", "b"))
def multinomial_regression(W, b, X, onehot):
    scores = X @ W + b
    return np.mean(logsumexp(scores, axis=1) - np.sum(scores * onehot, axis=1))


@program(matrix, (4, 3), (7, 9))
def logsumexp_rows(A):
    return np.sum(logsumexp(A, axis=-1) ** 2)


@program(matrix, (4, 3), (7, 9))
def logsumexp_all(A):
    return logsumexp(A) + np.logaddexp(A[0, 0], A[-1, -1])


@program(lambda r, n: (r.normal(size=(n, 2)), r.normal(size=(n, 2)), 0.4), 5, 9, wrt=(0, 1))
def contrastive(a, b, temperature):
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    similarity = a @ b.T / temperature
    return np.mean(logsumexp(similarity, axis=1) - np.sum(a * b, axis=1) / temperature)


# ======================================================================================================= linear algebra
topic("linear algebra")


@program(lambda r, n: (r.normal(size=n), r.normal(size=(n, n))), 4, 11, 1, wrt=(0, 1), analytic=True)
def quadratic_form(x, A):
    return 0.5 * x @ A @ x - np.sum(x)


@program(lambda r, n, m: (r.normal(size=n), r.normal(size=(n, m)), r.normal(size=m)), (3, 4), (8, 5), wrt=(0, 1, 2),
         analytic=True)
def bilinear_einsum(x, M, y):
    return np.einsum("i,ij,j->", x, M, y)


@program(lambda r, b, n, m: (r.normal(size=(b, n, m)), r.normal(size=(b, m, n))), (2, 3, 4), (5, 2, 3), wrt=(0, 1), analytic=True)
def batched_trace(A, B):
    return np.einsum("bij,bji->b", A, B).sum() + np.sum(np.matmul(A, B) ** 2)


@program(lambda r, n, m: (r.normal(size=(n, m)), r.normal(size=(m, n, 3))), (3, 2), (4, 5), wrt=(0, 1), analytic=True)
def tensordot_two_axes(A, T):
    return np.sum(np.tanh(np.tensordot(A, T, axes=([0, 1], [1, 0]))))


@program(two_vectors, 4, 9, wrt=(0, 1), analytic=True)
def outer_minus_identity(a, b):
    return np.sum((np.outer(a, b) - np.eye(len(a))) ** 2)


@program(lambda r, n, m, k: (r.normal(size=(n, k)), r.normal(size=(m, k)), r.normal(size=(n, m))), (4, 3, 2), (7, 9, 3),
         wrt=(0, 1), analytic=True)
def matrix_factorisation(U, V, R):
    return np.sum((R - U @ V.T) ** 2) + 0.1 * (np.sum(U ** 2) + np.sum(V ** 2))


@program(lambda r, n, m, k: (r.normal(size=(n, k)), r.normal(size=(m, k)), r.integers(0, n, 11), r.integers(0, m, 11),
                             r.normal(size=11)),
         (4, 3, 2), (7, 9, 3), wrt=(0, 1), analytic=True)
def matrix_factorisation_sparse(U, V, row, column, value):
    return np.mean((np.sum(U[row] * V[column], axis=1) - value) ** 2)


@program(matrix, (3, 4), (6, 6), analytic=True)
def frobenius_of_gram(A):
    gram = A.T @ A
    return np.sqrt(np.sum(gram * gram)) + np.trace(A @ A.T)


@program(lambda r, n: (r.normal(size=(n, 3)), r.normal(size=(n, 3))), 4, 13, wrt=(0, 1), analytic=True)
def row_norms_and_dots(A, B):
    return np.sum(np.sqrt((A ** 2).sum(axis=1)) * np.einsum("ij,ij->i", A, B))


@program(lambda r, n: (np.array([0.3, -0.2]), r.uniform(-1, 1, (n, 2)), r.normal(size=n)), 4, 8, analytic=True)
def rbf_quadratic_form(log_params, X, y):
    """y' (K + s I) y with a squared exponential kernel."""
    length, noise = np.exp(log_params[0]), np.exp(log_params[1])
    difference = X[:, None, :] - X[None, :, :]
    K = np.exp(-0.5 * np.sum(difference ** 2, axis=-1) / length ** 2) + noise * np.eye(X.shape[0])
    return y @ K @ y


@program(lambda r, n, m: (0.8, r.normal(size=n), r.normal(size=m), r.normal(size=m)), (4, 6), (9, 5), wrt=(0, 3),
         analytic=True)
def kernel_regression(bandwidth, grid, x, y):
    weights = np.exp(-0.5 * ((grid[:, np.newaxis] - x) / bandwidth) ** 2)
    return np.mean((weights @ y / weights.sum(1)) ** 2)


@program(lambda r, n: (r.normal(size=(n, 2)), r.normal(size=(3, 2))), 5, 14)
def squared_distance_expansion(X, C):
    d2 = np.sum(X ** 2, axis=1)[:, None] + np.sum(C ** 2, axis=1) - 2 * X @ C.T
    return np.sum(np.min(d2, axis=1))


# ================================================================================================= classic test functions
topic("classics")


@program(vector, 2, 30, analytic=True)
def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@program(lambda r: (np.array([-1.2, 1.0]),), (), (), analytic=True)
def rosenbrock_two(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


@program(vector, 3, 20, analytic=True)
def rastrigin(x):
    return 10 * x.size + np.sum(x ** 2 - 10 * np.cos(2 * np.pi * x))


@program(vector, 3, 20, analytic=True)
def ackley(x):
    return -20 * np.exp(-0.2 * np.sqrt(np.mean(x ** 2))) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20 + np.e


@program(vector, 4, 12, analytic=True)
def styblinski_tang(x):
    return 0.5 * np.sum(x ** 4 - 16 * x ** 2 + 5 * x)


@program(lambda r, n: (r.uniform(1, 4, n),), 3, 11)
def griewank(x):
    return 1 + np.sum(x ** 2) / 4000 - np.prod(np.cos(x / np.sqrt(np.arange(1, len(x) + 1))))


@program(lambda r: (r.normal(), r.normal()), (), (), wrt=(0, 1), analytic=True)
def himmelblau(x, y):
    return (x * x + y - 11) ** 2 + (x + y * y - 7) ** 2


@program(lambda r: (r.uniform(0.2, 0.9), r.uniform(0.2, 0.9)), (), (), wrt=(0, 1))
def scalar_math(a, b):
    return (math.sin(a) * math.exp(b) + math.log(a) ** 2 - math.atan2(b, a) + math.sqrt(a * b) + math.hypot(a, b)
            + math.erf(a))


@program(lambda r: (r.uniform(1.2, 2.0), r.uniform(0.2, 0.9)), (), (), wrt=(0, 1))
def scalar_math_more(a, b):
    first = math.tanh(a) + math.asin(b) * math.acos(b) + math.cosh(b) - math.sinh(a) + math.log1p(b) + math.expm1(b)
    second = math.acosh(a) + math.atanh(b) + math.asinh(a) + math.lgamma(a) + math.fabs(b) + math.pow(a, b)
    return first * second + math.log2(a) + math.log10(a) + math.atan(b) + math.tan(b) + math.cos(a)


@program(lambda r: (r.uniform(80, 120), 100.0, r.uniform(0.1, 0.4), 0.03, r.uniform(0.5, 2)), (), (), wrt=(0, 2, 3, 4))
def black_scholes_call(spot, strike, sigma, rate, time):
    d1 = (math.log(spot / strike) + (rate + 0.5 * sigma ** 2) * time) / (sigma * math.sqrt(time))
    d2 = d1 - sigma * math.sqrt(time)

    def cdf(x):
        return 0.5 * (1 + math.erf(x / math.sqrt(2)))
    return spot * cdf(d1) - strike * math.exp(-rate * time) * cdf(d2)


@program(lambda r, n: (r.uniform(80, 120, n), r.uniform(0.1, 0.4, n), np.full(n, 100.0)), 5, 40, wrt=(0, 1))
def black_scholes_portfolio(spot, sigma, strike):
    root = sigma * np.sqrt(1.5)
    d1 = np.log(spot / strike) / root + 0.5 * root

    def normal(z):
        return 0.5 * (1.0 + special.erf(z / np.sqrt(2.0)))
    return np.sum(spot * normal(d1) - strike * normal(d1 - root))


@program(lambda r: (r.normal(), r.integers(2, 5).item()), (), (), analytic=True)
def integer_power(x, k):
    return x ** k - x ** -2 + 2.0 ** x


# ==================================================================================================== physics and stencils
topic("physics")


@program(lambda r, n: (r.normal(size=n), 0.2), 6, 33, analytic=True)
def heat_step(u, r):
    inner = u[1:-1] + r * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(inner ** 2)


@program(lambda r, n: (r.normal(size=n), 0.2), 7, 21, wrt=(0, 1), analytic=True)
def heat_three_steps(u, r):
    for _ in range(3):
        inner = u[1:-1] + r * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = np.concatenate([u[:1], inner, u[-1:]])
    return np.mean(u ** 2)


@program(matrix, (5, 6), (9, 4), analytic=True)
def laplacian_energy(u):
    lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    return 0.5 * np.sum(lap ** 2)


@program(matrix, (5, 6), (9, 4), analytic=True)
def smoothed_total_variation(image):
    dx = image[:, 1:] - image[:, :-1]
    dy = image[1:, :] - image[:-1, :]
    return np.sum(np.sqrt(dx[:-1, :] ** 2 + dy[:, :-1] ** 2 + 1e-3))


@program(matrix, (4, 5), (7, 3), analytic=True)
def periodic_ising_energy(s):
    return -np.sum(s * (np.roll(s, 1, axis=0) + np.roll(s, 1, axis=1)))


@program(lambda r, n: (r.uniform(0, 1, (n, 3)) + 2 * np.arange(n)[:, None],), 3, 8)
def lennard_jones(x):
    n = x.shape[0]
    d = x[:, None, :] - x[None, :, :]
    r2 = np.sum(d ** 2, axis=2) + np.eye(n)
    s6 = (1.0 / r2) ** 3
    return 2.0 * np.sum((s6 ** 2 - s6) * (1.0 - np.eye(n)))


@program(lambda r, n: (r.normal(size=(n, 2)), r.uniform(1, 2, n)), 3, 7, wrt=(0, 1), analytic=True)
def softened_gravity(position, mass):
    dx = position[:, 0][:, None] - position[:, 0]
    dy = position[:, 1][:, None] - position[:, 1]
    return -0.5 * np.sum(np.outer(mass, mass) / np.sqrt(dx ** 2 + dy ** 2 + 0.01))


@program(lambda r: (np.array([0.4, 0.9]), np.array([1.1, -0.3])), (), (), wrt=(0, 1), analytic=True)
def double_pendulum_energy(theta, omega):
    t1, t2 = theta
    w1, w2 = omega
    kinetic = w1 ** 2 + 0.5 * w2 ** 2 + w1 * w2 * np.cos(t1 - t2)
    return kinetic - 9.81 * (2 * np.cos(t1) + np.cos(t2))


@program(lambda r, n: (0.3, np.array([1.0, 0.5]), np.linspace(0.1, 1.5, n)), 4, 18, wrt=(0, 1), analytic=True)
def damped_oscillator(damping, start, t):
    omega = np.sqrt(1.0 - damping ** 2)
    x = np.exp(-damping * t) * (start[0] * np.cos(omega * t) + start[1] * np.sin(omega * t))
    return np.dot(x, x)


@program(lambda r, n: (np.linspace(0, 1, n) + 0.02 * r.normal(size=n), r.normal(size=n)), 6, 20, wrt=(0, 1), analytic=True)
def trapezoid(x, y):
    return np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)) ** 2


@program(lambda r, n: (r.normal(size=n + 1), r.uniform(0.5, 1, n)), 5, 16, wrt=(0, 1), analytic=True)
def spring_chain(x, k):
    stretch = x[1:] - x[:-1] - 1.0
    return 0.5 * np.sum(k * stretch ** 2) + 0.25 * np.sum(x[::2] ** 2) - np.sum(x[::-1] * np.arange(x.size))


# ============================================================================================================ networks
topic("networks")


def mlp_inputs(r: Rng, n: int, d: int, h: int) -> tuple:
    """W1, b1, W2, b2, X, y of a network with one hidden layer."""
    parameters = r.normal(size=(d, h)), r.normal(size=h), r.normal(size=(h, 1)), r.normal(size=1)
    return *parameters, r.normal(size=(n, d)), r.normal(size=(n, 1))


@program(mlp_inputs, (5, 3, 4), (12, 2, 6), wrt=(0, 1, 2, 3), analytic=True)
def mlp(W1, b1, W2, b2, X, y):
    hidden = np.tanh(X @ W1 + b1)
    return np.mean((hidden @ W2 + b2 - y) ** 2)


@program(lambda r, n, d, h: ({"W": r.normal(size=(d, h)), "b": r.normal(size=h), "out": r.normal(size=h)},
                             r.normal(size=(n, d)), r.normal(size=n)),
         (5, 3, 4), (12, 2, 6), wrt="params")
def mlp_dict(params, X, y):
    hidden = np.maximum(X @ params["W"] + params["b"], 0)
    return ((hidden @ params["out"] - y) ** 2).mean()


@program(lambda r, n: ([(r.normal(size=(2, 4)), r.normal(size=4)), (r.normal(size=(4, 3)), r.normal(size=3))],
                       r.normal(size=(n, 2))), 4, 11, wrt="layers")
def mlp_layers(layers, X):
    for W, b in layers:
        X = np.tanh(X @ W + b)
    return np.sum(X ** 2)


@program(lambda r, n: (r.normal(size=2 * 3 + 3 + 3 + 1), r.normal(size=(n, 2)), r.normal(size=n)), 4, 13, analytic=True)
def mlp_flat_parameters(theta, X, y):
    W1, b1 = theta[:6].reshape(2, 3), theta[6:9]
    w2, b2 = theta[9:12], theta[12]
    return np.sum((np.tanh(X @ W1 + b1) @ w2 + b2 - y) ** 2)


@program(lambda r, n, d: (r.normal(size=(d, d)), r.normal(size=(d, d)), r.normal(size=(n, d))), (4, 3), (7, 2), wrt=(0, 1))
def attention(Wq, Wk, X):
    scores = (X @ Wq) @ (X @ Wk).T / np.sqrt(X.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.sum((weights @ X) ** 2)


@program(lambda r, n, d: (r.normal(size=d), r.normal(size=d), r.normal(size=(n, d))), (4, 3), (9, 5), wrt=("gain", "bias", "x"))
def layer_norm(gain, bias, x):
    mean = np.mean(x, axis=-1, keepdims=True)
    var = np.var(x, axis=-1, keepdims=True)
    return np.sum(np.sin(gain * (x - mean) / np.sqrt(var + 1e-5) + bias))


@program(lambda r, n: (r.normal(size=3), r.normal(size=n)), 7, 26, wrt=(0, 1), analytic=True)
def convolution_by_slices(kernel, x):
    y = kernel[0] * x[:-2] + kernel[1] * x[1:-1] + kernel[2] * x[2:]
    return np.sum(np.tanh(y))


@program(lambda r, n: (r.normal(size=(5, 3)), r.integers(0, 5, n)), 4, 12, analytic=True)
def embedding_sum(table, tokens):
    return np.sum(np.tanh(table[tokens].sum(axis=0)))


# ==================================================================================================== NumPy's vocabulary
topic("vocabulary")


@program(matrix, (4, 3), (7, 5))
def variance_and_mean(x):
    return np.sum(np.var(x, axis=0, ddof=1)) + np.mean(x, axis=(0, 1)) * np.var(x)


@program(matrix, (4, 3), (7, 5))
def standardise(x):
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.sum(z ** 3)


@program(matrix, (3, 4), (6, 2))
def norms(A):
    return np.linalg.norm(A) + np.sum(np.linalg.norm(A, axis=0)) + np.linalg.norm(A[0], ord=1) + np.max(np.linalg.norm(A, axis=1))


@program(positive, 4, 9)
def product(x):
    return np.prod(x) + np.sum(np.cumprod(x))


@program(vector, 5, 19, analytic=True)
def running_sums(x):
    return np.sum(np.cumsum(x) ** 2) + np.sum(np.cumsum(x[::-1])[::-1] * x)


@program(matrix, (4, 3), (6, 8))
def extremes(x):
    return np.max(x) - np.min(x) + np.sum(x.max(axis=0) * x.min(axis=0)) + np.ptp(x[:, 0])


@program(lambda r, n: (r.normal(size=(n, 6)),), 3, 8, analytic=True)
def reshape_and_transpose(x):
    y = x.reshape(-1, 2, 3).transpose(1, 0, 2)
    return np.sum(np.sin(y[0]) * y[1]) + np.sum(x.T.ravel() * np.arange(x.size))


@program(two_vectors, 4, 11, wrt=(0, 1), analytic=True)
def join(a, b):
    wide = np.concatenate([a, 2 * b, a[::-1]])
    tall = np.stack([a, b], axis=1)
    return np.sum(np.cos(wide)) + np.sum(tall ** 2 * np.vstack([a, b]).T) + np.sum(np.hstack((a, b)) ** 3)


@program(lambda r, n: (r.normal(size=n), r.integers(-n, n, 9)), 5, 20, analytic=True)
def gather_with_repeats(x, index):
    return np.sum(x[index] ** 3 * np.arange(9.0))


@program(lambda r, n: (r.normal(size=(n, n)), r.integers(0, n, 6), r.integers(0, n, 6)), 4, 9, analytic=True)
def gather_pairs(A, i, j):
    return np.sum(np.exp(A[i, j])) + np.sum(np.take(A, i, axis=1) ** 2)


@program(matrix, (5, 4), (8, 7), analytic=True)
def slicing(A):
    return np.sum(A[1:, ::2] ** 2) + A[0, -1] * A[-1, 0] + np.sum(A[..., 1] * A[:, -1]) + np.sum(A[::-1][1:3, None] ** 3)


@program(lambda r, n: (r.normal(size=(n, 1)), r.normal(size=(1, 4)), 0.7), 3, 8, 1, wrt=(0, 1, 2), analytic=True)
def broadcasting(column, row, scalar):
    return np.sum(np.sin(column * row + scalar)) + np.sum(np.broadcast_to(row, (column.shape[0], 4)) * column)


@program(lambda r, n, m: (r.normal(size=(n, 3)), r.normal(size=(m, 3))), (4, 4), (4, 1), (1, 5), wrt=(0, 1), analytic=True)
def broadcast_changes(a, b):
    return np.sum(np.exp(a * b))


@program(lambda r, n: (r.uniform(0.2, 0.8, n),), 5, 17, analytic=True)
def many_ufuncs(x):
    a = np.sin(x) + np.cos(x) + np.tan(x) + np.arcsin(x) + np.arccos(x) + np.arctan(x)
    b = np.sinh(x) + np.cosh(x) + np.tanh(x) + np.arcsinh(x) + np.arctanh(x) + np.arccosh(x + 1.5)
    c = np.exp(x) + np.expm1(x) + np.exp2(x) + np.log(x) + np.log2(x) + np.log10(x) + np.log1p(x) + np.sqrt(x)
    return np.sum(a * b - c)


@program(lambda r, n: (r.uniform(0.2, 0.8, n), r.uniform(1.1, 2.3, n)), 5, 17, wrt=(0, 1))
def many_binary_ufuncs(x, y):
    a = np.hypot(x, y) + np.arctan2(x, y) + np.logaddexp(x, y) + np.power(y, x) + np.copysign(x, -y)
    b = np.fmod(7 * x, y) + np.mod(-5 * x, y) + np.true_divide(x, y) + np.subtract(x, y) + np.cbrt(x) + np.reciprocal(y)
    c = np.fabs(x - 0.5) + np.sign(x) * y + np.floor(y) * x + np.ceil(y) * y + np.trunc(3 * x) * x
    return np.sum(a * b + c)


@program(vector, 4, 15)
def special_functions(x):
    return np.sum(special.erf(x) + special.erfc(x / 2) * special.expit(x) + gammaln(x ** 2 + 0.5) + np.sinc(x))


@program(vector, 5, 22)
def masks_in_where(x):
    inside = (x > -1) & (x < 1) | ~(x <= 2)
    return np.sum(np.where(inside, x ** 2, 3 * x)) + np.sum(x * (x > 0)) + np.sum(np.logical_and(x > 0, x < 1) * x)


@program(vector, 5, 22, analytic=True)
def creation(x):
    n = x.shape[0]
    t = np.linspace(0.0, 1.0, 5)
    base = np.zeros(n) + np.ones_like(x) + np.full(n, 0.5) + np.arange(n) * 0.1
    return np.sum(base * x ** 2) + np.sum(np.outer(x, t)) + np.sum(np.eye(n) @ x) + np.sum(np.zeros_like(x))


@program(lambda r, n: (r.normal(size=(n, 1, 3)),), 2, 6, analytic=True)
def squeeze_and_expand(x):
    y = np.squeeze(x, axis=1)
    moved = np.sum(np.swapaxes(x, 0, 2)[0, 0] ** 3) + np.sum(np.moveaxis(x, 2, 0)[1])
    return np.sum(np.expand_dims(y, 0) * y[None] * 0.5) + moved


@program(lambda r, n, m: (r.normal(size=(n, m)),), (4, 4), (3, 5), analytic=True)
def triangles_and_diagonals(A):
    return np.sum(np.tril(A) ** 2) + np.sum(np.triu(A, 1) ** 3) + np.sum(np.diag(A[:3, :3]))


@program(vector, 6, 20, analytic=True)
def differences_and_flips(x):
    return np.sum(np.diff(x) ** 2) + np.sum(np.flip(x) * x) + np.sum(np.tile(x, 2) * np.repeat(x, 2))


@program(vector, 5, 21)
def operators(x):
    y = +x - -x * 2 + x / 3 - 1 / (x ** 2 + 1) + 2 ** x - (x - 1) ** 3
    return (y @ y) * 1e-2 + sum(y[:3]) + x[0] // 1 * 0


@program(vector, 4, 16)
def argmax_weight(x):
    return x[np.argmax(x)] * 2.0 - x[np.argmin(x)] ** 2 + np.sum(np.any(x > 0) * x) + np.sum(np.all(x > -9) * x)


@program(lambda r, n: (r.normal(size=n), r.integers(0, 3, n)), 5, 14, analytic=True)
def integers_mix_in(x, k):
    return np.sum(k * x + x ** k) + x.sum() * k.sum() / k.size


# ============================================================================================= parameters and captured values
topic("structure")


class Line(NamedTuple):
    """Parameters as a NamedTuple."""

    slope: Any
    intercept: Any


@dataclass
class Model:
    """Parameters as a dataclass."""

    weights: Any
    scale: float


def line_inputs(r: Rng, n: int) -> tuple:
    """A line and points to fit."""
    return Line(r.normal(), r.normal()), r.normal(size=n), r.normal(size=n)


@program(line_inputs, 5, 24)
def fit_named_tuple(line, x, y):
    return np.sum((line.slope * x + line.intercept - y) ** 2)


@program(lambda r, n: (Model(r.normal(size=3), 1.3), r.normal(size=(n, 3))), 5, 24)
def fit_dataclass(model, X):
    return np.mean(np.log1p(np.exp(model.scale * (X @ model.weights))))


@program(lambda r, n: ((r.normal(size=n), [r.normal(size=n), 0.4]),), 4, 15)
def nested_tuple(params):
    a, (b, c) = params
    return np.sum(a * b) * c + np.sum(a ** 2)


@program(lambda r, n: ({"mean": {"a": 0.3, "b": r.normal(size=2)}, "scale": r.uniform(0.5, 1, n)}, r.normal(size=n)), 4, 15)
def nested_dict(p, x):
    z = (x - p["mean"]["a"]) / p["scale"]
    return np.sum(z ** 2) + np.sum(p["mean"]["b"] ** 3)


OFFSETS = np.array([0.5, -1.0, 2.0])
WEIGHT = 0.25


@program(lambda r, n: (r.normal(size=(n, 3)),), 4, 13, analytic=True)
def uses_globals(x):
    return np.sum((x + OFFSETS) ** 2) * WEIGHT


def make_closure(scale: float, shift: np.ndarray) -> Callable[[Any], Any]:
    """A function that holds on to a number and an array."""
    def closure(x):
        return np.sum(np.sin(scale * x + shift[0]) * shift[1])
    return closure


class Penalty:
    """An object with a method to differentiate."""

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def value(self, x):
        """The penalty."""
        return self.strength * np.sum(x ** 2) + np.sum(np.cos(x))


def tempered(beta, x, *, power=2):
    """For functools.partial."""
    return np.sum(np.abs(beta * x) ** power)


add("closure", make_closure(1.7, np.array([0.3, 2.0])), vector, (4, 18), analytic=True)
add("method", Penalty(0.3).value, vector, (4, 18), analytic=True)
add("partial", functools.partial(tempered, 0.7, power=3), vector, (4, 18))
add("lambda_expression", lambda x, a: np.sum(np.exp(-a * x ** 2)), lambda r, n: (r.normal(size=n), 0.8), (4, 18), wrt=(0, 1),
    analytic=True)


def residuals(p, t, y):
    """A helper that other functions call."""
    return p[0] * np.exp(-p[1] * t) - y


@program(lambda r, n: (np.array([1.5, 0.4]), np.linspace(0, 2, n), r.normal(size=n)), 6, 17, analytic=True)
def calls_helpers(p, t, y):
    def half_square(v):
        return 0.5 * np.dot(v, v)
    return half_square(residuals(p, t, y)) + half_square(p)


@program(vector, 4, 12, analytic=True)
def unused_and_constant(x):
    unused = np.exp(x * 1000)  # noqa: F841
    return 3.0 + 0.0 * np.sum(x) + x[0]


@program(lambda r, n: (r.normal(size=n), r.normal(size=n), None, "sum"), 4, 12, analytic=True)
def optional_arguments(x, y, weights=None, reduction="sum"):
    e = (x - y) ** 2
    if weights is not None:
        e = e * weights
    return e.sum() if reduction == "sum" else e.mean()


# ============================================================================================================= float32
topic("float32")
SINGLE = 2e-4


def single(inputs: Callable[..., tuple]) -> Callable[..., tuple]:
    """The same inputs with every float array in float32."""
    def make(r: Rng, *size: int) -> tuple:
        wide = inputs(r, *size)
        return tuple(a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a for a in wide)
    return make


add("logistic_loss_f32", logistic_loss, single(labelled), ((6, 3), (40, 5)), analytic=True, rtol=SINGLE)
add("rosenbrock_f32", rosenbrock, single(vector), (2, 30), analytic=True, rtol=SINGLE)
add("softmax_entropy_f32", softmax_entropy, single(vector), (5, 18), rtol=SINGLE)
add("mlp_f32", mlp, single(mlp_inputs), ((5, 3, 4), (12, 2, 6)), wrt=(0, 1, 2, 3), analytic=True, rtol=SINGLE)
add("huber_f32", huber, single(lambda r, n: (3 * r.normal(size=n), 1.2)), (7, 40), rtol=SINGLE)
add("mixed_precision", quadratic_form, lambda r, n: (r.normal(size=n).astype(np.float32), r.normal(size=(n, n))), (4, 9),
    wrt=(0, 1), analytic=True, rtol=SINGLE)


# ========================================================================================================== edge shapes
topic("edge shapes")


@program(vector, 0, 1, 6, analytic=True)
def sum_of_squares(x):
    return np.sum(x ** 2)


@program(lambda r, n, m: (r.normal(size=(n, m)), r.normal(size=(m, 3))), (0, 2), (2, 0), (1, 1), (4, 3), wrt=(0, 1),
         analytic=True)
def product_with_empty(a, b):
    return np.sum((a @ b + 1.0) ** 2)


@program(lambda r, n: (np.array(r.normal()), r.normal(size=n)), 0, 1, 5, wrt=(0, 1), analytic=True)
def zero_dimensional(a, x):
    return np.sum(a * x) + a ** 2


@program(lambda r: (r.normal(),), (), (), analytic=True)
def scalar_identity(x):
    return x


@program(matrix, (1, 1), (1, 4), (5, 1), analytic=True)
def single_rows_and_columns(x):
    return np.sum((x - x.mean(axis=0)) ** 2 + x.sum(axis=1, keepdims=True) * x)


@program(vector, 1, 2, 9)
def one_element_reductions(x):
    return np.max(x) * np.prod(x) + x.mean() + np.cumsum(x)[-1] + np.var(x)


@program(lambda r, n, m, k: (r.normal(size=(n, m, k)),), (2, 3, 4), (1, 5, 2), analytic=True)
def three_axes(x):
    return np.sum(np.mean(x, axis=1) ** 2) + np.einsum("ijk,ijk->", x, np.sin(x)) + np.sum(x.sum(axis=(0, 2)) ** 3)
