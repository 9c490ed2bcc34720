import type { DeviceHandle, DType, OperationArguments, OperationName } from "@backplane/core";

/** Host copies of the inputs by argument name, already rounded to the case's element type. */
export type Inputs = Readonly<Record<string, Float32Array>>;

/** What one output element must be, in float64, and how far off it may be. */
export interface Expected {
  readonly value: number;
  readonly tolerance: number;
}

/** One call at one size: what it needs, how to make it, and how to check any element of its output. */
export interface Case<Name extends OperationName = OperationName> {
  readonly name: string;
  readonly operation: Name;
  readonly dtype: DType;
  /** Elements of each input by argument name. */
  readonly inputs: Readonly<Record<string, number>>;
  /** The argument that is written, and its elements. */
  readonly output: { readonly argument: string; readonly elements: number };
  readonly args: (handles: Readonly<Record<string, DeviceHandle>>) => OperationArguments[Name];
  readonly expected: (inputs: Inputs, index: number) => Expected;
}

/** eps of the element type; twice the unit roundoff, since rounding may be other than to nearest. */
const epsilon: Readonly<Record<DType, number>> = { f32: 2 ** -23, f16: 2 ** -10 };

/** Tolerance of a sum of `terms` products accumulated in f32 and stored in `dtype`. */
function sumOfProducts(dtype: DType, value: number, magnitude: number, terms: number): Expected {
  const rounding = dtype === "f16" ? epsilon.f16 * Math.abs(value) + 2 ** -24 : 0;
  return { value, tolerance: (terms + 3) * epsilon.f32 * magnitude + rounding };
}

function gemm(dtype: DType, m: number, n: number, k: number, transB = false): Case<"gemm"> {
  return {
    name: `${m} x ${n} x ${k}${transB ? ", B transposed" : ""}`,
    operation: "gemm",
    dtype,
    inputs: { a: m * k, b: k * n },
    output: { argument: "c", elements: m * n },
    args: ({ a, b, c }) => ({ m, n, k, a: a!, b: b!, c: c!, transB, dtype }),
    expected({ a, b }, index) {
      const [row, column] = [Math.floor(index / n), index % n];
      let value = 0;
      let magnitude = 0;
      for (let p = 0; p < k; p++) {
        const product = a![row * k + p]! * b![transB ? column * k + p : p * n + column]!;
        value += product;
        magnitude += Math.abs(product);
      }
      return sumOfProducts(dtype, value, magnitude, k);
    },
  };
}

function batchedGemm(batch: number, size: number): Case<"batchedGemm"> {
  const single = gemm("f32", size, size, size);
  const elements = size * size;
  return {
    name: `${batch} times ${size}^3`,
    operation: "batchedGemm",
    dtype: "f32",
    inputs: { a: batch * elements, b: batch * elements },
    output: { argument: "c", elements: batch * elements },
    args: ({ a, b, c }) => ({ batch, m: size, n: size, k: size, a: a!, b: b!, c: c! }),
    expected({ a, b }, index) {
      const from = Math.floor(index / elements) * elements;
      const slice = (matrix: Float32Array) => matrix.subarray(from, from + elements);
      return single.expected({ a: slice(a!), b: slice(b!) }, index - from);
    },
  };
}

function conv2d(channels: number, size: number, outChannels: number, kernel: number): Case<"conv2d"> {
  const padding = (kernel - 1) / 2;
  return {
    name: `1x${channels}x${size}x${size}, ${outChannels} filters of ${kernel}x${kernel}`,
    operation: "conv2d",
    dtype: "f32",
    inputs: { input: channels * size * size, filter: outChannels * channels * kernel * kernel },
    output: { argument: "output", elements: outChannels * size * size },
    args: ({ input, filter, output }) => ({
      inputShape: [1, channels, size, size],
      filterShape: [outChannels, channels, kernel, kernel],
      padding: [padding, padding, padding, padding],
      input: input!,
      filter: filter!,
      output: output!,
    }),
    expected({ input, filter }, index) {
      const [x, y] = [index % size, Math.floor(index / size) % size];
      const outChannel = Math.floor(index / (size * size));
      let value = 0;
      let magnitude = 0;
      for (let c = 0; c < channels; c++)
        for (let i = 0; i < kernel; i++)
          for (let j = 0; j < kernel; j++) {
            const [row, column] = [y + i - padding, x + j - padding];
            if (row < 0 || row >= size || column < 0 || column >= size) continue;
            const weight = filter![((outChannel * channels + c) * kernel + i) * kernel + j]!;
            const product = weight * input![(c * size + row) * size + column]!;
            value += product;
            magnitude += Math.abs(product);
          }
      return sumOfProducts("f32", value, magnitude, channels * kernel * kernel);
    },
  };
}

