import type { Accuracy } from "@backplane/core";

/**
 * The largest errors measured on SwiftShader, lavapipe and an NVIDIA H200 (docs/numerics.md), and a tenth more,
 * rounded up to a quarter. add, sub and mul have WGSL's own unit; softplus has a quarter more, because it falls
 * by 3 units on lavapipe; whole exponents of pow have not been measured on the H200, whose divisions
 * may add a unit and a half.
 */
export const accuracy: Accuracy = {
  unary: {
    sigmoid: [{ units: 3.25 }],
    tanh: [{ units: 3.25 }],
    exp: [{ units: 2 }],
    log: [{ units: 1.25 }],
    sqrt: [{ units: 1.25 }],
    rsqrt: [{ units: 1.75 }],
    reciprocal: [{ units: 1.25 }],
    sin: [{ units: 3 }],
    cos: [{ units: 3 }],
    erf: [{ units: 2 }],
    gelu: [{ below: -1, units: 7.5 }, { below: 0, units: 4.25 }, { units: 2 }],
    geluTanh: [{ below: -1, units: 4.5 }, { units: 3.25 }],
    silu: [{ below: -1, units: 4.25 }, { units: 3.25 }],
    softplus: [{ units: 3 }],
  },
  binary: { add: 1, sub: 1, mul: 1, div: 2.25, pow: 13 },
};
