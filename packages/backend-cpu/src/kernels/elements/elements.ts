import {
  type Arg,
  type FunctionBuilder,
  i8x16,
  i16x8,
  i32,
  i32x4,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { narrowToHalves, widenHalves } from "./half.js";
import { type ComputedType, type ElementFormat, elementFormats } from "./types.js";

/** How kernels write elements of one type: from vectors of four lanes. */
export interface StoredElements extends ElementFormat {
  /** Stores four elements. */
  readonly store: (address: Arg<"i32">, values: Value<"v128">, offset?: number) => void;
  /** Stores the first `count` elements, 0 to 3, and touches nothing after them. */
  readonly storeFirst: (address: Value<"i32">, values: Value<"v128">, count: Value<"i32">) => void;
}

/** How kernels read and write elements of one type. */
export interface Elements extends StoredElements {
  /** Four elements. */
  readonly load: (address: Arg<"i32">, offset?: number) => Value<"v128">;
  /** One element in every lane. */
  readonly loadSplat: (address: Arg<"i32">, offset?: number) => Value<"v128">;
}

type Make<Access> = (f: FunctionBuilder) => Access;

/**
 * Returns access to elements. Of u8, lanes hold 0 to 255. f16 is widened when loaded and rounded when stored. Emits constants at the
 * place of the call: call it before loops.
 */
export function elementsOf(f: FunctionBuilder, dtype: ComputedType | "u8"): Elements {
  return makers[dtype](f);
}

const makers: Readonly<Record<ComputedType | "u8", Make<Elements>>> = {
  f32: (f) => wordElements(f, elementFormats.f32),
  f16: float16Elements,
  i32: (f) => wordElements(f, elementFormats.i32),
  u32: (f) => wordElements(f, elementFormats.u32),
  u8: byteElements,
};

/** Elements that are lanes. */
function wordElements(f: FunctionBuilder, format: ElementFormat): Elements {
  return {
    ...format,
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

function byteElements(f: FunctionBuilder): Elements {
  /** The bytes are in the low 32 bits. */
  const narrow = (values: Value<"v128">): Value<"v128"> => {
    const lanes = f.let(values);
    const halves = f.let(i16x8.narrowI32x4U(lanes, lanes));
    return i8x16.narrowI16x8U(halves, halves);
  };
  return {
    ...elementFormats.u8,
    load: (address, offset) => i32x4.extendLowI16x8U(i16x8.extendLowI8x16U(v128.load32Zero(address, offset))),
    loadSplat: (address, offset) => i32x4.shrU(v128.load8Splat(address, offset), 24),
    store: (address, values, offset) => f.storeLane(32, 0, address, narrow(values), offset),
    storeFirst(address, values, count) {
      const rest = f.let(narrow(values));
      const at = f.let(address);
      f.if(i32.and(count, 2), () => {
        f.storeLane(16, 0, at, rest);
        f.add(at, 2);
        f.set(rest, i32x4.shrU(rest, 16));
      });
      f.if(i32.and(count, 1), () => f.storeLane(8, 0, at, rest));
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
