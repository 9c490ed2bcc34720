import type {
  ArithmeticKind,
  Axis,
  FloatType,
  IntegerType,
  LogicalKind,
  ReducedType,
  ReduceKind,
  ReduceProblem,
} from "@backplane/core";
import { layouts } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext, OperationContext } from "../../runtime/index.js";
import { storeRounded } from "../halves.js";
import {
  indivisible,
  kernelFits,
  middleOf,
  move,
  placeholder,
  type Run,
  type Segmentation,
  type SegmentTools,
  scratchBytes,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";

type Problem = ReduceProblem<DeviceMemory>;
type NumberProblem = ReduceProblem<DeviceMemory, FloatType | IntegerType>;
type Tools = SegmentTools<Problem>;

/** The operation that joins two partial results; a mean is a sum until its end. See `joinLogarithms`. */
const joins: Readonly<Record<Exclude<ReduceKind, "logSumExp">, ArithmeticKind | LogicalKind>> = {
  ...{ sum: "add", mean: "add", prod: "mul", max: "max", min: "min" },
  ...{ any: "logicalOr", all: "logicalAnd" },
};

/**
 * Cuts the outermost axis as long as the input stays in one piece. Along a kept axis the parts are problems of
 * their own. Along a reduced one they are joined as values (f32 of f16): in the output, or in scratch if that is of
 * another type. Truth values are joined as such.
 */
export function reduceSegments(tools: Tools): Segmentation<Problem> {
  return {
    longestWindow: ({ input, output }) => Math.max(windowOf(input), windowOf(output)),
    // Results and partial results of 4 bytes: no more numbers of each than there were.
    scratchBound: ({ dtype }, longest) => scratchFactors[dtype] * longest,

    divide(context, problem, run) {
      const { dtype, output } = problem;
      if (outermost(problem, context) === "kept")
        for (const part of halves(problem, "kept")) run(context, part);
      else if (dtype === "u8") joinTruths(context, tools, problem, run);
      else if (storeRounded[dtype] === undefined) {
        joinParts(context, tools, summing({ ...problem, dtype }), true);
        divideSums(context, tools, problem, output);
      } else joinBlocks(context, tools, { ...problem, dtype }, [0]);
    },
  };
}

/** How much longer numbers of 4 bytes are than elements, or for values of that size, than half of them. */
const scratchFactors: Readonly<Record<ReducedType, number>> = { f32: 2, f16: 2, i32: 2, u32: 2, u8: 4 };

/** One half of the input is reduced into the output, the other one into scratch. */
function joinTruths(context: OperationContext, tools: Tools, problem: Problem, run: Run<Problem>): void {
  const { kind, outputCount, output } = problem;
  const [before, after] = halves(problem, "reduced");
  run(context, before);
  context.scoped((inner) => {
    const rest = inner.scratch(outputCount);
    run(inner, { ...after, output: rest });
    const a = { region: output, strides: [1] };
    const b = { region: rest, strides: [1] };
    const join = { kind: joins[kind as "any" | "all"], shape: [outputCount], n: outputCount, a, b, output };
    tools.run("binary", inner, { dtype: "u8", ...join });
  });
}

/** Until they are divided, means are sums. */
function summing(problem: NumberProblem): NumberProblem {
  return problem.kind === "mean" ? { ...problem, kind: "sum" } : problem;
}

function divideSums(
  context: OperationContext,
  tools: Tools,
  { kind, reducedCount, outputCount }: Problem,
  sums: BufferRegion,
): void {
  if (kind !== "mean") return;
  tools.run("binary", context, {
    ...{ dtype: "f32", kind: "div", shape: [outputCount], n: outputCount },
    ...{ a: { region: sums, strides: [1] }, b: { scalar: Math.fround(reducedCount) }, output: sums },
  });
}

/**
 * Rounded results of input blocks that begin at these places, each of the problem's shape. Cuts the outputs
 * until their f32 sums can be bound; going past reduced axes makes more blocks. Those are then as long
 * as the outputs, so that there are no more of them than the size of the input calls for.
 */
function joinBlocks(
  context: OperationContext,
  tools: Tools,
  problem: NumberProblem,
  places: readonly number[],
): void {
  const { dtype, outputCount, input, output } = problem;
  const count = outputCount * problem.reducedCount;
  if (4 * outputCount > scratchBytes(context.features)) {
    const list = outermost(problem, context);
    const axis = problem[list][0]!;
    if (list === "reduced") {
      const starts = Array.from({ length: axis.extent }, (_, i) => i * axis.stride);
      const inner = places.flatMap((place) => starts.map((start) => place + start));
      joinBlocks(context, tools, { ...part(problem, list, 0, 1), input }, inner);
      return;
    }
    const middle = middleOf(axis.extent);
    for (const [first, end] of [
      [0, middle],
      [middle, axis.extent],
    ] as const) {
      const starts = places.map((place) => place + first * axis.stride);
      joinBlocks(context, tools, { ...part(problem, list, first, end), input }, starts);
    }
    return;
  }
  context.scoped((inner) => {
    const sums = inner.scratch(4 * outputCount);
    for (const [i, place] of places.entries()) {
      const block = { ...summing(problem), input: sliceOf(input, dtype, place, count), output: sums };
      joinParts(inner, tools, block, i === 0);
    }
    // Blocks have the same number of elements, all of which count for the mean.
    const whole = { ...problem, reducedCount: problem.reducedCount * places.length };
    divideSums(inner, tools, whole, sums);
    storeRounded[dtype]!(inner, sums, output, { batch: 1, rows: 1, columns: outputCount });
  });
}

/** Results that are values, from input of any type, written to the output or joined with its contents. */
function joinParts(context: OperationContext, tools: Tools, problem: NumberProblem, first: boolean): void {
  const { dtype, kind, outputCount, input, output } = problem;
  const limit = windowBytes(context.features);
  const count = outputCount * problem.reducedCount;
  const { value } = layouts[dtype];
  const isWide = dtype === value;
  const wide: Problem = { ...problem, dtype: value, input: isWide ? input : placeholder(4 * count) };
  const bound = [input, output].every((region) => windowOf(region) <= limit);
  const copied = isWide ? 0 : 4 * count;
  if (!bound || copied > scratchBytes(context.features) || !kernelFits(context, tools.kernel, wide)) {
    const list = outermost(problem, context);
    const [before, after] = halves(problem, list, value);
    joinParts(context, tools, before, first);
    joinParts(context, tools, after, first && list === "kept");
    return;
  }
  context.scoped((inner) => {
    let source = input;
    if (!isWide) {
      source = inner.scratch(4 * count);
      move(inner, source, input, dtype, [{ extent: count, from: 1, to: 1 }]);
    }
    const result = first ? output : inner.scratch(4 * outputCount);
    tools.kernel.run(inner, { ...wide, input: source, output: result });
    if (first) return;
    if (kind === "logSumExp") {
      joinLogarithms(inner, tools, output, result, outputCount);
      return;
    }
    const a = { region: output, strides: [1] };
    const b = { region: result, strides: [1] };
    const join = { kind: joins[kind], shape: [outputCount], n: outputCount, a, b, output };
    tools.run("binary", inner, { dtype: value, ...join });
  });
}

/**
 * a = l + ln(1 + e^(s - l)) with the larger l and the smaller s of a and b, in f32. What is subtracted is kept finite, so that
 * two that are infinite have no difference of NaN.
 */
function joinLogarithms(
  context: OperationContext,
  tools: Tools,
  a: BufferRegion,
  b: BufferRegion,
  n: number,
): void {
  const [smaller, finite] = [context.scratch(4 * n), context.scratch(4 * n)];
  const of = (region: BufferRegion) => ({ region, strides: [1] });
  type Operand = ReturnType<typeof of> | { readonly scalar: number };
  const binary = (kind: ArithmeticKind, one: Operand, other: Operand, output: BufferRegion): void =>
    tools.run("binary", context, { dtype: "f32", kind, shape: [n], n, a: one, b: other, output });
  const unary = (kind: "exp" | "log1p", region: BufferRegion): void =>
    tools.run("unary", context, { dtype: "f32", kind, n, input: region, output: region });
  const largest = (2 - 2 ** -23) * 2 ** 127;
  binary("min", of(a), of(b), smaller);
  binary("max", of(a), of(b), a);
  binary("max", of(a), { scalar: -largest }, finite);
  binary("min", of(finite), { scalar: largest }, finite);
  binary("sub", of(smaller), of(finite), smaller);
  unary("exp", smaller);
  unary("log1p", smaller);
  binary("add", of(a), of(smaller), a);
}

type List = "kept" | "reduced";

/** The list with the axis of the longest stride. Axes have at least two elements. */
function outermost({ kept, reduced }: Problem, { features }: KernelContext): List {
  const strides = [kept[0], reduced[0]].map((axis) => axis?.stride ?? 0);
  if (kept.length === 0 && reduced.length === 0) throw indivisible("reduce", windowBytes(features));
  return strides[0]! > strides[1]! ? "kept" : "reduced";
}

function halves<P extends Problem>(
  problem: P,
  list: List,
  outputType: ReducedType = problem.dtype,
): readonly [P, P] {
  const { extent } = problem[list][0]!;
  const middle = middleOf(extent);
  return [part(problem, list, 0, middle, outputType), part(problem, list, middle, extent, outputType)];
}

/** Returns the part at [first, end) of the outermost axis, which is the first of `list`. */
function part<P extends Problem>(
  problem: P,
  list: List,
  first: number,
  end: number,
  outputType: ReducedType = problem.dtype,
): P {
  const { dtype, kept, outputCount } = problem;
  const [{ extent, stride }, ...inner] = problem[list] as readonly [Axis, ...Axis[]];
  const rest = end - first === 1 ? inner : [{ extent: end - first, stride }, ...inner];
  const input = sliceOf(problem.input, dtype, first * stride, (end - first) * stride);
  if (list === "reduced")
    return {
      ...problem,
      reduced: rest,
      reducedCount: (problem.reducedCount / extent) * (end - first),
      input,
    };
  const step = outputCount / kept[0]!.extent;
  return {
    ...{ ...problem, kept: rest, outputCount: step * (end - first), input },
    output: sliceOf(problem.output, outputType, first * step, (end - first) * step),
  };
}
