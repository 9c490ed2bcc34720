import { type DType, dtypeBytes } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** Shape of the input and the output; at most 8 axes. [] is one element. */
  shape: { role: "extents" },
  /** The operand's place is that of element [0, ..., 0]; with negative strides others lie before it. */
  input: { role: "reads", shape: "shape, at inputStrides" },
  /** Elements from one place to the next along each axis; 0 repeats, and places may be read several times. */
  inputStrides: { role: "strides", otherwise: "contiguous" },
  /** As for the input. Elements between its places are left as they are. */
  output: { role: "writes", shape: "shape, at outputStrides" },
  /**
   * Sorted by size, without axes of extent 1 and regardless of sign, each must be longer than the smaller ones
   * reach together, as in every slice, step or transposition of contiguous elements: no two places are one.
   */
  outputStrides: { role: "strides", otherwise: "contiguous" },
  /** Of the input, and of the output unless it has a type of its own. */
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32", "u8", "bf16"], default: "f32" },
  outputDtype: {
    role: "elementType",
    types: ["f32", "f16", "i32", "u32", "u8", "bf16"],
    otherwise: "dtype",
  },
} as const;

/**
 * output[i, j, ...] = input[i, j, ...]: transposes, slices, flips, repeats, concatenates, converts.
 *
 * With one element type all bits are kept. Otherwise numbers are converted, on every backend alike, whatever
 * `capabilities.numerics` says of arithmetic:
 *
 * - from floats to integers: without the fraction; what is too large or too small becomes the largest or least
 *   integer of the type, and NaN becomes 0;
 * - between integers: the low bits are kept;
 * - to floats: to nearest, ties to even. Subnormal numbers, infinities and the sign of 0 are kept; NaN stays
 *   NaN, with any bits.
 *
 * The bytes from the first to the last place of the output must not meet those of the input, unless every
 * place is the same and so is the type: then there is nothing to do.
 */
export interface CopyArguments extends ArgumentsOf<typeof table> {}

/** The most axes that a shape may have. */
export const mostAxes = 8;

/**
 * Axes of extent 1 are dropped, those with negative output strides run the other way, and neighbours are merged
 * if both strides allow it. Axes are in the order of their output strides, which are positive: the innermost
 * one, the last, has the smallest. An empty shape means one element.
 */
export interface CopyProblem<Memory> {
  readonly dtype: DType;
  readonly outputDtype: DType;
  readonly shape: readonly number[];
  /** Product of the shape, at least 1. */
  readonly n: number;
  /** Elements per step along each axis: 0 or negative ones too. */
  readonly inputStrides: readonly number[];
  readonly outputStrides: readonly number[];
  /** From the first to the last place that is read. */
  readonly input: Region<Memory>;
  /** The place of element [0, ..., 0] in the input's region, in elements. */
  readonly inputStart: number;
  /** From the place of element [0, ..., 0] to the last one that is written. */
  readonly output: Region<Memory>;
}

/**
 * The problem of transposing each matrix of a batch: output[b, j, i] = input[b, i, j]. All follow one another. There
 * are at least 2 rows and 2 columns.
 */
export function transposition<Memory>(
  dtype: DType,
  [batch, rows, columns]: readonly [number, number, number],
  input: Region<Memory>,
  output: Region<Memory>,
): CopyProblem<Memory> {
  const size = rows * columns;
  return moveProblem(dtype, [batch, columns, rows], [size, 1, columns], [size, rows, 1], input, output);
}

/**
 * The problem of a copy within one element type, for backends that move operands of other operations. Each region is from the
 * first to the last place; no two places of the output are one.
 */
export function moveProblem<Memory>(
  dtype: DType,
  shape: readonly number[],
  inputStrides: readonly number[],
  outputStrides: readonly number[],
  input: Region<Memory>,
  output: Region<Memory>,
): CopyProblem<Memory> {
  return problemOf(dtype, dtype, mergeAxes(axesOf(shape, inputStrides, outputStrides)), input, output);
}

/** One axis of a move: its extent, and elements per step in both regions; those of the output are positive. */
export interface MoveStep {
  readonly extent: number;
  readonly input: number;
  readonly output: number;
}

/**
 * The problem of moving elements, and of converting them if there is another type for the output, from element `from` of a region on and to element `to` of
 * another on, for backends that move operands of other operations. All extents are at least 1.
 */
export function stridedMove<Memory>(
  dtype: DType,
  steps: readonly MoveStep[],
  source: { readonly region: Region<Memory>; readonly first: number },
  target: { readonly region: Region<Memory>; readonly first: number },
  outputDtype: DType = dtype,
): CopyProblem<Memory> {
  const shape = steps.map(({ extent }) => extent);
  const part = (
    { region, first }: { readonly region: Region<Memory>; readonly first: number },
    strides: readonly number[],
    type: DType,
  ): Region<Memory> => {
    const { count, before } = reachOf(shape, strides);
    const bytes = dtypeBytes[type];
    const byteOffset = region.byteOffset + (first - before) * bytes;
    return { memory: region.memory, byteOffset, byteLength: count * bytes };
  };
  const inputs = steps.map(({ input }) => input);
  const outputs = steps.map(({ output }) => output);
  const axes = mergeAxes(axesOf(shape, inputs, outputs));
  const [input, output] = [part(source, inputs, dtype), part(target, outputs, outputDtype)];
  return problemOf(dtype, outputDtype, axes, input, output);
}

/** The problem of converting `n` contiguous elements. */
export function conversion<Memory>(
  dtype: DType,
  outputDtype: DType,
  n: number,
  input: Region<Memory>,
  output: Region<Memory>,
): CopyProblem<Memory> {
  return problemOf(dtype, outputDtype, axesOf([n], [1], [1]), input, output);
}

