"""Equations of motion from sympy.physics.mechanics: values against lambdify, derivatives against the complex step."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from conftest import assert_close

from adcompile import compile_grad, compile_value

sp = pytest.importorskip("sympy")
me = pytest.importorskip("sympy.physics.mechanics")
G = sp.Float(9.81)


@cache
def pendulums(n: int) -> tuple[Any, list[Any], list[Any]]:
    """n pendulums in a chain on a cart that a spring holds: Kane's equations, coordinates, speeds."""
    q, u = me.dynamicsymbols(f"q0:{n + 1}"), me.dynamicsymbols(f"u0:{n + 1}")
    frame, origin = me.ReferenceFrame("N"), me.Point("O")
    origin.set_vel(frame, 0)
    cart = origin.locatenew("C", q[0] * frame.x)
    cart.set_vel(frame, u[0] * frame.x)
    bodies, loads = [me.Particle("cart", cart, 2)], [(cart, -3 * q[0] * frame.x - 2 * G * frame.y)]
    pin = cart
    for k in range(1, n + 1):
        link = frame.orientnew(f"B{k}", "Axis", [q[k], frame.z])
        link.set_ang_vel(frame, u[k] * frame.z)
        end = pin.locatenew(f"P{k}", sp.Rational(10 - k, 10) * link.x)
        end.v2pt_theory(pin, frame, link)
        bodies.append(me.Particle(f"bob{k}", end, sp.Rational(k + 1, 2)))
        loads.append((end, -sp.Rational(k + 1, 2) * G * frame.y))
        pin = end
    kane = me.KanesMethod(frame, q_ind=q, u_ind=u, kd_eqs=[a.diff(me.dynamicsymbols._t) - b for a, b in zip(q, u)])
    kane.kanes_equations(bodies, loads)
    return kane, list(q), list(u)


@cache
def arm() -> tuple[Any, list[Any], list[Any]]:
    """A planar arm of three rigid links with torques at its joints."""
    q, u = me.dynamicsymbols("q1:4"), me.dynamicsymbols("u1:4")
    frame, joint = me.ReferenceFrame("N"), me.Point("J0")
    joint.set_vel(frame, 0)
    bodies, loads, before = [], [], frame
    for k in range(3):
        link = before.orientnew(f"L{k}", "Axis", [q[k], frame.z])
        link.set_ang_vel(before, u[k] * frame.z)
        centre, end = joint.locatenew(f"G{k}", link.x / 2), joint.locatenew(f"J{k + 1}", link.x)
        centre.v2pt_theory(joint, frame, link)
        end.v2pt_theory(joint, frame, link)
        bodies.append(me.RigidBody(f"link{k}", centre, link, 1 + k, (me.inertia(link, 0, 0, sp.Rational(1, 12)), centre)))
        loads += [(centre, -(1 + k) * G * frame.y), (link, -sp.Rational(k + 1, 5) * u[k] * frame.z)]
        joint, before = end, link
    kane = me.KanesMethod(frame, q_ind=q, u_ind=u, kd_eqs=[a.diff(me.dynamicsymbols._t) - b for a, b in zip(q, u)])
    kane.kanes_equations(bodies, loads)
    return kane, list(q), list(u)


SYSTEMS: dict[str, Callable[[], Any]] = {"cart and 1": lambda: pendulums(1), "cart and 2": lambda: pendulums(2), "arm": arm}


def complex_step(function: Callable[[np.ndarray, np.ndarray], Any], q: np.ndarray, u: np.ndarray) -> list[np.ndarray]:
    """The gradient of a scalar function of coordinates and speeds."""
    found = []
    for place in range(2):
        gradient = np.empty(len(q))
        for k in range(len(q)):
            at = [q.astype(complex), u.astype(complex)]
            at[place][k] += 1e-30j
            gradient[k] = np.imag(function(*at)) / 1e-30
        found.append(gradient)
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_equations_of_motion(name: str) -> None:
    kane, q, u = SYSTEMS[name]()
    mass, forcing = kane.mass_matrix, kane.forcing
    reference = sp.lambdify([q, u], [mass, forcing], cse=True)
    rng = np.random.default_rng(7)
    at = rng.normal(size=len(q)), rng.normal(size=len(q))
    M, f = compile_value([mass, forcing], args=[q, u], debug=True)(*at)
    assert_close((M, f), tuple(map(np.asarray, reference(*at))), rtol=1e-12)

    energy = (sp.Matrix(u).T * mass * sp.Matrix(u))[0] / 2
    value, gradients = compile_grad(energy, wrt=[q, u], args=[q, u], debug=True)(*at)
    assert_close(value, at[1] @ M @ at[1] / 2)
    wanted = complex_step(lambda x, y: y @ np.asarray(reference(x, y)[0]) @ y / 2, *at)
    assert_close(list(gradients), wanted, rtol=1e-11, atol=1e-13)
    assert_close(gradients[1], M @ at[1])

    w = rng.normal(size=len(q))                                         # a row of the Jacobian of the forcing, weighted
    weighted = sum((float(a) * b for a, b in zip(w, forcing)), sp.S.Zero)
    value, gradients = compile_grad(weighted, wrt=[q, u], args=[q, u], compile="lazy")(*at)
    assert_close(value, w @ f[:, 0])
    wanted = complex_step(lambda x, y: w @ np.asarray(reference(x, y)[1])[:, 0], *at)
    assert_close(list(gradients), wanted, rtol=1e-11, atol=1e-13)


def test_functions_of_time_and_their_derivatives() -> None:
    """Lagrange's equations contain q(t) and its derivatives as such; all are arguments of the call."""
    t = me.dynamicsymbols._t
    (q,) = me.dynamicsymbols("q:1")
    length = sp.Symbol("length")
    lagrangian = length**2 * q.diff(t)**2 / 2 + G * length * sp.cos(q)
    equation = sp.diff(sp.diff(lagrangian, q.diff(t)), t) - sp.diff(lagrangian, q)
    f = compile_grad(equation, wrt=[q, q.diff(t, 2)], args=[q, q.diff(t), q.diff(t, 2), length], debug=True)
    assert str(f.__signature__) == "(q0, q0_dot, q0_ddot, length)"
    value, (in_q, in_acceleration) = f(0.3, 0.1, -2.0, 0.5)
    assert_close((value, in_q, in_acceleration), (-0.5 + 4.905 * np.sin(0.3), 4.905 * np.cos(0.3), 0.25))


def test_the_kernel_is_compiled_for_them() -> None:
    kane, q, u = pendulums(1)
    f = compile_grad((sp.Matrix(u).T * kane.mass_matrix * sp.Matrix(u))[0] / 2, wrt=q, args=[q, u], name="energy")
    at = np.array([0.3, 0.7]), np.array([1.0, -2.0])
    assert_close(f(*at)[0], at[1] @ compile_value(kane.mass_matrix, args=[q, u], debug=True)(*at) @ at[1] / 2)
    assert "def energy(q, u)" in f.source
