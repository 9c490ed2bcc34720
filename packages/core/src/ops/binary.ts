import type { DType } from "../dtype.js";
import type { Operand } from "../handles.js";
import { checkNames } from "../names.js";
import type { Region } from "../region.js";
import { type Binder, Checks, type Operation } from "./operation.js";

export type BinaryKind =
  | "add"
  | "sub"
  | "mul"
  | "div"
  | "max"
  | "min"
  /** a^b. A negative a is allowed where b is a whole number; 0^0 is 1. */
  | "pow";

export const binaryKinds: readonly BinaryKind[] = ["add", "sub", "mul", "div", "max", "min", "pow"];

/** One number in place of an operand; it is rounded to f32, also where the data are f16. */
export interface Scalar {
  readonly scalar: number;
}

/**
 * output[i] = kind(a[i], b[i]).
 *
 * Either `n` elements each, or shapes that broadcast as NumPy does: aligned at the last axis, an
 * extent of 1 (or an absent axis) repeats. At most one of a and b may be a scalar. `output` may be
 * exactly a or b where that has as many elements as the output.
 */
export interface BinaryArguments {
  readonly kind: BinaryKind;
  readonly a: Operand | Scalar;
  readonly b: Operand | Scalar;
  readonly output: Operand;
  /** Elements of output and of each operand that is not a scalar; instead of shapes. */
  readonly n?: number;
  /** Of a, contiguous; instead of n. Not for a scalar. */
  readonly shapeA?: readonly number[];
  readonly shapeB?: readonly number[];
  /** Derived; checked if given. */
  readonly outputShape?: readonly number[];
  readonly dtype?: DType;
}

export type BinaryInput<Memory> =
  | {
      readonly region: Region<Memory>;
      /** Elements per step along each axis of the problem's shape; 0 where it repeats. */
      readonly strides: readonly number[];
    }
  | {
      /** Already rounded to f32. */
      readonly scalar: number;
    };

/**
 * Axes of extent 1 are dropped and neighbours merged wherever both inputs allow it; a problem
 * without broadcasting has one axis. The shape may be empty: one element.
 */
export interface BinaryProblem<Memory> {
  readonly dtype: DType;
  readonly kind: BinaryKind;
  readonly shape: readonly number[];
  /** Product of the shape, at least 1. */
  readonly n: number;
  readonly a: BinaryInput<Memory>;
  readonly b: BinaryInput<Memory>;
  /** Contiguous. Disjoint from each input's region, or the same. */
  readonly output: Region<Memory>;
}

const binaryNames: readonly (keyof BinaryArguments)[] = [
  ...(["kind", "a", "b", "output", "n", "shapeA", "shapeB", "outputShape", "dtype"] as const),
];

export const binary: Operation<"binary"> = {
  name: "binary",
  names: binaryNames,
  operands: ["a", "b", "output"],
  scalars: ["a", "b"],
  kinds: binaryKinds,

  resolve<Memory>(args: BinaryArguments, binder: Binder<Memory>) {
    // Counted first, which costs next to nothing: see checkNames.
    let names = 0;
    if (args.kind !== undefined) names++;
    if (args.a !== undefined) names++;
    if (args.b !== undefined) names++;
    if (args.output !== undefined) names++;
    if (args.n !== undefined) names++;
    if (args.shapeA !== undefined) names++;
    if (args.shapeB !== undefined) names++;
    if (args.outputShape !== undefined) names++;
    if (args.dtype !== undefined) names++;
    for (const _ in args) names--;
    if (names !== 0) checkNames("binary", args, binaryNames);
    const checks = new Checks("binary");
    const dtype = checks.dtype(args.dtype);
    const kind = checks.oneOf("kind", args.kind, binaryKinds);
    if (isScalar(args.a) && isScalar(args.b))
      checks.fail("b", "is a scalar and so is a; allowed: at most one scalar (use fill() for a constant)");
    const shapes = operandShapes(checks, args);
    const broadcasted = broadcast(checks, shapes.a, shapes.b);
    if (args.outputShape !== undefined) {
      const given = checks.counts("outputShape", args.outputShape);
      if (given.length !== broadcasted.length || given.some((extent, i) => extent !== broadcasted[i]))
        checks.fail("outputShape", `is [${given.join(", ")}]; allowed: [${broadcasted.join(", ")}]`);
    }
    const n = checks.product("outputShape", broadcasted);

    const output = binder.region("output", args.output, n, dtype);
    const axes = mergeAxes(broadcasted, shapes.a, shapes.b);
    const input = (argument: "a" | "b", strides: readonly number[]): BinaryInput<Memory> => {
      const operand = args[argument];
      if (isScalar(operand)) return { scalar: checks.float32(`${argument}.scalar`, operand.scalar) };
      const count = checks.product(`shape${argument.toUpperCase()}`, shapes[argument]);
      const region = binder.region(argument, operand, count, dtype);
      checks.disjointOrSame({ argument: "output", region: output }, { argument, region });
      return { region, strides };
    };
    const a = input(
      "a",
      axes.map((axis) => axis.strideA),
    );
    const b = input(
      "b",
      axes.map((axis) => axis.strideB),
    );
    if (n === 0) return undefined;
    return { dtype, kind, shape: axes.map((axis) => axis.extent), n, a, b, output };
  },

  flops: (problem) => problem.n,

  bytes(problem) {
    const read = (input: BinaryInput<unknown>) => ("region" in input ? input.region.byteLength : 0);
    return read(problem.a) + read(problem.b) + problem.output.byteLength;
  },
};

