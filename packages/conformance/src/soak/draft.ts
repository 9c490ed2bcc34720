import {
  type ArithmeticKind,
  arithmeticKinds,
  type FloatType,
  type OperationName,
  type ReduceKind,
  reduceKinds,
  type UnaryKind,
  unaryKinds,
} from "@backplane/core";
import { binaryRange, magnitude, type Range, unaryRange, within } from "./range.js";

/** Random choices, the same for the same seed. */
export interface Dice {
  /** Uniform in [0, 1). */
  next(): number;
  /** A whole number from 0 to below `end`. */
  below(end: number): number;
  pick<Value>(values: readonly Value[]): Value;
  /** Returns a size from 1 to `largest`; small ones are as frequent as large ones. */
  size(largest: number): number;
}

export function makeDice(next: () => number): Dice {
  const below = (end: number) => Math.floor(next() * end);
  return {
    ...{ next, below },
    pick: (values) => values[below(values.length)]!,
    size: (largest) => Math.max(Math.min(Math.round(largest ** next()), Math.floor(largest)), 1),
  };
}

/** A call with everything but places in memory. */
export interface Draft {
  /** All arguments but the operands. */
  readonly rest: Readonly<Record<string, unknown>>;
  /** Elements of each input, by argument. */
  readonly inputs: Readonly<Record<string, number>>;
  readonly output: string;
  readonly outputCount: number;
  /** Whether the call reads its output, or leaves some of it as it is. */
  readonly keepsOutput?: boolean;
  /** An input over which the output may be written. */
  readonly inPlace?: string;
  /**
   * Returns the range of the results, given those of the inputs (and of an output that is read); undefined if
   * it is unknown.
   */
  range(ranges: Readonly<Record<string, Range>>): Range | undefined;
}

export interface DraftLimits {
  /** Elements of an array and multiplications of an operation, at most. */
  readonly elements: number;
  readonly multiplications: number;
}

type Draw = (dice: Dice, limits: DraftLimits, dtype: FloatType) => Draft;

function gemm(isBatched: boolean): Draw {
  return (dice, limits, dtype) => {
    const batch = isBatched ? 1 + dice.below(6) : 1;
    const cost = limits.multiplications / batch;
    const m = dice.size(Math.min(cost, 512));
    const n = dice.size(Math.min(cost / m, 512));
    const k = dice.size(Math.min(cost / m / n, 2048));
    const [transA, transB] = [dice.next() < 0.3, dice.next() < 0.3];
    const [alpha, beta] = [dice.pick([1, -1, Math.fround(1 / k)]), dice.pick([0, 0, 1, -0.5])];
    const pad = dice.pick([0, 0, 1, 4]);
    const rest = { m, n, k, alpha, beta, transA, transB, ldc: n + pad, dtype };
    return {
      rest: isBatched ? { ...rest, batch } : rest,
      inputs: { a: batch * m * k, b: batch * k * n },
      output: "c",
      outputCount: batch * m * (n + pad),
      keepsOutput: beta !== 0 || pad !== 0,
      range: ({ a, b, c }) => within(Math.abs(alpha) * k * magnitude(a!) * magnitude(b!) + magnitude(c!)),
    };
  };
}

const conv2d: Draw = (dice, limits, dtype) => {
  const groups = dice.pick([1, 1, 2]);
  const batch = 1 + dice.below(3);
  const inChannels = groups * dice.size(16);
  const outChannels = groups * dice.size(16);
  const kernel = [1 + dice.below(4), 1 + dice.below(4)] as const;
  const terms = (inChannels * kernel[0] * kernel[1]) / groups;
  const pixels = Math.max(16, limits.multiplications / (terms * outChannels * batch));
  const height = kernel[0] + dice.size(Math.min(Math.sqrt(pixels), 64));
  const width = kernel[1] + dice.size(Math.min(pixels / height + 1, 64));
  const stride = [1 + dice.below(2), 1 + dice.below(2)] as const;
  const padding = [dice.below(2), dice.below(2), dice.below(2), dice.below(2)] as const;
  const [top, left, bottom, right] = padding;
  const outHeight = Math.floor((height + top + bottom - kernel[0]) / stride[0]) + 1;
  const outWidth = Math.floor((width + left + right - kernel[1]) / stride[1]) + 1;
  const inputShape = [batch, inChannels, height, width];
  const filterShape = [outChannels, inChannels / groups, ...kernel];
  const bias = dice.next() < 0.5 ? { bias: outChannels } : {};
  return {
    rest: { inputShape, filterShape, stride, padding, groups, dtype },
    inputs: { input: batch * inChannels * height * width, filter: terms * outChannels, ...bias },
    output: "output",
    outputCount: batch * outChannels * outHeight * outWidth,
    range: ({ input, filter, bias = within(0) }) =>
      within(terms * magnitude(input!) * magnitude(filter!) + magnitude(bias)),
  };
};

