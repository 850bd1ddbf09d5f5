"""The negative log likelihood of a Kalman filter: position and velocity in the state, a position observed at each of T times;
gradients in the logarithms of the two noises and in the damping."""

import math

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

workload = Workload("Kalman filter", wrt=("theta",), numpy_boundary=True, flops=lambda n: 150 * n,
                    sizes={"T=1000": {"n": 1000}}, tiny={"n": 5})


@workload.inputs
def inputs(rng, n):
    return {"theta": np.array([-1.0, -0.5, 0.1]), "z": np.cumsum(0.3 * rng.normal(size=n)) + 0.5 * rng.normal(size=n), "dt": 0.1}


@workload.form("adcompile")
def negative_log_likelihood(theta, z, dt):
    q, r, damping = np.exp(theta[0]), np.exp(theta[1]), theta[2]
    F = np.array([[1.0, dt], [0.0, 1.0 - damping * dt]])
    Q = q * np.array([[dt ** 3 / 3.0, dt ** 2 / 2.0], [dt ** 2 / 2.0, dt]])
    m, P = np.zeros(2), np.eye(2)
    value = 0.0
    for t in range(z.shape[0]):
        m, P = F @ m, F @ P @ F.T + Q
        error, S = z[t] - m[0], P[0, 0] + r
        value += 0.5 * (np.log(2.0 * np.pi * S) + error ** 2 / S)
        gain = P[:, 0] / S
        m = m + gain * error
        P = P - np.outer(gain, P[0])
    return value


@workload.form("numba")
@hand
def by_hand(theta, z, dt):
    """Scalars; the forward sweep keeps each state (m0, m1, p, c, s: the covariance is [[p, c], [c, s]])."""
    q, r, f = math.exp(theta[0]), math.exp(theta[1]), 1.0 - theta[2] * dt
    q00, q01, q11 = dt ** 3 / 3.0, dt ** 2 / 2.0, dt
    n = z.shape[0]
    kept = np.empty((n, 5))
    m0 = m1 = c = value = 0.0
    p = s = 1.0
    for t in range(n):
        kept[t, 0], kept[t, 1], kept[t, 2], kept[t, 3], kept[t, 4] = m0, m1, p, c, s
        a0, a1 = m0 + dt * m1, f * m1
        A, B, C = p + 2.0 * dt * c + dt * dt * s + q * q00, f * (c + dt * s) + q * q01, f * f * s + q * q11
        S = A + r
        error, inverse = z[t] - a0, 1.0 / S
        value += 0.5 * (math.log(2.0 * math.pi * S) + error * error * inverse)
        m0, m1 = a0 + A * inverse * error, a1 + B * inverse * error
        p, c, s = A - A * A * inverse, B - A * B * inverse, C - B * B * inverse
    m0_bar = m1_bar = p_bar = c_bar = s_bar = q_bar = r_bar = f_bar = 0.0
    for t in range(n - 1, -1, -1):
        m0, m1, p, c, s = kept[t]
        a0 = m0 + dt * m1
        A, B = p + 2.0 * dt * c + dt * dt * s + q * q00, f * (c + dt * s) + q * q01
        S = A + r
        error, inverse = z[t] - a0, 1.0 / S
        error_bar = inverse * (error + A * m0_bar + B * m1_bar)
        inverse_bar = 0.5 * error * error + error * (A * m0_bar + B * m1_bar) - A * A * p_bar - A * B * c_bar - B * B * s_bar
        S_bar = 0.5 * inverse - inverse * inverse * inverse_bar
        A_bar = p_bar * (1.0 - 2.0 * A * inverse) - B * inverse * c_bar + inverse * error * m0_bar + S_bar
        B_bar = c_bar * (1.0 - A * inverse) - 2.0 * B * inverse * s_bar + inverse * error * m1_bar
        a0_bar = m0_bar - error_bar
        f_bar += m1_bar * m1 + B_bar * (c + dt * s) + 2.0 * f * s * s_bar
        q_bar += A_bar * q00 + B_bar * q01 + s_bar * q11
        r_bar += S_bar
        m0_bar, m1_bar = a0_bar, dt * a0_bar + f * m1_bar
        p_bar, c_bar, s_bar = A_bar, 2.0 * dt * A_bar + f * B_bar, dt * dt * A_bar + f * dt * B_bar + f * f * s_bar
    return value, np.array([q * q_bar, r * r_bar, -dt * f_bar])


@workload.form("jax")
def with_jax(np):
    import jax

    def negative_log_likelihood(theta, z, dt):
        q, r, damping = np.exp(theta[0]), np.exp(theta[1]), theta[2]
        F = np.array([[1.0, dt], [0.0, 1.0 - damping * dt]])
        Q = q * np.array([[dt ** 3 / 3.0, dt ** 2 / 2.0], [dt ** 2 / 2.0, dt]])

        def step(state, seen):
            m, P = F @ state[0], F @ state[1] @ F.T + Q
            error, S = seen - m[0], P[0, 0] + r
            gain = P[:, 0] / S
            return (m + gain * error, P - np.outer(gain, P[0])), 0.5 * (np.log(2.0 * np.pi * S) + error ** 2 / S)
        return np.sum(jax.lax.scan(step, (np.zeros(2), np.eye(2)), z)[1])
    return negative_log_likelihood


@workload.form("torch")
def with_torch(torch):
    def negative_log_likelihood(theta, z, dt):
        q, r, f = torch.exp(theta[0]), torch.exp(theta[1]), 1.0 - theta[2] * dt
        F = torch.stack([torch.tensor([1.0, dt]), torch.stack([torch.tensor(0.0), f])])
        Q = q * torch.tensor([[dt ** 3 / 3.0, dt ** 2 / 2.0], [dt ** 2 / 2.0, dt]])
        m, P = torch.zeros(2), torch.eye(2)
        value = 0.0
        for seen in z:
            m, P = F @ m, F @ P @ F.T + Q
            error, S = seen - m[0], P[0, 0] + r
            value = value + 0.5 * (torch.log(2.0 * math.pi * S) + error ** 2 / S)
            gain = P[:, 0] / S
            m = m + gain * error
            P = P - torch.outer(gain, P[0])
        return value
    return negative_log_likelihood


@workload.form("casadi", "casadi_c")
def with_casadi(ca, theta, z, dt):
    s, th, seen, h = ca.SX.sym("s", 5), ca.SX.sym("theta", 3), ca.SX.sym("seen"), ca.SX.sym("h")
    q, r, f = ca.exp(th[0]), ca.exp(th[1]), 1 - th[2] * h
    m0, m1 = s[0] + h * s[1], f * s[1]
    A, B = s[2] + 2 * h * s[3] + h ** 2 * s[4] + q * h ** 3 / 3, f * (s[3] + h * s[4]) + q * h ** 2 / 2
    C, S, error = f ** 2 * s[4] + q * h, A + r, seen - m0
    after = ca.vertcat(m0 + A / S * error, m1 + B / S * error, A - A ** 2 / S, B - A * B / S, C - B ** 2 / S)
    step = ca.Function("step", [s, th, h, seen], [after, 0.5 * (ca.log(2 * math.pi * S) + error ** 2 / S)])
    n = z.shape[0]
    return ca.sum2(step.mapaccum("steps", n)(ca.DM([0, 0, 1, 0, 1]), ca.repmat(theta, 1, n), ca.repmat(dt, 1, n), z.T)[1])
