import {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryArguments,
  type FloatType,
  type Operand,
  type Scalar,
  type UnaryArguments,
  type UnaryKind,
  unaryKinds,
} from "@backplane/core";
import { type Call, elementBytes, type Place } from "../checks.js";
import type { Bytes } from "../graph.js";
import { numbers, type Plan, storing } from "../plan.js";

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** x times what falls to 0 faster than x rises. The product of -Infinity and 0 would be NaN. */
const weighted =
  (weight: (x: number) => number) =>
  (x: number): number =>
    x === Number.NEGATIVE_INFINITY ? -0 : x * weight(x);

/** Functions that the language has, or that take one line. It has no error function: erf and gelu are left out. */
export const unaryFunctions: Readonly<Partial<Record<UnaryKind, (x: number) => number>>> = {
  relu: (x) => Math.max(x, 0),
  relu6: (x) => Math.min(Math.max(x, 0), 6),
  sigmoid,
  tanh: Math.tanh,
  exp: Math.exp,
  log: Math.log,
  sqrt: Math.sqrt,
  rsqrt: (x) => 1 / Math.sqrt(x),
  reciprocal: (x) => 1 / x,
  abs: Math.abs,
  neg: (x) => -x,
  sin: Math.sin,
  cos: Math.cos,
  floor: Math.floor,
  ceil: Math.ceil,
  round: roundToEven,
  sign: Math.sign,
  geluTanh: weighted((x) => sigmoid(2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: weighted(sigmoid),
  softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
};

export const binaryFunctions: Readonly<Partial<Record<ArithmeticKind, (a: number, b: number) => number>>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  max: Math.max,
  min: Math.min,
  pow: Math.pow,
};

/** Adding and subtracting 2^52, where doubles have no fraction, rounds to the nearest, ties to even. */
function roundToEven(x: number): number {
  const magnitude = Math.abs(x);
  if (!(magnitude < 2 ** 52)) return x;
  const rounded = magnitude + 2 ** 52 - 2 ** 52;
  return x < 0 || Object.is(x, -0) ? -rounded : rounded;
}

export function planUnary(call: Call, args: UnaryArguments, dtype: FloatType): Plan | undefined {
  const apply = unaryFunctions[call.choice("kind", args.kind, unaryKinds)]!;
  const n = call.whole("n", args.n);
  const input = call.place("input", args.input, n, elementBytes[dtype]);
  const output = call.place("output", args.output, n, elementBytes[dtype]);
  call.apart(["output", output], ["input", input], "exactly");
  if (n === 0) return undefined;
  return {
    output,
    inputs: [input],
    compute(bytes, [inputBytes]) {
      const values = numbers(inputBytes!, input, dtype);
      const store = storing(bytes, output, dtype);
      for (let i = 0; i < n; i++) store(i, apply(values[i]!));
    },
  };
}

/** An operand of binary: one number, or elements at a place with a shape. */
type Side =
  | { readonly scalar: number; readonly shape: readonly number[] }
  | { readonly place: Place; readonly shape: readonly number[] };

export function planBinary(call: Call, args: BinaryArguments, dtype: FloatType): Plan | undefined {
  const apply = binaryFunctions[call.choice("kind", args.kind, arithmeticKinds)]!;
  if (isScalar(args.a) && isScalar(args.b)) call.refuse("b", args.b, "at most one scalar");
  if (args.n !== undefined && (args.shapeA !== undefined || args.shapeB !== undefined))
    call.refuse("n", args.n, "either n, or shapeA and shapeB");
  const flat = args.n === undefined ? undefined : [call.whole("n", args.n)];

  const shapeOf = (name: string, operand: Operand | Scalar, given: unknown): readonly number[] => {
    if (!isScalar(operand)) return flat ?? call.wholes(name, given);
    if (given !== undefined) call.refuse(name, given, "none, for a scalar");
    return [];
  };
  const shapeA = shapeOf("shapeA", args.a, args.shapeA);
  const shapeB = shapeOf("shapeB", args.b, args.shapeB);
  const shape = broadcast(call, shapeA, shapeB);
  if (args.outputShape !== undefined) {
    const given = call.wholes("outputShape", args.outputShape);
    if (given.length !== shape.length || given.some((extent, axis) => extent !== shape[axis]))
      call.refuse("outputShape", given, `[${shape.join(", ")}]`);
  }
  const n = call.count("outputShape", shape);
  const output = call.place("output", args.output, n, elementBytes[dtype]);
  const sideOf = (name: "a" | "b", own: readonly number[]): Side => {
    const operand = args[name];
    if (isScalar(operand)) return { scalar: call.factor(`${name}.scalar`, operand.scalar), shape: own };
    const place = call.place(name, operand, call.count(`shape of ${name}`, own), elementBytes[dtype]);
    call.apart(["output", output], [name, place], "exactly");
    return { place, shape: own };
  };
  const sides = [sideOf("a", shapeA), sideOf("b", shapeB)] as const;
  if (n === 0) return undefined;

  return {
    output,
    inputs: sides.flatMap((side) => ("place" in side ? [side.place] : [])),
    compute(bytes, inputs) {
      const rest = [...inputs];
      const [a, b] = sides.map((side) =>
        reading(side, "place" in side ? rest.shift() : undefined, shape, dtype),
      );
      const store = storing(bytes, output, dtype);
      for (let i = 0; i < n; i++) store(i, apply(a!(i), b!(i)));
    },
  };
}

function isScalar(operand: Operand | Scalar): operand is Scalar {
  return typeof operand === "object" && operand !== null && "scalar" in operand;
}

function broadcast(call: Call, a: readonly number[], b: readonly number[]): readonly number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const [x, y] = [a[axis - rank + a.length] ?? 1, b[axis - rank + b.length] ?? 1];
    if (x !== y && x !== 1 && y !== 1)
      call.refuse("shapeB", b, `shapes that broadcast with [${a.join(", ")}]`);
    return x === 1 ? y : x;
  });
}

/** The element of an operand that belongs to the i-th of the output. */
function reading(
  side: Side,
  bytes: Bytes | undefined,
  outputShape: readonly number[],
  dtype: FloatType,
): (i: number) => number {
  if ("scalar" in side) return () => side.scalar;
  const values = numbers(bytes!, side.place, dtype);
  const own = side.shape;
  return (i) => {
    let at = 0;
    let stride = 1;
    // From the last axis on; axes that the operand lacks in front repeat.
    for (let axis = 1, left = i; axis <= own.length; axis++) {
      const extent = own.at(-axis)!;
      const whole = outputShape.at(-axis)!;
      if (extent !== 1) at += (left % whole) * stride;
      stride *= extent;
      left = Math.floor(left / whole);
    }
    return values[at]!;
  };
}