const attention: Draw = (dice, limits, dtype) => {
  const batch = 1 + dice.below(2);
  const kvHeads = 1 + dice.below(3);
  const heads = kvHeads * (1 + dice.below(2));
  const headSize = dice.pick([1, 8, 16, 32, 40, 64]);
  const area = Math.max(4, limits.multiplications / (2 * batch * heads * headSize));
  const queryLength = dice.size(Math.min(area, 256));
  const keyLength = dice.size(Math.min(area / queryLength, 1024));
  const causal = dice.pick([false, "upper-left", "lower-right"] as const);
  const kv = batch * kvHeads * keyLength * headSize;
  const count = batch * heads * queryLength * headSize;
  return {
    rest: { batch, heads, kvHeads, queryLength, keyLength, headSize, causal, dtype },
    inputs: { q: count, k: kv, v: kv },
    output: "out",
    outputCount: count,
    range: ({ v }) => within(magnitude(v!)),
  };
};

const reduce: Draw = (dice, limits, dtype) => {
  const kind = dice.pick<ReduceKind>(reduceKinds);
  // Products of many numbers overflow.
  const most = kind === "prod" ? 512 : limits.elements;
  const inner = dice.size(most);
  const middle = kind === "prod" ? 1 + dice.below(3) : dice.size(most / inner);
  const outer = dice.size(most / inner / middle);
  const shape = [outer, middle, inner];
  const axes = kind === "prod" ? [1] : dice.pick([[0], [1], [2], [0, 2], [0, 1, 2], [1, 2]]);
  const reduced = axes.reduce((product, axis) => product * shape[axis]!, 1);
  return {
    rest: { kind, shape, axes, dtype },
    inputs: { input: inner * middle * outer },
    output: "output",
    outputCount: (inner * middle * outer) / reduced,
    range({ input }) {
      const bound = magnitude(input!);
      if (kind === "prod") return within(Math.max(bound, 1) ** reduced);
      return within(kind === "sum" ? bound * reduced : bound);
    },
  };
};

const unary: Draw = (dice, limits, dtype) => {
  const n = dice.size(limits.elements);
  const kind = dice.pick<UnaryKind>(unaryKinds);
  return {
    rest: { kind, n, dtype },
    inputs: { input: n },
    output: "output",
    outputCount: n,
    ...(dice.next() < 0.3 ? { inPlace: "input" } : {}),
    range: ({ input }) => unaryRange(kind, input!),
  };
};

const binary: Draw = (dice, limits, dtype) => {
  const rows = dice.size(64);
  const columns = dice.size(limits.elements / rows);
  const form = dice.pick(["same", "row", "column", "scalar"] as const);
  const kind = dice.pick<ArithmeticKind>(arithmeticKinds);
  const scalar = dice.below(64) / 16 + 0.25;
  const count = rows * columns;
  const b = { same: count, row: columns, column: rows, scalar: 0 }[form];
  const shapes =
    form === "scalar" || form === "same"
      ? { n: count }
      : { shapeA: [rows, columns], shapeB: form === "row" ? [columns] : [rows, 1] };
  return {
    rest: { kind, ...shapes, dtype, ...(form === "scalar" ? { b: { scalar } } : {}) },
    inputs: { a: count, ...(form === "scalar" ? {} : { b }) },
    output: "output",
    outputCount: count,
    range: ({ a, b = { low: scalar, high: scalar } }) => binaryRange(kind, a!, b),
  };
};

/** Draws a call of each operation. */
export const drafts: Readonly<Record<OperationName, Draw>> = {
  ...{ gemm: gemm(false), batchedGemm: gemm(true) },
  ...{ conv2d, attention, reduce, unary, binary },
};
