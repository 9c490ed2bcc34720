import { raw } from "./encoding.js";
import {
  type Binary,
  binary,
  type I32,
  type Load,
  load,
  operand,
  select,
  type Table,
  table,
  type Unary,
  unary,
  type Value,
} from "./expressions.js";

const i32Binary = {
  eq: 0x46,
  ne: 0x47,
  ltS: 0x48,
  ltU: 0x49,
  gtS: 0x4a,
  gtU: 0x4b,
  leS: 0x4c,
  leU: 0x4d,
  geS: 0x4e,
  geU: 0x4f,
  add: 0x6a,
  sub: 0x6b,
  mul: 0x6c,
  divS: 0x6d,
  divU: 0x6e,
  remS: 0x6f,
  remU: 0x70,
  and: 0x71,
  or: 0x72,
  xor: 0x73,
  shl: 0x74,
  shrS: 0x75,
  shrU: 0x76,
} as const;
const i32Unary = { eqz: 0x45, clz: 0x67, ctz: 0x68, popcnt: 0x69 } as const;
const i32Load = { load: 0x28, load8S: 0x2c, load8U: 0x2d, load16S: 0x2e, load16U: 0x2f } as const;

export const i32: Table<keyof typeof i32Binary, Binary<"i32">> &
  Table<keyof typeof i32Unary, Unary<"i32">> &
  Table<keyof typeof i32Load, Load<"i32">> & {
    readonly const: (value: number) => I32;
    /** Saturating; NaN gives 0. */
    readonly truncSatF32S: Unary<"f32", "i32">;
    readonly reinterpretF32: Unary<"f32", "i32">;
    /** The smaller (larger) of two unsigned numbers. Both operands are evaluated twice. */
    readonly minU: Binary<"i32">;
    readonly maxU: Binary<"i32">;
    readonly minS: Binary<"i32">;
    readonly maxS: Binary<"i32">;
  } = {
  ...table(i32Binary, binary("i32", "i32")),
  ...table(i32Unary, unary("i32", "i32")),
  ...table(i32Load, load("i32")),
  const: (value) => operand("i32", value),
  truncSatF32S: unary("f32", "i32")(raw(0xfc, 0x00)),
  reinterpretF32: unary("f32", "i32")(raw(0xbc)),
  minU: (a, b) => select(operand("i32", a), operand("i32", b), i32.ltU(a, b)),
  maxU: (a, b) => select(operand("i32", a), operand("i32", b), i32.gtU(a, b)),
  minS: (a, b) => select(operand("i32", a), operand("i32", b), i32.ltS(a, b)),
  maxS: (a, b) => select(operand("i32", a), operand("i32", b), i32.gtS(a, b)),
};

const f32Binary = {
  add: 0x92,
  sub: 0x93,
  mul: 0x94,
  div: 0x95,
  min: 0x96,
  max: 0x97,
  copysign: 0x98,
} as const;
const f32Compare = { eq: 0x5b, ne: 0x5c, lt: 0x5d, gt: 0x5e, le: 0x5f, ge: 0x60 } as const;
const f32Unary = {
  abs: 0x8b,
  neg: 0x8c,
  ceil: 0x8d,
  floor: 0x8e,
  trunc: 0x8f,
  nearest: 0x90,
  sqrt: 0x91,
} as const;

export const f32: Table<keyof typeof f32Binary, Binary<"f32">> &
  Table<keyof typeof f32Compare, Binary<"f32", "i32">> &
  Table<keyof typeof f32Unary, Unary<"f32">> & {
    readonly const: (value: number) => Value<"f32">;
    readonly load: Load<"f32">;
    readonly convertI32S: Unary<"i32", "f32">;
    readonly convertI32U: Unary<"i32", "f32">;
    readonly reinterpretI32: Unary<"i32", "f32">;
    readonly demoteF64: Unary<"f64", "f32">;
  } = {
  ...table(f32Binary, binary("f32", "f32")),
  ...table(f32Compare, binary("f32", "i32")),
  ...table(f32Unary, unary("f32", "f32")),
  const: (value) => operand("f32", value),
  load: load("f32")(raw(0x2a)),
  convertI32S: unary("i32", "f32")(raw(0xb2)),
  convertI32U: unary("i32", "f32")(raw(0xb3)),
  reinterpretI32: unary("i32", "f32")(raw(0xbe)),
  demoteF64: unary("f64", "f32")(raw(0xb6)),
};

const f64Binary = {
  add: 0xa0,
  sub: 0xa1,
  mul: 0xa2,
  div: 0xa3,
  min: 0xa4,
  max: 0xa5,
  copysign: 0xa6,
} as const;
const f64Compare = { eq: 0x61, ne: 0x62, lt: 0x63, gt: 0x64, le: 0x65, ge: 0x66 } as const;
const f64Unary = {
  abs: 0x99,
  neg: 0x9a,
  ceil: 0x9b,
  floor: 0x9c,
  trunc: 0x9d,
  nearest: 0x9e,
  sqrt: 0x9f,
} as const;

export const f64: Table<keyof typeof f64Binary, Binary<"f64">> &
  Table<keyof typeof f64Compare, Binary<"f64", "i32">> &
  Table<keyof typeof f64Unary, Unary<"f64">> & {
    readonly const: (value: number) => Value<"f64">;
    readonly load: Load<"f64">;
    readonly convertI32S: Unary<"i32", "f64">;
    readonly convertI32U: Unary<"i32", "f64">;
    readonly promoteF32: Unary<"f32", "f64">;
  } = {
  ...table(f64Binary, binary("f64", "f64")),
  ...table(f64Compare, binary("f64", "i32")),
  ...table(f64Unary, unary("f64", "f64")),
  const: (value) => operand("f64", value),
  load: load("f64")(raw(0x2b)),
  convertI32S: unary("i32", "f64")(raw(0xb7)),
  convertI32U: unary("i32", "f64")(raw(0xb8)),
  promoteF32: unary("f32", "f64")(raw(0xbb)),
};
