import { type FunctionBuilder, i32x4, v128 } from "../../wasm/index.js";
import type { Vector } from "../math/index.js";

/**
 * a shifted by b, lane by lane; by 32 or more (or less than 0, which are the same bits): 0, or the sign of a. Vectors of
 * WebAssembly shift all lanes by one number. So the steps 1, 2, 4, 8, 16 are made in turn, by the lanes that have the bit.
 */
export function shift(
  direction: "shl" | "shrS" | "shrU",
): (f: FunctionBuilder) => (a: Vector, b: Vector) => Vector {
  return (f) => {
    const most = f.let(i32x4.const(31));
    return (values, counts) => {
      const a = f.let(values);
      const b = f.let(counts);
      const shifted = f.let(a);
      for (let bit = 0; bit < 5; bit++) {
        const hasBit = i32x4.shrS(i32x4.shl(b, 31 - bit), 31);
        f.set(shifted, f.choose(i32x4[direction](shifted, 1 << bit), shifted, hasBit));
      }
      const beyond = f.let(i32x4.gtU(b, most));
      return direction === "shrS"
        ? f.choose(i32x4.shrS(a, 31), shifted, beyond)
        : v128.andnot(shifted, beyond);
    };
  };
}
