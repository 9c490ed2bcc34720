import {
  type BinaryKind,
  binaryKinds,
  binaryResultType,
  type DType,
  elementTypes,
  type MapType,
  type UnaryKind,
  unaryKinds,
  unaryResultType,
} from "@backplane/core";
import { refuse } from "../errors.js";
import { computedTypes, type Operand } from "../lazy/expression.js";
import { defer } from "../lazy/fusion.js";
import type { Value } from "../value.js";
import { broadcastShapes, type Shape } from "../view/shape.js";
import { operation, type TensorOperation } from "./operation.js";

/** A number in place of one of the operands, all of which are tensors otherwise. */
export interface NumberOperands {
  readonly a?: number;
  readonly b?: number;
}

type Tables = {
  readonly unary: { readonly [Kind in UnaryKind]: TensorOperation<undefined> };
  readonly binary: { readonly [Kind in BinaryKind]: TensorOperation<NumberOperands> };
};

/** Element types with arithmetic, as `unary` and `binary` have it. */
type Computed = Exclude<DType, "bf16">;

function computedType(name: string, { dtype }: Value): Computed {
  if (computedTypes[dtype] === undefined)
    refuse(
      name,
      "dtype",
      `is ${dtype}, which has no arithmetic; allowed: f32, f16, i32, u32, u8 (use cast)`,
      "UNSUPPORTED",
    );
  return dtype as Computed;
}

function unaryOperation(kind: UnaryKind): TensorOperation<undefined> {
  return operation(kind, ([x]) => {
    const dtype = computedType(kind, x!);
    const result = unaryResultType(kind, dtype);
    if (result === undefined) return refuse(kind, "x", `is of type ${dtype}, which does not have ${kind}`);
    return defer(x!, { form: "unary", kind }, result, x!.shape, [x!]);
  });
}

function binaryOperation(kind: BinaryKind): TensorOperation<NumberOperands> {
  return operation(kind, (inputs, numbers) => {
    const [a, b] = operandsOf(inputs, numbers);
    const [first, second] = [inputs[0]!, inputs[1]];
    const dtype = computedType(kind, first);
    checkNumber(kind, "a", numbers.a, dtype);
    checkNumber(kind, "b", numbers.b, dtype);
    if (second !== undefined) checkSameType(kind, first, second);
    const result = binaryResultType(kind, dtype);
    if (result === undefined) return refuse(kind, "a", `is of type ${dtype}, which does not have ${kind}`);
    const shape = second === undefined ? first.shape : broadcastShapes(kind, first.shape, second.shape);
    return defer(first, { form: "binary", kind }, result, shape, [a, b]);
  });
}

/** Throws unless a number in place of a tensor is one of the type: now, rather than when the expression is computed. */
function checkNumber(name: string, argument: "a" | "b", number: number | undefined, dtype: DType): void {
  if (number === undefined) return;
  const { range } = elementTypes[dtype];
  const isNumber =
    range === undefined
      ? Number.isFinite(Math.fround(number))
      : Number.isInteger(number) && number >= range[0] && number <= range[1];
  if (isNumber) return;
  const allowed =
    range === undefined ? "numbers that are finite in f32" : `whole numbers from ${range[0]} to ${range[1]}`;
  refuse(name, argument, `is ${number}, beside ${dtype}; allowed: ${allowed}`);
}

function operandsOf(inputs: readonly Value[], { a, b }: NumberOperands): readonly [Operand, Operand] {
  if (a !== undefined) return [a, inputs[0]!];
  return [inputs[0]!, b ?? inputs[1]!];
}

function checkSameType(name: string, a: Value, b: Value): void {
  if (a.dtype !== b.dtype)
    refuse(name, "dtypes", `are ${a.dtype} and ${b.dtype}; allowed: one type (use cast)`);
}

/** The elementwise operations of one and of two operands. */
export const elementwise: Tables = {
  unary: table(unaryKinds, unaryOperation),
  binary: table(binaryKinds, binaryOperation),
};

/** An operation for each kind, and under no other name: "toString" is no kind. */
function table<Kind extends string, Operation>(
  kinds: readonly Kind[],
  operationOf: (kind: Kind) => Operation,
): Readonly<Record<Kind, Operation>> {
  const entries = Object.fromEntries(kinds.map((kind) => [kind, operationOf(kind)]));
  return Object.setPrototypeOf(entries, null) as Record<Kind, Operation>;
}

/** a where the condition, of u8, is not 0, else b; inputs: condition, and a and b unless they are numbers. */
export const select: TensorOperation<NumberOperands> = operation(
  "where",
  ([condition, ...values], { a: numberA, b: numberB }) => {
    if (condition!.dtype !== "u8")
      refuse("where", "condition", `is of type ${condition!.dtype}; allowed: u8, as comparisons give it`);
    const a = numberA ?? values[0]!;
    const b = numberB ?? values.at(-1)!;
    if (values.length === 2) checkSameType("where", values[0]!, values[1]!);
    const dtype = values.length === 0 ? "f32" : computedType("where", values[0]!);
    checkNumber("where", "a", numberA, dtype);
    checkNumber("where", "b", numberB, dtype);
    const shape = values.reduce(
      (shape: Shape, value) => broadcastShapes("where", shape, value.shape),
      condition!.shape,
    );
    return defer(condition!, { form: "select" }, dtype, shape, [condition!, a, b]);
  },
);

const converted: Readonly<Partial<Record<DType, MapType>>> = { f32: "f32", i32: "i32", u32: "u32", u8: "u8" };

/** Whether a conversion can be part of an expression: those that round to 16 bits must really do so. */
export function isConvertedInPlace(from: DType, to: DType): boolean {
  return converted[from] !== undefined && converted[to] !== undefined;
}

/** Another type, between those in which expressions compute. */
export const convert: TensorOperation<{ readonly to: DType }> = operation("convert", ([x], { to }) =>
  defer(x!, { form: "convert", to: converted[to]! }, to, x!.shape, [x!]),
);
