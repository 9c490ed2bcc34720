import type { Activation } from "@backplane/core";
import { f32x4 } from "../../wasm/index.js";
import { sharedConstants } from "../math/index.js";
import { long, short, type UnaryFunction } from "./forms.js";
import { gelu } from "./gaussian.js";
import { geluTanh, silu } from "./logistic.js";

/** The kinds that products can apply to their results. They are apart, so that kernels of products bring no others along. */
export const activationFunctions: Readonly<Record<Activation, UnaryFunction>> = {
  // pmax keeps NaN and -0, and the addition gives them the sign of relu(0); max takes several instructions.
  relu: short("exact", (f) => {
    const { zero } = sharedConstants(f);
    return (x) => f32x4.add(f32x4.pmax(x, zero), zero);
  }),
  relu6: short("exact", (f) => {
    const { zero } = sharedConstants(f);
    const six = f.let(f32x4.const(6));
    return (x) => f32x4.pmin(f32x4.add(f32x4.pmax(x, zero), zero), six);
  }),
  gelu: long([{ below: -1, units: 6.5 }, { below: 0, units: 4.5 }, { units: 3.25 }], gelu),
  geluTanh: long([{ below: -1, units: 3.5 }, { units: 2.5 }], geluTanh),
  silu: long([{ below: -1, units: 3.5 }, { units: 2.75 }], silu),
};
