import { type Code, littleEndian, raw, type ValueType } from "./encoding.js";
import {
  type Arg,
  type Binary,
  binary,
  type I32,
  type Load,
  type LoadLane,
  load,
  memoryArgument,
  operand,
  type Shift,
  shift,
  simd,
  type Table,
  type Unary,
  unary,
  type V128,
  type Value,
  vectorTable,
} from "./expressions.js";

const v128Load = {
  load: 0x00,
  load8x8S: 0x01,
  load8x8U: 0x02,
  load16x4S: 0x03,
  load16x4U: 0x04,
  load32x2S: 0x05,
  load32x2U: 0x06,
  load8Splat: 0x07,
  load16Splat: 0x08,
  load32Splat: 0x09,
  load64Splat: 0x0a,
  load32Zero: 0x5c,
  load64Zero: 0x5d,
} as const;
const v128LoadLane = { load8Lane: 0x54, load16Lane: 0x55, load32Lane: 0x56, load64Lane: 0x57 } as const;
const v128Binary = { and: 0x4e, andnot: 0x4f, or: 0x50, xor: 0x51 } as const;

export const v128: Table<keyof typeof v128Load, Load<"v128">> &
  Table<keyof typeof v128LoadLane, LoadLane> &
  Table<keyof typeof v128Binary, Binary<"v128">> & {
    readonly not: Unary<"v128">;
    /** Bits of `a` where the mask has ones, bits of `b` where it has zeros. */
    readonly bitselect: (a: V128, b: V128, mask: V128) => V128;
    /** `bitselect` for masks in which every lane of 32 bits is all ones or all zeros. Needs `features.relaxedSimd`. */
    readonly relaxedLaneselect: (a: V128, b: V128, mask: V128) => V128;
    readonly anyTrue: Unary<"v128", "i32">;
  } = {
  ...vectorTable(v128Load, load("v128")),
  ...vectorTable(
    v128LoadLane,
    (opcode): LoadLane =>
      (lane, address, into, offset = 0) => ({
        type: "v128",
        code: operand("i32", address).code + into.code + opcode + memoryArgument(offset) + raw(lane),
      }),
  ),
  ...vectorTable(v128Binary, binary("v128", "v128")),
  not: unary("v128", "v128")(simd(0x4d)),
  bitselect: (a, b, mask) => ({ type: "v128", code: a.code + b.code + mask.code + simd(0x52) }),
  relaxedLaneselect: (a, b, mask) => ({ type: "v128", code: a.code + b.code + mask.code + simd(0x10b) }),
  anyTrue: unary("v128", "i32")(simd(0x53)),
};

const constant = (bytes: Code): V128 => ({ type: "v128", code: simd(0x0c) + bytes });

/** A vector with one number for each lane, or with the same number in all. */
function constants(type: "i32" | "f32" | "f64", lanes: number, values: readonly number[]): V128 {
  if (values.length === 1) return constant(littleEndian(type, values[0]!).repeat(lanes));
  return constant(values.map((value) => littleEndian(type, value)).join(""));
}

const extract =
  <Type extends ValueType>(type: Type, opcode: number) =>
  (lane: number, a: V128): Value<Type> => ({ type, code: a.code + simd(opcode) + raw(lane) });

const replace =
  <Type extends ValueType>(type: Type, opcode: number) =>
  (lane: number, a: V128, value: Arg<Type>): V128 => ({
    type: "v128",
    code: a.code + operand(type, value).code + simd(opcode) + raw(lane),
  });

export const i8x16: {
  readonly const: (value: number) => V128;
  readonly splat: Unary<"i32", "v128">;
  /** Lane i of the result is byte `lanes[i]` of the 32 bytes of `a` and then `b`. */
  readonly shuffle: (lanes: readonly number[], a: V128, b: V128) => V128;
  readonly swizzle: Binary<"v128">;
  /** Signed lanes of 16 bits become bytes from 0 to 255: those of a, then those of b. */
  readonly narrowI16x8U: Binary<"v128">;
  /** `swizzle` if no byte number is from 16 to 127. Needs `features.relaxedSimd`. */
  readonly relaxedSwizzle: Binary<"v128">;
} = {
  const: (value) => constant(littleEndian("i8", value).repeat(16)),
  splat: unary("i32", "v128")(simd(0x0f)),
  shuffle: (lanes, a, b) => ({ type: "v128", code: a.code + b.code + simd(0x0d) + raw(...lanes) }),
  swizzle: binary("v128", "v128")(simd(0x0e)),
  narrowI16x8U: binary("v128", "v128")(simd(0x66)),
  relaxedSwizzle: binary("v128", "v128")(simd(0x100)),
};

/** Indexed by the lanes' numbers in base 8: kernels use a few again and again. */
const shuffles = new Map<number, Code>();

