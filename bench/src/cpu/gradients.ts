import {
  type ComputeBackend,
  costOf,
  type DeviceHandle,
  newHandle,
  type Operand,
  type OperationArguments,
  type OperationName,
} from "@backplane/core";
import { type Case, type Expected, epsilon, type Handles, type Inputs } from "../cases/case.js";

/*
 * Gradients of functions, as other libraries find them: from the inputs of the function and the gradient of its output. What the
 * function leaves for its gradient is computed once, before anything is timed; so it is in libraries that keep it, too.
 * All gradients of a case lie one after the other in one allocation.
 */

interface Gradient<Name extends OperationName> {
  readonly operation: Name;
  readonly name: string;
  readonly inputs: Readonly<Record<string, number>>;
  /** Elements of what the function leaves. All are of 32 bits. */
  readonly kept: Readonly<Record<string, number>>;
  /** Elements of each gradient, in their order. */
  readonly results: Readonly<Record<string, number>>;
  readonly forward: (backend: ComputeBackend, handles: Handles) => void;
  readonly args: (handles: Handles, results: Readonly<Record<string, Operand>>) => OperationArguments[Name];
  /** `index`: within that gradient. */
  readonly expected: (inputs: Inputs, result: string, index: number) => Expected;
  readonly problem: Case["problem"];
}

function gradientCase<Name extends OperationName>(gradient: Gradient<Name>): Case {
  const { operation, name, inputs, kept, results, forward, args, expected, problem } = gradient;
  const total = Object.values(results).reduce((a, b) => a + b, 0);
  const placed = (handle: DeviceHandle): Record<string, Operand> => {
    let elements = 0;
    return Object.fromEntries(
      Object.entries(results).map(([result, count]) => {
        const byteOffset = 4 * elements;
        elements += count;
        return [result, { handle, byteOffset }];
      }),
    );
  };
  const anyHandles = Object.fromEntries(
    [...Object.keys(inputs), ...Object.keys(kept)].map((each) => [each, newHandle()]),
  );
  return {
    ...{ name: `${operation} f32 ${name}`, operation, dtype: "f32", inputs },
    output: { argument: "gradients", elements: total },
    cost: costOf(operation, args(anyHandles, placed(newHandle()))),
    prepare(backend, handles) {
      const own = Object.fromEntries(
        Object.entries(kept).map(([each, elements]) => [each, backend.alloc(4 * elements)]),
      );
      const close = () => {
        for (const handle of Object.values(own)) backend.free(handle);
      };
      try {
        const all = { ...handles, ...own };
        forward(backend, all);
        const bound = args(all, placed(handles.gradients!));
        const call = backend[operation].bind(backend) as (args: OperationArguments[Name]) => void;
        return { call: () => call(bound), close };
      } catch (error) {
        close();
        throw error;
      }
    },
    expected(data, index) {
      let own = index;
      for (const [result, count] of Object.entries(results)) {
        if (own < count) return expected(data, result, own);
        own -= count;
      }
      throw new RangeError(`${name} has no element ${index}`);
    },
    problem: { operation, dtype: "f32", ...problem },
  };
}

/** What is computed once for each key. */
function remembered<Value>(compute: (inputs: Inputs, key: number) => Value) {
  const known = new Map<number, Value>();
  let of: Inputs | undefined;
  return (inputs: Inputs, key: number): Value => {
    if (of !== inputs) known.clear();
    of = inputs;
    if (!known.has(key)) known.set(key, compute(inputs, key));
    return known.get(key)!;
  };
}

function total(
  values: ArrayLike<number>,
  of: (value: number, i: number) => number = (value) => value,
): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += of(values[i]!, i);
  return sum;
}

/** Of softmax along rows. */
export function softmaxGradient(rows: number, size: number): Case {
  const count = rows * size;
  const shape = { kind: "softmax", shape: [rows, size], axis: 1 } as const;
  return gradientCase({
    operation: "softmaxGradient",
    name: `gradient of softmax ${rows}x${size}`,
    inputs: { input: count, outputGradient: count },
    ...{ kept: { output: count }, results: { inputGradient: count } },
    forward: (backend, { input, output }) => backend.softmax({ ...shape, input: input!, output: output! }),
    args: ({ output, outputGradient }, { inputGradient }) => ({
      ...{ ...shape, output: output!, outputGradient: outputGradient!, inputGradient: inputGradient! },
    }),
    expected({ input, outputGradient }, _, index) {
      const first = index - (index % size);
      const weights = Float64Array.from({ length: size }, (_, i) => Math.exp(input!.at(first + i)));
      const sum = total(weights);
      const change = total(weights, (weight, i) => (weight / sum) * outputGradient!.at(first + i));
      const magnitude = total(
        weights,
        (weight, i) => (weight / sum) * Math.abs(outputGradient!.at(first + i)),
      );
      const [y, dy] = [weights[index - first]! / sum, outputGradient!.at(index)];
      // Both sums, and a few roundings of each weight.
      const tolerance = (2 * Math.sqrt(size) + 16) * epsilon.f32 * y * (Math.abs(dy) + magnitude);
      return { value: y * (dy - change), tolerance };
    },
    problem: shape,
  });
}