function attention(heads: number, length: number, headSize: number, causal: boolean): Case<"attention"> {
  const elements = heads * length * headSize;
  return {
    name: `${heads} heads, ${length} tokens, size ${headSize}${causal ? ", causal" : ""}`,
    operation: "attention",
    dtype: "f32",
    inputs: { q: elements, k: elements, v: elements },
    output: { argument: "out", elements },
    args: ({ q, k, v, out }) => ({
      ...{ batch: 1, heads, queryLength: length, keyLength: length, headSize, causal },
      ...{ q: q!, k: k!, v: v!, out: out! },
    }),
    expected({ q, k, v }, index) {
      const column = index % headSize;
      const row = Math.floor(index / headSize) % length;
      const head = Math.floor(index / (headSize * length)) * length * headSize;
      const scores: number[] = [];
      for (let j = 0; j < (causal ? row + 1 : length); j++) {
        let score = 0;
        for (let d = 0; d < headSize; d++)
          score += q![head + row * headSize + d]! * k![head + j * headSize + d]!;
        scores.push(score / Math.sqrt(headSize));
      }
      const largest = Math.max(...scores);
      const weights = scores.map((score) => Math.exp(score - largest));
      const total = weights.reduce((a, b) => a + b, 0);
      let value = 0;
      let magnitude = 0;
      weights.forEach((weight, j) => {
        const term = (weight / total) * v![head + j * headSize + column]!;
        value += term;
        magnitude += Math.abs(term);
      });
      // Scores below 2 in magnitude: the exponential adds a few eps to the bound of the two sums.
      const tolerance = (2 * length + 2 * headSize + 32) * epsilon.f32 * magnitude;
      return { value, tolerance };
    },
  };
}

function reduce(rows: number, columns: number, axis: 0 | 1 | undefined): Case<"reduce"> {
  const whole = axis === undefined;
  const along = { all: "all", 0: "first axis", 1: "last axis" }[axis ?? "all"];
  return {
    name: `sum of ${rows} x ${columns}, ${along}`,
    operation: "reduce",
    dtype: "f32",
    inputs: { input: rows * columns },
    output: { argument: "output", elements: whole ? 1 : axis === 0 ? columns : rows },
    args: ({ input, output }) => ({
      kind: "sum",
      shape: [rows, columns],
      ...(whole ? {} : { axes: [axis] }),
      input: input!,
      output: output!,
    }),
    expected({ input }, index) {
      const first = whole ? 0 : axis === 0 ? index : index * columns;
      const step = axis === 0 ? columns : 1;
      const count = whole ? rows * columns : axis === 0 ? rows : columns;
      let value = 0;
      let magnitude = 0;
      for (let i = 0; i < count; i++) {
        value += input![first + i * step]!;
        magnitude += Math.abs(input![first + i * step]!);
      }
      // A tree, or accumulators of sqrt(count) terms each, is far inside this; a running sum is not.
      return { value, tolerance: 2 * Math.sqrt(count) * epsilon.f32 * magnitude };
    },
  };
}

function unary(kind: "exp" | "relu" | "tanh", n: number): Case<"unary"> {
  const functions = { exp: Math.exp, relu: (x: number) => Math.max(x, 0), tanh: Math.tanh };
  return {
    name: `${kind} of ${n}`,
    operation: "unary",
    dtype: "f32",
    inputs: { input: n },
    output: { argument: "output", elements: n },
    args: ({ input, output }) => ({ kind, n, input: input!, output: output! }),
    expected({ input }, index) {
      const value = functions[kind](input![index]!);
      return { value, tolerance: 8 * epsilon.f32 * Math.abs(value) + 2 ** -126 };
    },
  };
}

function add(rows: number, columns: number, broadcast: boolean): Case<"binary"> {
  const n = rows * columns;
  return {
    name: broadcast ? `add a row to ${rows} x ${columns}` : `add ${n}`,
    operation: "binary",
    dtype: "f32",
    inputs: { a: n, b: broadcast ? columns : n },
    output: { argument: "output", elements: n },
    args: ({ a, b, output }) => ({
      kind: "add",
      ...(broadcast ? { shapeA: [rows, columns], shapeB: [columns] } : { n }),
      a: a!,
      b: b!,
      output: output!,
    }),
    expected({ a, b }, index) {
      const value = a![index]! + b![broadcast ? index % columns : index]!;
      return { value, tolerance: epsilon.f32 * Math.abs(value) };
    },
  };
}

/** `small` suits two cores and software adapters; `large` is for GPUs. */
export const cases: Readonly<Record<"small" | "large", readonly Case[]>> = {
  small: [
    gemm("f32", 256, 256, 256),
    gemm("f32", 512, 512, 512),
    gemm("f32", 512, 512, 512, true),
    gemm("f16", 512, 512, 512),
    gemm("f32", 32, 1024, 1024),
    gemm("f32", 1, 1024, 1024),
    batchedGemm(16, 128),
    conv2d(32, 28, 32, 3),
    attention(4, 256, 64, false),
    attention(4, 256, 64, true),
    reduce(1024, 1024, undefined),
    reduce(1024, 1024, 0),
    reduce(1024, 1024, 1),
    unary("exp", 2 ** 20),
    unary("tanh", 2 ** 20),
    add(1024, 1024, false),
    add(1024, 1024, true),
  ] as readonly Case[],
  large: [
    gemm("f32", 1024, 1024, 1024),
    gemm("f32", 4096, 4096, 4096),
    gemm("f32", 4096, 4096, 4096, true),
    gemm("f32", 4095, 4097, 4093),
    gemm("f16", 4096, 4096, 4096),
    gemm("f32", 32, 4096, 1024),
    gemm("f32", 1, 16384, 16384),
    batchedGemm(64, 512),
    conv2d(64, 56, 64, 3),
    conv2d(256, 56, 256, 3),
    attention(8, 2048, 64, false),
    attention(8, 2048, 64, true),
    attention(16, 2048, 128, false),
    reduce(4096, 4096, undefined),
    reduce(4096, 4096, 0),
    reduce(4096, 4096, 1),
    unary("exp", 2 ** 26),
    unary("tanh", 2 ** 26),
    add(8192, 8192, false),
    add(8192, 8192, true),
  ] as readonly Case[],
};