/** `i8x16.shuffle` by 32-bit lanes: 0..3 are those of `a`, 4..7 those of `b`. */
export function shuffle32(lanes: readonly [number, number, number, number], a: V128, b: V128): V128 {
  const key = lanes[0] | (lanes[1] << 3) | (lanes[2] << 6) | (lanes[3] << 9);
  let instruction = shuffles.get(key);
  if (instruction === undefined) {
    instruction = simd(0x0d) + raw(...lanes.flatMap((lane) => [0, 1, 2, 3].map((byte) => 4 * lane + byte)));
    shuffles.set(key, instruction);
  }
  return { type: "v128", code: a.code + b.code + instruction };
}

const i16x8Binary = {
  eq: 0x2d,
  ne: 0x2e,
  ltS: 0x2f,
  ltU: 0x30,
  gtS: 0x31,
  gtU: 0x32,
  leS: 0x33,
  leU: 0x34,
  geS: 0x35,
  geU: 0x36,
  narrowI32x4S: 0x85,
  narrowI32x4U: 0x86,
  add: 0x8e,
  sub: 0x91,
  mul: 0x95,
  minS: 0x96,
  minU: 0x97,
  maxS: 0x98,
  maxU: 0x99,
} as const;
const i16x8Unary = { extendLowI8x16U: 0x89 } as const;
const i16x8Shift = { shl: 0x8b, shrS: 0x8c, shrU: 0x8d } as const;

export const i16x8: Table<keyof typeof i16x8Binary, Binary<"v128">> &
  Table<keyof typeof i16x8Unary, Unary<"v128">> &
  Table<keyof typeof i16x8Shift, Shift> & {
    readonly const: (value: number) => V128;
    readonly splat: Unary<"i32", "v128">;
    readonly extractLaneU: (lane: number, a: V128) => I32;
    readonly replaceLane: (lane: number, a: V128, value: Arg<"i32">) => V128;
  } = {
  ...vectorTable(i16x8Binary, binary("v128", "v128")),
  ...vectorTable(i16x8Unary, unary("v128", "v128")),
  ...vectorTable(i16x8Shift, shift),
  const: (value) => constant(littleEndian("i16", value).repeat(8)),
  splat: unary("i32", "v128")(simd(0x10)),
  extractLaneU: extract("i32", 0x19),
  replaceLane: replace("i32", 0x1a),
};

/** `dotI16x8S`: lane i is the sum of the products of lanes 2 i and 2 i + 1 of 16 bits. */
const i32x4Binary = {
  eq: 0x37,
  ne: 0x38,
  ltS: 0x39,
  ltU: 0x3a,
  gtS: 0x3b,
  gtU: 0x3c,
  leS: 0x3d,
  leU: 0x3e,
  geS: 0x3f,
  geU: 0x40,
  add: 0xae,
  sub: 0xb1,
  mul: 0xb5,
  minS: 0xb6,
  minU: 0xb7,
  maxS: 0xb8,
  maxU: 0xb9,
  dotI16x8S: 0xba,
} as const;
const i32x4Unary = {
  abs: 0xa0,
  neg: 0xa1,
  extendLowI16x8S: 0xa7,
  extendHighI16x8S: 0xa8,
  extendLowI16x8U: 0xa9,
  extendHighI16x8U: 0xaa,
  truncSatF32x4S: 0xf8,
  truncSatF32x4U: 0xf9,
  truncSatF64x2SZero: 0xfc,
} as const;
const i32x4Shift = { shl: 0xab, shrS: 0xac, shrU: 0xad } as const;

export const i32x4: Table<keyof typeof i32x4Binary, Binary<"v128">> &
  Table<keyof typeof i32x4Unary, Unary<"v128">> &
  Table<keyof typeof i32x4Shift, Shift> & {
    readonly const: (...values: readonly [number] | readonly [number, number, number, number]) => V128;
    readonly splat: Unary<"i32", "v128">;
    readonly extractLane: (lane: number, a: V128) => I32;
    readonly replaceLane: (lane: number, a: V128, value: Arg<"i32">) => V128;
    readonly allTrue: Unary<"v128", "i32">;
    readonly bitmask: Unary<"v128", "i32">;
  } = {
  ...vectorTable(i32x4Binary, binary("v128", "v128")),
  ...vectorTable(i32x4Unary, unary("v128", "v128")),
  ...vectorTable(i32x4Shift, shift),
  const: (...values) => constants("i32", 4, values),
  splat: unary("i32", "v128")(simd(0x11)),
  extractLane: extract("i32", 0x1b),
  replaceLane: replace("i32", 0x1c),
  allTrue: unary("v128", "i32")(simd(0xa3)),
  bitmask: unary("v128", "i32")(simd(0xa4)),
};

/** `extmul`: products of unsigned 32-bit lanes, the first two or the last two. */
const i64x2Binary = {
  add: 0xce,
  sub: 0xd1,
  mul: 0xd5,
  extmulLowI32x4U: 0xde,
  extmulHighI32x4U: 0xdf,
} as const;
const i64x2Unary = {
  extendLowI32x4S: 0xc7,
  extendHighI32x4S: 0xc8,
  extendLowI32x4U: 0xc9,
  extendHighI32x4U: 0xca,
} as const;
const i64x2Shift = { shl: 0xcb, shrS: 0xcc, shrU: 0xcd } as const;

