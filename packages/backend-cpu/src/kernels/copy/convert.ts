import { type DType, elementTypes } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i8x16,
  i16x8,
  i32x4,
  type Value,
  type VectorFunction,
  v128,
} from "../../wasm/index.js";
import { narrowToHalves, widenHalves } from "../elements/index.js";

type Vector = Value<"v128">;

/** What the four lanes of a vector hold while elements are converted. */
type Lanes = "f32" | "i32" | "u32";

/** Elements of one type, four of them side by side in the low bytes of a vector, as lanes of 32 bits. */
interface Packing {
  readonly lanes: Lanes;
  /** Emits constants, to be called before the loop. */
  readonly unpack: (f: FunctionBuilder) => VectorFunction;
  /** From each type of lanes. */
  readonly pack: Readonly<Record<Lanes, (f: FunctionBuilder) => VectorFunction>>;
}

const unchanged = (): VectorFunction => (lanes) => lanes;

/** Computes one function of the result of another. */
const after =
  (first: (f: FunctionBuilder) => VectorFunction, second: (f: FunctionBuilder) => VectorFunction) =>
  (f: FunctionBuilder): VectorFunction => {
    const [one, two] = [first(f), second(f)];
    return (lanes) => two(one(lanes));
  };

const simple =
  (compute: (lanes: Vector) => Vector) =>
  (f: FunctionBuilder): VectorFunction =>
  (lanes) =>
    f.let(compute(lanes));

const toFloat = {
  f32: unchanged,
  i32: simple(f32x4.convertI32x4S),
  u32: simple(f32x4.convertI32x4U),
} as const;

const packings: Readonly<Record<DType, Packing>> = {
  f32: { lanes: "f32", unpack: unchanged, pack: toFloat },
  f16: {
    lanes: "f32",
    unpack: widenHalves,
    // An integer that f32 rounds is infinite as a half.
    pack: {
      f32: narrowToHalves,
      i32: after(toFloat.i32, narrowToHalves),
      u32: after(toFloat.u32, narrowToHalves),
    },
  },
  i32: {
    ...{ lanes: "i32", unpack: unchanged },
    pack: { f32: simple(i32x4.truncSatF32x4S), i32: unchanged, u32: unchanged },
  },
  u32: {
    ...{ lanes: "u32", unpack: unchanged },
    pack: { f32: simple(i32x4.truncSatF32x4U), i32: unchanged, u32: unchanged },
  },
  u8: {
    lanes: "u32",
    unpack(f) {
      // Bytes from beyond the vector are 0.
      const places = f.let(i32x4.const(-256, -255, -254, -253));
      return (packed) => f.let(i8x16.swizzle(packed, places));
    },
    pack: { f32: saturatedBytes, i32: lowBytes, u32: lowBytes },
  },
  bf16: {
    lanes: "f32",
    unpack: simple((packed) => i32x4.shl(i32x4.extendLowI16x8U(packed), 16)),
    pack: {
      f32: narrowToBfloats,
      i32: after(after(keepingSticky("i32"), toFloat.i32), narrowToBfloats),
      u32: after(after(keepingSticky("u32"), toFloat.u32), narrowToBfloats),
    },
  },
};

/** Returns the conversion of four packed elements. Emits constants: call it before loops. */
export function conversion(f: FunctionBuilder, from: DType, to: DType): VectorFunction {
  const { lanes, unpack } = packings[from];
  return after(unpack, packings[to].pack[lanes])(f);
}

/** How packed elements of one size are loaded and stored. */
export interface Packed {
  readonly bytes: 1 | 2 | 4;
  /** Four elements that follow one another. */
  readonly load: (address: Value<"i32">, offset?: number) => Vector;
  /** One element to the place `lane` of a vector. */
  readonly loadLane: (lane: number, address: Value<"i32">, into: Vector) => Vector;
  readonly store: (f: FunctionBuilder, address: Value<"i32">, packed: Vector, offset?: number) => void;
}

const packedOf: Readonly<Record<1 | 2 | 4, Packed>> = {
  1: {
    bytes: 1,
    load: v128.load32Zero,
    loadLane: v128.load8Lane,
    store: (f, address, packed, offset) => f.storeLane(32, 0, address, packed, offset),
  },
  2: {
    bytes: 2,
    load: v128.load64Zero,
    loadLane: v128.load16Lane,
    store: (f, address, packed, offset) => f.storeLane(64, 0, address, packed, offset),
  },
  4: {
    bytes: 4,
    load: v128.load,
    loadLane: v128.load32Lane,
    store: (f, address, packed, offset) => f.store(address, packed, offset),
  },
};

export function packedElements(dtype: DType): Packed {
  return packedOf[elementTypes[dtype].bytes];
}

/** f32 to bytes: without fractions, from 0 to 255. */
function saturatedBytes(f: FunctionBuilder): VectorFunction {
  const largest = f.let(i32x4.const(255));
  return (lanes) => narrowToBytes(f, i32x4.minU(i32x4.truncSatF32x4U(lanes), largest));
}

function lowBytes(f: FunctionBuilder): VectorFunction {
  const mask = f.let(i32x4.const(255));
  return (lanes) => narrowToBytes(f, v128.and(lanes, mask));
}

function narrowToBytes(f: FunctionBuilder, values: Vector): Vector {
  const lanes = f.let(values);
  const halves = f.let(i16x8.narrowI32x4U(lanes, lanes));
  return f.let(i8x16.narrowI16x8U(halves, halves));
}

/**
 * f32 to bf16, to nearest with ties to even: adds just less than half a unit to the bits, and exactly half of one if
 * the last bit that stays is 1. A carry flows into the exponent. NaN keeps its upper bits, one of them set.
 */
function narrowToBfloats(f: FunctionBuilder): VectorFunction {
  const one = f.let(i32x4.const(1));
  const bias = f.let(i32x4.const(0x7fff));
  const magnitudeBits = f.let(i32x4.const(0x7fffffff));
  const infinity = f.let(i32x4.const(0x7f800000));
  const quiet = f.let(i32x4.const(0x400000));
  return (x) => {
    const bits = f.let(x);
    const last = v128.and(i32x4.shrU(bits, 16), one);
    const rounded = i32x4.add(i32x4.add(bits, bias), last);
    const isNan = i32x4.gtS(v128.and(bits, magnitudeBits), infinity);
    const result = f.let(i32x4.shrU(f.choose(v128.or(bits, quiet), rounded, isNan), 16));
    return f.let(i16x8.narrowI32x4U(result, result));
  };
}

/**
 * Makes integers of more than 24 bits exact in f32, and leaves them where they were between two numbers of bf16:
 * the low 8 bits become one, which is set if any of them was. Otherwise they would be rounded twice.
 */
function keepingSticky(lanes: "i32" | "u32"): (f: FunctionBuilder) => VectorFunction {
  return (f) => {
    const lowBits = f.let(i32x4.const(0xff));
    const zero = f.let(i32x4.const(0));
    const sticky = f.let(i32x4.const(0x100));
    const exact = f.let(i32x4.const(0xffffff));
    return (x) => {
      const value = f.let(x);
      const low = v128.and(value, lowBits);
      const marked = v128.or(value, v128.andnot(sticky, i32x4.eq(low, zero)));
      const magnitude = lanes === "i32" ? i32x4.abs(value) : value;
      // The magnitude of -2^31 is 2^31 as an unsigned number.
      const fits = i32x4.eq(i32x4.maxU(magnitude, exact), exact);
      return f.let(f.choose(value, v128.andnot(marked, lowBits), fits));
    };
  };
}