/** The epsilon of both normalizations. */
const normalizeEpsilon = 1e-5;

/** Of layer or RMS normalization with weights: by the input, the weights and, for `layer`, the bias. */
export function normalizeGradient(kind: "layer" | "rms", rows: number, size: number): Case {
  const isLayer = kind === "layer";
  const shape = { kind, rows, size, epsilon: normalizeEpsilon };
  const row = remembered(({ input, weight, outputGradient }, row) => {
    const x = Float64Array.from({ length: size }, (_, i) => input!.at(row * size + i));
    const mean = isLayer ? total(x) / size : 0;
    const r = 1 / Math.sqrt(total(x, (each) => (each - mean) ** 2) / size + normalizeEpsilon);
    const h = x.map((each) => (each - mean) * r);
    const dy = Float64Array.from(h, (_, i) => outputGradient!.at(row * size + i));
    const g = dy.map((each, i) => each * weight!.at(i));
    return { r, h, g, dy };
  });
  return gradientCase({
    operation: "normalizeGradient",
    name: `gradients of ${kind} norm ${rows}x${size}`,
    inputs: { input: rows * size, weight: size, outputGradient: rows * size },
    kept: { output: rows * size, inverseDeviation: rows, ...(isLayer ? { mean: rows } : {}) },
    results: { inputGradient: rows * size, weightGradient: size, ...(isLayer ? { biasGradient: size } : {}) },
    forward: (backend, { input, weight, output, mean, inverseDeviation }) =>
      backend.normalize({
        ...{ ...shape, input: input!, weight: weight!, output: output!, inverseDeviation: inverseDeviation! },
        ...(isLayer ? { mean: mean! } : {}),
      }),
    args: ({ input, weight, outputGradient, mean, inverseDeviation }, results) => ({
      ...{ ...shape, input: input!, weight: weight!, outputGradient: outputGradient! },
      ...{ inverseDeviation: inverseDeviation!, inputGradient: results.inputGradient! },
      weightGradient: results.weightGradient!,
      ...(isLayer ? { mean: mean!, biasGradient: results.biasGradient! } : {}),
    }),
    expected(inputs, result, index) {
      if (result === "inputGradient") {
        const { r, h, g } = row(inputs, Math.floor(index / size));
        const at = index % size;
        const [ofGradients, ofProducts] = [
          isLayer ? total(g) / size : 0,
          total(g, (each, i) => each * h[i]!) / size,
        ];
        const value = r * (g[at]! - ofGradients - h[at]! * ofProducts);
        const [sizes, products] = [total(g, Math.abs), total(g, (each, i) => Math.abs(each * h[i]!))];
        const magnitude = Math.abs(g[at]!) + (sizes + Math.abs(h[at]!) * products) / size;
        return { value, tolerance: (2 * Math.sqrt(size) + 32) * epsilon.f32 * r * magnitude };
      }
      let [value, magnitude] = [0, 0];
      for (let i = 0; i < rows; i++) {
        const { h, dy } = row(inputs, i);
        const term = result === "weightGradient" ? dy[index]! * h[index]! : dy[index]!;
        value += term;
        magnitude += Math.abs(term);
      }
      return { value, tolerance: (2 * Math.sqrt(rows) + 32) * epsilon.f32 * magnitude };
    },
    problem: shape,
  });
}

/** Of maxima of 3x3 with a stride of 2, or of means of 2x2, of square images. */
export function pool2dGradient(kind: "max" | "mean", batch: number, channels: number, extent: number): Case {
  const [kernel, margin] = kind === "max" ? [3, 1] : [2, 0];
  const [stride, planes] = [2, batch * channels];
  const out = Math.floor((extent + 2 * margin - kernel) / stride) + 1;
  const geometry = {
    ...{ kind, inputShape: [batch, channels, extent, extent] as const },
    ...{ kernel: [kernel, kernel] as const, stride: [stride, stride] as const },
    ...(margin === 0 ? {} : { padding: [margin, margin, margin, margin] as const }),
  };
  const [elements, windows] = [planes * extent ** 2, planes * out ** 2];
  const isMax = kind === "max";
  return gradientCase({
    operation: "pool2dGradient",
    name: `gradient of ${kind} ${kernel}x${kernel} stride ${stride} of ${geometry.inputShape.join("x")}`,
    inputs: { input: elements, outputGradient: windows },
    kept: isMax ? { output: windows, indices: windows } : {},
    results: { inputGradient: elements },
    // Means leave nothing.
    forward(backend, { input, output, indices }) {
      if (isMax) backend.pool2d({ ...geometry, input: input!, output: output!, indices: indices! });
    },
    args: ({ outputGradient, indices }, { inputGradient }) => ({
      ...{ ...geometry, outputGradient: outputGradient!, inputGradient: inputGradient! },
      ...(isMax ? { indices: indices! } : {}),
    }),
    expected({ input, outputGradient }, _, index) {
      const plane = Math.floor(index / extent ** 2);
      const [row, column] = [Math.floor(index / extent) % extent, index % extent];
      const at = (y: number, x: number) => input!.at((plane * extent + y) * extent + x);
      const inside = (place: number) => place >= 0 && place < extent;
      let [value, magnitude] = [0, 0];
      for (let y = 0; y < out; y++) {
        const top = y * stride - margin;
        if (row < top || row >= top + kernel) continue;
        for (let x = 0; x < out; x++) {
          const left = x * stride - margin;
          if (column < left || column >= left + kernel) continue;
          let isLargest = true;
          for (let i = top; i < top + kernel; i++)
            for (let j = left; j < left + kernel; j++)
              if (inside(i) && inside(j) && at(i, j) > at(row, column)) isLargest = false;
          const term = outputGradient!.at((plane * out + y) * out + x) / (isMax ? 1 : kernel ** 2);
          if (isMax && !isLargest) continue;
          value += term;
          magnitude += Math.abs(term);
        }
      }
      return { value, tolerance: 8 * epsilon.f32 * magnitude };
    },
    problem: geometry,
  });
}

