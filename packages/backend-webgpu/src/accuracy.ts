import type { Accuracy } from "@backplane/core";

/**
 * The largest errors measured on SwiftShader and lavapipe (docs/numerics.md), and a tenth more, rounded up to a
 * quarter. Those two round divisions correctly; WGSL lets them be off by 2.5 units, and so more is declared of
 * functions with a division: two units where it is the last step, and what SwiftShader lost elsewhere when
 * each division was made wrong by two units. Built-ins that are used as they are have WGSL's own bounds, but for
 * sqrt, which 4.5 would let be worse than any adapter is.
 */
export const accuracy: Accuracy = {
  unary: {
    sigmoid: [{ units: 5.25 }],
    tanh: [{ units: 4.75 }],
    exp: [{ units: 2 }],
    log: [{ units: 1.5 }],
    sqrt: [{ units: 3 }],
    rsqrt: [{ units: 2 }],
    reciprocal: [{ units: 2.5 }],
    sin: [{ units: 3 }],
    cos: [{ units: 3 }],
    erf: [{ units: 2.25 }],
    gelu: [{ below: -1, units: 12 }, { below: 0, units: 4.25 }, { units: 2.75 }],
    geluTanh: [{ below: -1, units: 6.25 }, { units: 5 }],
    silu: [{ below: -1, units: 6 }, { units: 5 }],
    softplus: [{ units: 3.25 }],
  },
  binary: { add: 1, sub: 1, mul: 1, div: 2.5, pow: 13.5 },
};
