import type { FloatType } from "@backplane/core";
import { type Arg, type FunctionBuilder, i32, shuffle32, type Value, v128 } from "../../wasm/index.js";
import { narrowToHalves, widenHalves } from "./half.js";
import { type ElementFormat, elementFormats } from "./types.js";

/** How kernels see elements of one type in memory: as vectors of four f32. */
export interface Elements extends ElementFormat {
  /** Four elements. */
  readonly load: (address: Arg<"i32">, offset?: number) => Value<"v128">;
  /** One element in every lane. */
  readonly loadSplat: (address: Arg<"i32">, offset?: number) => Value<"v128">;
  /** Stores four elements. */
  readonly store: (address: Arg<"i32">, values: Value<"v128">, offset?: number) => void;
  /** Stores the first `count` elements, 0 to 3, and touches nothing after them. */
  readonly storeFirst: (address: Value<"i32">, values: Value<"v128">, count: Value<"i32">) => void;
}

/**
 * Returns access to elements. f16 is widened when loaded and rounded when stored. Emits constants at the
 * place of the call: call it before loops.
 */
export function elementsOf(f: FunctionBuilder, dtype: FloatType): Elements {
  return makers[dtype](f);
}

const makers: Readonly<Record<FloatType, (f: FunctionBuilder) => Elements>> = {
  f32: float32Elements,
  f16: float16Elements,
};

function float32Elements(f: FunctionBuilder): Elements {
  return {
    ...elementFormats.f32,
    load: v128.load,
    loadSplat: v128.load32Splat,
    store: (address, values, offset) => f.store(address, values, offset),
    storeFirst(address, values, count) {
      const rest = f.let(values);
      const at = f.let(address);
      f.if(i32.and(count, 2), () => {
        f.storeLane(64, 0, at, rest);
        f.add(at, 8);
        f.set(rest, shuffle32([2, 3, 2, 3], rest, rest));
      });
      f.if(i32.and(count, 1), () => f.storeLane(32, 0, at, rest));
    },
  };
}

function float16Elements(f: FunctionBuilder): Elements {
  const widen = widenHalves(f);
  const narrow = narrowToHalves(f);
  return {
    ...elementFormats.f16,
    load: (address, offset) => widen(v128.load64Zero(address, offset)),
    loadSplat: (address, offset) => widen(v128.load16Splat(address, offset)),
    store: (address, values, offset) => f.storeLane(64, 0, address, narrow(values), offset),
    storeFirst(address, values, count) {
      const rest = f.let(narrow(values));
      const at = f.let(address);
      f.if(i32.and(count, 2), () => {
        f.storeLane(32, 0, at, rest);
        f.add(at, 4);
        f.set(rest, shuffle32([1, 1, 1, 1], rest, rest));
      });
      f.if(i32.and(count, 1), () => f.storeLane(16, 0, at, rest));
    },
  };
}