export interface AttentionGradientSize {
  readonly heads: number;
  readonly length: number;
  readonly headSize: number;
  readonly causal: boolean;
}

/** Of attention of one sequence: by queries, keys and values. */
export function attentionGradient({ heads, length, headSize, causal }: AttentionGradientSize): Case {
  const rows = heads * length;
  const count = rows * headSize;
  const shape = { batch: 1, heads, queryLength: length, keyLength: length, headSize, causal };
  const scale = Math.fround(1 / Math.sqrt(headSize));
  /** Weights of a head, and the changes of its scores with the sizes of their terms: [query, key]. */
  const head = remembered(({ q, k, v, outGradient }, head) => {
    const at = (data: Inputs[string] | undefined, row: number, d: number) =>
      data!.at((head * length + row) * headSize + d);
    const [weights, changes, sizes] = [0, 1, 2].map(() => new Float64Array(length ** 2)) as [
      Float64Array,
      Float64Array,
      Float64Array,
    ];
    for (let i = 0; i < length; i++) {
      const seen = causal ? i + 1 : length;
      let [sum, change, size] = [0, 0, 0];
      for (let j = 0; j < seen; j++) {
        const place = i * length + j;
        let [score, product, ofProduct] = [0, 0, 0];
        for (let d = 0; d < headSize; d++) {
          score += at(q, i, d) * at(k, j, d);
          const term = at(outGradient, i, d) * at(v, j, d);
          product += term;
          ofProduct += Math.abs(term);
        }
        weights[place] = Math.exp(scale * score);
        sum += weights[place]!;
        changes[place] = product;
        sizes[place] = ofProduct;
      }
      for (let j = 0; j < seen; j++) {
        const place = i * length + j;
        weights[place]! /= sum;
        change += weights[place]! * changes[place]!;
        size += weights[place]! * sizes[place]!;
      }
      for (let j = 0; j < seen; j++) {
        const place = i * length + j;
        changes[place] = weights[place]! * (changes[place]! - change);
        sizes[place] = weights[place]! * (sizes[place]! + size);
      }
    }
    return { weights, changes, sizes };
  });
  return gradientCase({
    operation: "attentionGradient",
    name: `${heads} heads, length ${length}, size ${headSize}${causal ? ", causal" : ""}`,
    inputs: { q: count, k: count, v: count, outGradient: count },
    kept: { out: count, logSumExp: rows },
    results: { qGradient: count, kGradient: count, vGradient: count },
    forward: (backend, { q, k, v, out, logSumExp }) =>
      backend.attention({ ...shape, q: q!, k: k!, v: v!, out: out!, logSumExp: logSumExp! }),
    args: ({ q, k, v, out, logSumExp, outGradient }, { qGradient, kGradient, vGradient }) => ({
      ...{ ...shape, q: q!, k: k!, v: v!, out: out!, logSumExp: logSumExp!, outGradient: outGradient! },
      ...{ qGradient: qGradient!, kGradient: kGradient!, vGradient: vGradient! },
    }),
    expected(inputs, result, index) {
      const [row, column] = [Math.floor(index / headSize), index % headSize];
      const { weights, changes, sizes } = head(inputs, Math.floor(row / length));
      const [own, first] = [row % length, row - (row % length)];
      const other = { qGradient: inputs.k!, kGradient: inputs.q!, vGradient: inputs.outGradient! }[
        result as "qGradient" | "kGradient" | "vGradient"
      ];
      const [values, magnitudes] = result === "vGradient" ? [weights, weights] : [changes, sizes];
      let [value, magnitude] = [0, 0];
      for (let i = 0; i < length; i++) {
        const place = result === "qGradient" ? own * length + i : i * length + own;
        const factor = other.at((first + i) * headSize + column) * (result === "vGradient" ? 1 : scale);
        value += values[place]! * factor;
        magnitude += magnitudes[place]! * Math.abs(factor);
      }
      return { value, tolerance: (2 * Math.sqrt(length) + headSize + 32) * epsilon.f32 * magnitude };
    },
    problem: { heads, length, headSize, causal },
  });
}
