"""ADBench's LSTM with diagonal weights: layers of 14 cells predict the bits of the next character of a text."""

import math
from pathlib import Path

import numpy as np

from ..tools.numba import hand
from ..workload import Workload

DATA = Path(__file__).parents[2] / "tests" / "data" / "lstm" / "lstm_l2_c1024.txt"


def sized(layers, characters):
    return {"layers": layers, "characters": characters}


workload = Workload("LSTM", wrt=("main", "extra"), flops=lambda layers, characters: characters * 14 * (150 * layers + 40),
                    sizes={"l=2 c=1024": sized(2, 1024), "l=4 c=1024": sized(4, 1024), "l=4 c=4096": sized(4, 4096)},
                    tiny=sized(2, 4))


@workload.inputs
def inputs(rng, layers, characters):
    """The file's text, as often as it takes, and parameters made as the file's were."""
    bits = np.array(DATA.read_text().split(), dtype=float)[-1024 * 14:].reshape(1024, 14)
    return {"main": rng.random((2 * layers, 4 * 14)), "extra": rng.random((3, 14)), "state": rng.random((2 * layers, 14)),
            "text": np.tile(bits, (-(-characters // 1024), 1))[:characters]}


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


@workload.form("adcompile")
def loss(main, extra, state, text):
    layers, b = main.shape[0] // 2, text.shape[1]
    weight, bias = main[0::2].reshape(layers, 4, b), main[1::2].reshape(layers, 4, b)
    h, c = state[0::2].copy(), state[1::2].copy()
    total = 0.0
    for t in range(text.shape[0] - 1):
        y = text[t] * extra[0]
        for i in range(layers):
            forget = sigmoid(y * weight[i, 0] + bias[i, 0])
            ingate = sigmoid(h[i] * weight[i, 1] + bias[i, 1])
            outgate = sigmoid(y * weight[i, 2] + bias[i, 2])
            change = np.tanh(h[i] * weight[i, 3] + bias[i, 3])
            c[i] = c[i] * forget + ingate * change
            h[i] = outgate * np.tanh(c[i])
            y = h[i]
        guess = y * extra[1] + extra[2]
        total += np.sum(text[t + 1] * (guess - np.log(np.sum(np.exp(guess)) + 2.0)))
    return -total / ((text.shape[0] - 1) * b)


@workload.form("numba")
@hand
def by_hand(main, extra, state, text):
    layers, (n, b) = main.shape[0] // 2, text.shape
    forget, ingate, outgate, change, tanh = [np.empty((n, layers, b)) for _ in range(5)]
    h, c, share = np.empty((n, layers, b)), np.empty((n, layers, b)), np.empty((n, b))
    for i in range(layers):
        h[0, i], c[0, i] = state[2 * i], state[2 * i + 1]
    total = 0.0
    for t in range(n - 1):
        for i in range(layers):
            for j in range(b):
                y = text[t, j] * extra[0, j] if i == 0 else h[t + 1, i - 1, j]
                forget[t, i, j] = 1.0 / (1.0 + math.exp(-(y * main[2 * i, j] + main[2 * i + 1, j])))
                ingate[t, i, j] = 1.0 / (1.0 + math.exp(-(h[t, i, j] * main[2 * i, b + j] + main[2 * i + 1, b + j])))
                outgate[t, i, j] = 1.0 / (1.0 + math.exp(-(y * main[2 * i, 2 * b + j] + main[2 * i + 1, 2 * b + j])))
                change[t, i, j] = math.tanh(h[t, i, j] * main[2 * i, 3 * b + j] + main[2 * i + 1, 3 * b + j])
                c[t + 1, i, j] = c[t, i, j] * forget[t, i, j] + ingate[t, i, j] * change[t, i, j]
                tanh[t, i, j] = math.tanh(c[t + 1, i, j])
                h[t + 1, i, j] = outgate[t, i, j] * tanh[t, i, j]
        s = 2.0
        for j in range(b):
            guess = h[t + 1, layers - 1, j] * extra[1, j] + extra[2, j]
            share[t, j] = math.exp(guess)
            s += share[t, j]
            total += text[t + 1, j] * guess
        for j in range(b):
            share[t, j] /= s
            total -= text[t + 1, j] * math.log(s)
    scale = -1.0 / ((n - 1) * b)
    g, g_extra = np.zeros_like(main), np.zeros_like(extra)
    h_bar, c_bar, y_bar = np.zeros((layers, b)), np.zeros((layers, b)), np.empty(b)
    for t in range(n - 2, -1, -1):
        ones = text[t + 1].sum()
        for j in range(b):
            d = scale * (text[t + 1, j] - ones * share[t, j])
            g_extra[1, j] += d * h[t + 1, layers - 1, j]
            g_extra[2, j] += d
            y_bar[j] = d * extra[1, j]
        for i in range(layers - 1, -1, -1):
            for j in range(b):
                f, a, o, k, q = forget[t, i, j], ingate[t, i, j], outgate[t, i, j], change[t, i, j], tanh[t, i, j]
                y = text[t, j] * extra[0, j] if i == 0 else h[t + 1, i - 1, j]
                d_h = h_bar[i, j] + y_bar[j]
                d_c = c_bar[i, j] + d_h * o * (1.0 - q * q)
                d_f, d_a, d_o, d_k = (d_c * c[t, i, j] * f * (1.0 - f), d_c * k * a * (1.0 - a), d_h * q * o * (1.0 - o),
                                      d_c * a * (1.0 - k * k))
                c_bar[i, j] = d_c * f
                g[2 * i, j] += d_f * y
                g[2 * i + 1, j] += d_f
                g[2 * i, b + j] += d_a * h[t, i, j]
                g[2 * i + 1, b + j] += d_a
                g[2 * i, 2 * b + j] += d_o * y
                g[2 * i + 1, 2 * b + j] += d_o
                g[2 * i, 3 * b + j] += d_k * h[t, i, j]
                g[2 * i + 1, 3 * b + j] += d_k
                y_bar[j] = d_f * main[2 * i, j] + d_o * main[2 * i, 2 * b + j]
                h_bar[i, j] = d_a * main[2 * i, b + j] + d_k * main[2 * i, 3 * b + j]
        for j in range(b):
            g_extra[0, j] += y_bar[j] * text[t, j]
    return scale * total, (g, g_extra)


@workload.form("jax")
def with_jax(np):
    import jax

    def loss(main, extra, state, text):
        layers, (n, b), sigmoid = main.shape[0] // 2, text.shape, jax.nn.sigmoid
        weight, bias = main[0::2].reshape(layers, 4, b), main[1::2].reshape(layers, 4, b)

        def step(carried, characters):
            (h, c), (now, following) = carried, characters
            y, hs, cs = now * extra[0], [], []
            for i in range(layers):
                forget, outgate = sigmoid(y * weight[i, 0] + bias[i, 0]), sigmoid(y * weight[i, 2] + bias[i, 2])
                ingate, change = sigmoid(h[i] * weight[i, 1] + bias[i, 1]), np.tanh(h[i] * weight[i, 3] + bias[i, 3])
                cs.append(c[i] * forget + ingate * change)
                y = outgate * np.tanh(cs[i])
                hs.append(y)
            guess = y * extra[1] + extra[2]
            return (np.stack(hs), np.stack(cs)), np.sum(following * (guess - np.log(np.sum(np.exp(guess)) + 2.0)))
        _, parts = jax.lax.scan(step, (state[0::2], state[1::2]), (text[:-1], text[1:]))
        return -np.sum(parts) / ((n - 1) * b)
    return loss


@workload.form("torch", sizes=("l=2 c=1024", "tiny"))
def with_torch(torch):
    def loss(main, extra, state, text):
        layers, (n, b), sigmoid = main.shape[0] // 2, text.shape, torch.sigmoid
        weight = [w.unbind(0) for w in main[0::2].reshape(layers, 4, b).unbind(0)]
        bias = [w.unbind(0) for w in main[1::2].reshape(layers, 4, b).unbind(0)]
        h, c, ys = list(state[0::2].unbind(0)), list(state[1::2].unbind(0)), []
        for y in (text[:-1] * extra[0]).unbind(0):
            for i in range(layers):
                forget, outgate = sigmoid(y * weight[i][0] + bias[i][0]), sigmoid(y * weight[i][2] + bias[i][2])
                ingate, change = sigmoid(h[i] * weight[i][1] + bias[i][1]), torch.tanh(h[i] * weight[i][3] + bias[i][3])
                c[i] = c[i] * forget + ingate * change
                y = h[i] = outgate * torch.tanh(c[i])
            ys.append(y)
        guess = torch.stack(ys) * extra[1] + extra[2]
        normal = torch.log(torch.sum(torch.exp(guess), 1, keepdim=True) + 2.0)
        return -torch.sum(text[1:] * (guess - normal)) / ((n - 1) * b)
    return loss
