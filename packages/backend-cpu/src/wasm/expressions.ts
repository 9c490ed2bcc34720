import {
  type Code,
  littleEndian,
  raw,
  signed,
  unsigned,
  type ValueType,
  valueTypeCodes,
} from "./encoding.js";

/**
 * An expression: instructions that leave one value on the stack. Expressions nest, so that kernels read like
 * their formulas: `f32x4.add(sum, f32x4.mul(a, b))`. An expression is evaluated at each place where it is
 * used; `f.let(expression)` evaluates it once and keeps it in a local.
 */
export interface Value<Type extends ValueType = ValueType> {
  readonly type: Type;
  readonly code: Code;
}

/** An operand: an expression, or for scalars also a number. */
export type Arg<Type extends ValueType> = Type extends "v128" ? Value<Type> : Value<Type> | number;

export type I32 = Value<"i32">;
export type V128 = Value<"v128">;

/** An address plus a constant number of bytes; the sum must not pass 2^32. */
export type Load<Type extends ValueType> = (address: Arg<"i32">, offset?: number) => Value<Type>;
export type LoadLane = (lane: number, address: Arg<"i32">, into: V128, offset?: number) => V128;
export type Unary<Type extends ValueType, Result extends ValueType = Type> = (a: Arg<Type>) => Value<Result>;
export type Binary<Type extends ValueType, Result extends ValueType = Type> = (
  a: Arg<Type>,
  b: Arg<Type>,
) => Value<Result>;
export type Shift = (a: V128, bits: Arg<"i32">) => V128;

/** Instructions that push a constant. */
const opcodes = { i32: raw(0x41), i64: raw(0x42), f32: raw(0x43), f64: raw(0x44) };

/** Turns a number into a constant of the given type; returns expressions unchanged. */
export function operand<Type extends ValueType>(type: Type, arg: Arg<Type>): Value<Type> {
  if (typeof arg !== "number") return arg as Value<Type>;
  if (type === "i32") return { type, code: opcodes.i32 + signed(arg) };
  if (type === "i64") return { type, code: opcodes.i64 + signed(arg) };
  if (type === "f32") return { type, code: opcodes.f32 + littleEndian("f32", arg) };
  return { type, code: opcodes.f64 + littleEndian("f64", arg) };
}

/** SIMD instructions have a prefix and a number in LEB128. */
export const simd: (opcode: number) => Code = (opcode) => raw(0xfd) + unsigned(opcode);
/** Kernels do not promise alignment (operands may start anywhere), so the hint is 1 byte. */
export const memoryArgument = (offset: number): Code => raw(0) + unsigned(offset);

export type Table<Names extends string, Entry> = Readonly<Record<Names, Entry>>;

export function table<Names extends string, Entry>(
  opcodes: Readonly<Record<Names, number | readonly number[]>>,
  entry: (opcode: Code) => Entry,
): Table<Names, Entry> {
  const entries = Object.entries<number | readonly number[]>(opcodes).map(([key, opcode]) => [
    key,
    entry(typeof opcode === "number" ? raw(opcode) : raw(...opcode)),
  ]);
  return Object.fromEntries(entries) as Table<Names, Entry>;
}

export const unary =
  <Type extends ValueType, Result extends ValueType>(type: Type, result: Result) =>
  (opcode: Code): Unary<Type, Result> =>
  (a) => ({ type: result, code: operand(type, a).code + opcode });

export const binary =
  <Type extends ValueType, Result extends ValueType>(type: Type, result: Result) =>
  (opcode: Code): Binary<Type, Result> =>
  (a, b) => ({ type: result, code: operand(type, a).code + operand(type, b).code + opcode });

export const load =
  <Type extends ValueType>(type: Type) =>
  (opcode: Code): Load<Type> =>
  (address, offset = 0) => ({
    type,
    code: operand("i32", address).code + opcode + memoryArgument(offset),
  });

export function vectorTable<Names extends string, Entry>(
  opcodes: Readonly<Record<Names, number>>,
  entry: (opcode: Code) => Entry,
): Table<Names, Entry> {
  const entries = Object.entries<number>(opcodes).map(([key, opcode]) => [key, entry(simd(opcode))]);
  return Object.fromEntries(entries) as Table<Names, Entry>;
}

export const shift =
  (opcode: Code): Shift =>
  (a, bits) => ({ type: "v128", code: a.code + operand("i32", bits).code + opcode });

/** `condition ? a : b`; both sides are evaluated. */
export function select<Type extends ValueType>(
  a: Value<Type>,
  b: Value<NoInfer<Type>>,
  condition: Arg<"i32">,
): Value<Type> {
  const chosen = a.type === "v128" ? raw(0x1c, 1, valueTypeCodes.v128) : raw(0x1b);
  return { type: a.type, code: a.code + b.code + operand("i32", condition).code + chosen };
}