function isScalar(operand: Operand | Scalar): operand is Scalar {
  return typeof operand === "object" && operand !== null && "scalar" in operand;
}

function operandShapes(
  checks: Checks,
  args: BinaryArguments,
): { readonly a: readonly number[]; readonly b: readonly number[] } {
  if (args.n !== undefined) {
    if (args.shapeA !== undefined || args.shapeB !== undefined)
      checks.fail("n", "is given together with shapes; allowed: either n, or shapeA and shapeB");
    const shape = [checks.count("n", args.n)];
    return { a: isScalar(args.a) ? [] : shape, b: isScalar(args.b) ? [] : shape };
  }
  const shapeOf = (argument: string, operand: Operand | Scalar, shape: readonly number[] | undefined) => {
    if (!isScalar(operand)) return checks.counts(argument, shape);
    if (shape !== undefined) checks.fail(argument, "is given for a scalar; allowed: none");
    return [];
  };
  return {
    a: shapeOf("shapeA", args.a, args.shapeA),
    b: shapeOf("shapeB", args.b, args.shapeB),
  };
}

/** The extent along an axis that counts from the last; 1 where there is none. */
function extentFromLast(shape: readonly number[], fromLast: number): number {
  return shape[shape.length - 1 - fromLast] ?? 1;
}

function broadcast(checks: Checks, a: readonly number[], b: readonly number[]): number[] {
  const shape: number[] = [];
  for (let i = Math.max(a.length, b.length) - 1; i >= 0; i--) {
    const x = extentFromLast(a, i);
    const y = extentFromLast(b, i);
    if (x !== y && x !== 1 && y !== 1)
      checks.fail("shapeB", `[${b.join(", ")}] does not broadcast with shapeA [${a.join(", ")}]`);
    shape.push(x === 1 ? y : x);
  }
  return shape;
}

interface BroadcastAxis {
  readonly extent: number;
  readonly strideA: number;
  readonly strideB: number;
}

function mergeAxes(shape: readonly number[], a: readonly number[], b: readonly number[]): BroadcastAxis[] {
  const axes: BroadcastAxis[] = [];
  let stepA = 1;
  let stepB = 1;
  for (let i = 0; i < shape.length; i++) {
    const extent = extentFromLast(shape, i);
    const inA = extentFromLast(a, i);
    const inB = extentFromLast(b, i);
    if (extent !== 1) {
      const axis = { extent, strideA: inA === 1 ? 0 : stepA, strideB: inB === 1 ? 0 : stepB };
      const inner = axes[0];
      // Two neighbours are one axis where, for both inputs, the outer one goes on where the inner ends.
      const merges =
        inner !== undefined &&
        axis.strideA === inner.strideA * inner.extent &&
        axis.strideB === inner.strideB * inner.extent;
      if (merges) axes[0] = { ...inner, extent: inner.extent * extent };
      else axes.unshift(axis);
    }
    stepA *= inA;
    stepB *= inB;
  }
  return axes;
}