function problemOf<Memory>(
  dtype: DType,
  outputDtype: DType,
  axes: readonly CopyAxis[],
  input: Region<Memory>,
  output: Region<Memory>,
): CopyProblem<Memory> {
  const shape: number[] = [];
  const inputStrides: number[] = [];
  const outputStrides: number[] = [];
  let n = 1;
  for (let i = 0; i < axes.length; i++) {
    const axis = axes[i]!;
    shape.push(axis.extent);
    inputStrides.push(axis.input);
    outputStrides.push(axis.output);
    n *= axis.extent;
  }
  return {
    dtype,
    outputDtype,
    shape,
    n,
    inputStrides,
    outputStrides,
    input,
    inputStart: startOf(axes),
    output,
  };
}

export const copy: Operation<CopyArguments, CopyProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "copy",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const outputDtype =
      args.outputDtype === undefined
        ? dtype
        : read.elementType("outputDtype", args.outputDtype, {
            types: table.outputDtype.types,
            default: dtype,
          });
    const shape = read.extents("shape", args.shape);
    if (shape.length > mostAxes) read.fail("shape", `has ${shape.length} axes; allowed: at most ${mostAxes}`);
    const n = read.product("shape", shape);
    const isRun = args.inputStrides === undefined && args.outputStrides === undefined;
    let axes: readonly CopyAxis[] = n > 1 ? [{ extent: n, input: 1, output: 1 }] : none;
    let places: Reach = { count: n, before: 0 };
    let results = places;
    if (!isRun) {
      const inputStrides = read.strides("inputStrides", args.inputStrides, shape);
      const outputStrides = read.strides("outputStrides", args.outputStrides, shape);
      axes = mergeAxes(axesOf(shape, inputStrides, outputStrides));
      if (n > 0) read.apart("outputStrides", axes, outputStrides);
      places = reachOf(shape, inputStrides);
      results = reachOf(shape, outputStrides);
    }
    const input = read.region(binder, "input", args.input, places.count, dtype, places.before);
    const output = read.region(binder, "output", args.output, results.count, outputDtype, results.before);
    if (n === 0) return undefined;
    const problem = problemOf(dtype, outputDtype, axes, input, output);
    const isSame =
      dtype === outputDtype &&
      input.memory === output.memory &&
      input.byteOffset + problem.inputStart * dtypeBytes[dtype] === output.byteOffset &&
      axes.every((axis) => axis.input === axis.output);
    if (isSame) return undefined;
    read.disjoint({ argument: "output", region: output }, { argument: "input", region: input });
    return problem;
  },

  /** A conversion counts as a function of one element. */
  flops: ({ dtype, outputDtype, n }) => (dtype === outputDtype ? 0 : n),

  bytes({ dtype, outputDtype, shape, n, inputStrides, input }) {
    const read = shape.reduce((count, extent, i) => (inputStrides[i] === 0 ? count : count * extent), 1);
    return Math.min(read * dtypeBytes[dtype], input.byteLength) + n * dtypeBytes[outputDtype];
  },
});

interface CopyAxis {
  readonly extent: number;
  /** Elements per step. */
  readonly input: number;
  readonly output: number;
}

const none: readonly CopyAxis[] = [];

/** The elements from the first to the last place, and how many of them come before element [0, ..., 0]. */
interface Reach {
  readonly count: number;
  readonly before: number;
}

function reachOf(shape: readonly number[], strides: readonly number[]): Reach {
  if (shape.includes(0)) return { count: 0, before: 0 };
  let [before, after] = [0, 0];
  for (let i = 0; i < shape.length; i++) {
    const reach = (shape[i]! - 1) * strides[i]!;
    if (reach < 0) before -= reach;
    else after += reach;
  }
  return { count: before + 1 + after, before };
}

/** Returns the axes of more than one element, with positive output strides, the largest first. */
function axesOf(
  shape: readonly number[],
  inputStrides: readonly number[],
  outputStrides: readonly number[],
): readonly CopyAxis[] {
  const axes: CopyAxis[] = [];
  for (let i = 0; i < shape.length; i++) {
    const extent = shape[i]!;
    if (extent <= 1) continue;
    const [input, output] = [inputStrides[i]!, outputStrides[i]!];
    // Not -0.
    const axis = output < 0 ? { extent, input: 0 - input, output: -output } : { extent, input, output };
    // There are few axes, most of them in order.
    let place = axes.length;
    for (; place > 0 && axes[place - 1]!.output < axis.output; place--) axes[place] = axes[place - 1]!;
    axes[place] = axis;
  }
  return axes;
}

/** Makes two neighbours one if both strides of the outer one continue where the inner one ends. */
function mergeAxes(axes: readonly CopyAxis[]): readonly CopyAxis[] {
  const merged: CopyAxis[] = [];
  for (let i = 0; i < axes.length; i++) {
    const axis = axes[i]!;
    const outer = merged[merged.length - 1];
    const merges =
      outer !== undefined &&
      outer.input === axis.input * axis.extent &&
      outer.output === axis.output * axis.extent;
    if (merges) {
      const { input, output } = axis;
      merged[merged.length - 1] = { extent: outer.extent * axis.extent, input, output };
    } else merged.push(axis);
  }
  return merged;
}

/** Returns the place of the first element in the region that begins with the lowest place. */
function startOf(axes: readonly CopyAxis[]): number {
  let start = 0;
  for (let i = 0; i < axes.length; i++) {
    const { extent, input } = axes[i]!;
    if (input < 0) start -= (extent - 1) * input;
  }
  return start;
}
