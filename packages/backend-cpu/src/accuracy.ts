import type { Accuracy } from "@backplane/core";

/**
 * The largest errors measured on Node.js 20, 22 and 26 (docs/numerics.md), plus a tenth, rounded up to a
 * quarter. 0.5 is correct rounding.
 */
export const accuracy: Accuracy = {
  unary: {
    sigmoid: [{ units: 2.75 }],
    tanh: [{ units: 3 }],
    exp: [{ units: 1.25 }],
    log: [{ units: 1 }],
    sqrt: [{ units: 0.5 }],
    rsqrt: [{ units: 1.75 }],
    reciprocal: [{ units: 0.5 }],
    sin: [{ units: 1.75 }],
    cos: [{ units: 1.75 }],
    erf: [{ units: 1.75 }],
    gelu: [{ below: -1, units: 6.5 }, { below: 0, units: 4.5 }, { units: 3.25 }],
    geluTanh: [{ below: -1, units: 3.5 }, { units: 2.5 }],
    silu: [{ below: -1, units: 3.5 }, { units: 2.75 }],
    softplus: [{ units: 2.25 }],
  },
  binary: { add: 0.5, sub: 0.5, mul: 0.5, div: 0.5, pow: 0.5 },
};