export const i64x2: Table<keyof typeof i64x2Binary, Binary<"v128">> &
  Table<keyof typeof i64x2Unary, Unary<"v128">> &
  Table<keyof typeof i64x2Shift, Shift> = {
  ...vectorTable(i64x2Binary, binary("v128", "v128")),
  ...vectorTable(i64x2Unary, unary("v128", "v128")),
  ...vectorTable(i64x2Shift, shift),
};

/**
 * `min` and `max` give NaN if either side is NaN, and know that -0 < 0. `pmin(a, b)` is `b < a ? b : a` and
 * `pmax(a, b)` is `a < b ? b : a`, which keep a NaN only in `a`.
 */
const f32x4Binary = {
  eq: 0x41,
  ne: 0x42,
  lt: 0x43,
  gt: 0x44,
  le: 0x45,
  ge: 0x46,
  add: 0xe4,
  sub: 0xe5,
  mul: 0xe6,
  div: 0xe7,
  min: 0xe8,
  max: 0xe9,
  pmin: 0xea,
  pmax: 0xeb,
} as const;
const f32x4Unary = {
  ceil: 0x67,
  floor: 0x68,
  trunc: 0x69,
  nearest: 0x6a,
  abs: 0xe0,
  neg: 0xe1,
  sqrt: 0xe3,
  convertI32x4S: 0xfa,
  convertI32x4U: 0xfb,
  demoteF64x2Zero: 0x5e,
} as const;

export const f32x4: Table<keyof typeof f32x4Binary, Binary<"v128">> &
  Table<keyof typeof f32x4Unary, Unary<"v128">> & {
    readonly const: (...values: readonly [number] | readonly [number, number, number, number]) => V128;
    readonly splat: Unary<"f32", "v128">;
    readonly extractLane: (lane: number, a: V128) => Value<"f32">;
    readonly replaceLane: (lane: number, a: V128, value: Arg<"f32">) => V128;
    /** a * b + c, rounded once or twice, whichever is faster on the machine. Needs `features.relaxedSimd`. */
    readonly relaxedMadd: (a: V128, b: V128, c: V128) => V128;
    /** -(a * b) + c, likewise. */
    readonly relaxedNmadd: (a: V128, b: V128, c: V128) => V128;
  } = {
  ...vectorTable(f32x4Binary, binary("v128", "v128")),
  ...vectorTable(f32x4Unary, unary("v128", "v128")),
  const: (...values) => constants("f32", 4, values),
  splat: unary("f32", "v128")(simd(0x13)),
  extractLane: extract("f32", 0x1f),
  replaceLane: replace("f32", 0x20),
  relaxedMadd: (a, b, c) => ({ type: "v128", code: a.code + b.code + c.code + simd(0x105) }),
  relaxedNmadd: (a, b, c) => ({ type: "v128", code: a.code + b.code + c.code + simd(0x106) }),
};

const f64x2Binary = {
  eq: 0x47,
  ne: 0x48,
  lt: 0x49,
  gt: 0x4a,
  le: 0x4b,
  ge: 0x4c,
  add: 0xf0,
  sub: 0xf1,
  mul: 0xf2,
  div: 0xf3,
  min: 0xf4,
  max: 0xf5,
  pmin: 0xf6,
  pmax: 0xf7,
} as const;
const f64x2Unary = {
  ceil: 0x74,
  floor: 0x75,
  trunc: 0x7a,
  nearest: 0x94,
  abs: 0xec,
  neg: 0xed,
  sqrt: 0xef,
  promoteLowF32x4: 0x5f,
  convertLowI32x4S: 0xfe,
  convertLowI32x4U: 0xff,
} as const;

export const f64x2: Table<keyof typeof f64x2Binary, Binary<"v128">> &
  Table<keyof typeof f64x2Unary, Unary<"v128">> & {
    readonly const: (...values: readonly [number] | readonly [number, number]) => V128;
    readonly splat: Unary<"f64", "v128">;
    readonly extractLane: (lane: number, a: V128) => Value<"f64">;
    readonly replaceLane: (lane: number, a: V128, value: Arg<"f64">) => V128;
    /** As that of f32x4. */
    readonly relaxedMadd: (a: V128, b: V128, c: V128) => V128;
  } = {
  ...vectorTable(f64x2Binary, binary("v128", "v128")),
  ...vectorTable(f64x2Unary, unary("v128", "v128")),
  const: (...values) => constants("f64", 2, values),
  splat: unary("f64", "v128")(simd(0x14)),
  extractLane: extract("f64", 0x21),
  replaceLane: replace("f64", 0x22),
  relaxedMadd: (a, b, c) => ({ type: "v128", code: a.code + b.code + c.code + simd(0x107) }),
};
