// Tags: kernels, pure, long
import {
  type ComputeBackend,
  createBackend,
  type DeviceSlice,
  dtypeBytes,
  type FloatType,
  floatTypes,
  integerTypes,
  truthReduceKinds,
} from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { segmented } from "#src/kernels/segments/index.js";
import type { KernelDefinition, OperationContext } from "#src/runtime/context.js";
import {
  attended,
  attentions,
  broadcasted,
  type Convolution,
  convolutions,
  convolved,
  countOf,
  gradients,
  gradientsOf,
  maskNumbers,
  products,
  reduced,
  reductions,
  shapePairs,
} from "./segments-cases.js";
import { type Arrays, decode, driverOf, encode, findDawn, noise, random, rounded } from "./support.js";

/** Bytes that a binding may show: no multiple of 256, of which windows are made. */
const LIMIT = 4200;

/** Attentions whose logarithms of sums are compared too: undivided rows of keys, and divided ones. */
const logged: readonly string[] = [
  "batch and heads",
  "many keys",
  "a window, more queries than keys",
  "a mask of halves, batches, and many keys",
];

/** Of results that are no whole numbers. */
const tolerances: Readonly<Record<FloatType, Readonly<Record<"mean" | "logSumExp" | "attention", number>>>> =
  {
    f32: { mean: 2 ** -22, logSumExp: 2 ** -18, attention: 2 ** -19 },
    f16: { mean: 2 ** -9, logSumExp: 2 ** -6, attention: 2 ** -11 },
  };

interface Toy {
  readonly operand: number;
  readonly scratch: number;
}

describe("webgpu segmented", () => {
  const runs: string[] = [];
  const kernel: KernelDefinition<Toy> = {
    supports: [{ dtype: ["f32"] }],
    run(context, { scratch }) {
      runs.push("kernel");
      if (scratch > 0) context.scratch(scratch);
    },
  };
  const { run } = segmented(kernel, {
    longestWindow: ({ operand }) => operand,
    scratchBound: (_problem, longest) => 4 * longest,
    divide: () => runs.push("divide"),
  });
  const features = { limits: { maxStorageBufferBindingSize: LIMIT } } as DeviceFeatures;
  const context = { features, scratch: () => ({}) } as unknown as OperationContext;
  const runsOf = (toy: Toy) => {
    runs.length = 0;
    run(context, toy);
    return runs.join(", ");
  };

  it("runs a kernel for a small problem without a second look", () => {
    assert.equal(runsOf({ operand: 1000, scratch: 4000 }), "kernel");
  });
  it("asks the kernel what it binds where that might be too much", () => {
    assert.equal(runsOf({ operand: 1100, scratch: 4096 }), "kernel, kernel");
    assert.equal(runsOf({ operand: 1100, scratch: 4097 }), "kernel, divide");
  });
  it("divides what does not fit itself", () => {
    assert.equal(runsOf({ operand: 4096, scratch: 0 }), "kernel, kernel");
    assert.equal(runsOf({ operand: 4097, scratch: 0 }), "divide");
  });
});

/** Small whole numbers, whose sums are exact in every order. */
function wholes(count: number, seed: number, largest = 3): number[] {
  const next = random(seed);
  return Array.from({ length: count }, () => Math.round((2 * next() - 1) * largest));
}

/** Ones with few other factors, so that products are exact in f16, and none is zero. */
function productTerm(value: number, place: number): number {
  if (place % 4999 === 7) return 3;
  return place % 97 === 5 && value < 0 ? -1 : 1;
}

describe("webgpu operations above the binding limit", () => {
  let backend: ComputeBackend;
  before(async () => {
    const limits = { maxStorageBufferBindingSize: LIMIT };
    backend = createBackend(driverOf(findDawn, { limits }));
    await backend.init();
  });
  after(() => backend.dispose());

  /** Numbers on the device, `before` elements into memory of their own. */
  function place(values: readonly number[], dtype: keyof Arrays, before: number): DeviceSlice {
    const size = dtypeBytes[dtype];
    const bytes = encode(values, dtype);
    const handle = backend.alloc(bytes.byteLength + before * size);
    const slice = { handle, byteOffset: before * size };
    backend.copyHtoD(slice, bytes);
    return slice;
  }

  /** Runs what writes an output and looks at every byte; `undefined` is expected to keep its bits. */
  async function check(
    dtype: keyof Arrays,
    expected: readonly (number | undefined)[],
    run: (output: DeviceSlice) => void,
    { tolerance = 0, before = 5, initial = [] as readonly number[] } = {},
  ): Promise<void> {
    const size = dtypeBytes[dtype];
    const image = noise((before + expected.length) * size + 37);
    image.set(encode(initial, dtype), before * size);
    const handle = backend.alloc(image.byteLength);
    backend.copyHtoD(handle, image);
    run({ handle, byteOffset: before * size });
    const bytes = new Uint8Array(image.byteLength);
    await backend.copyDtoH(bytes, handle);
    backend.free(handle);
    const results = decode(bytes.subarray(before * size, (before + expected.length) * size), dtype);
    for (const [i, value] of expected.entries()) {
      if (value === undefined) continue;
      if (results[i] !== value && !(Math.abs(results[i]! - value) <= tolerance))
        assert.fail(`element ${i} of ${expected.length} is ${results[i]}, not ${value}`);
      const at = (before + i) * size;
      image.set(bytes.subarray(at, at + size), at);
    }
    assert.equal(
      bytes.findIndex((byte, i) => byte !== image[i]),
      -1,
      "a byte outside the output has changed",
    );
  }

  it("can allocate more than one binding shows", () => {
    assert.isAtLeast(backend.capabilities.limits.maxAllocationBytes, 2 ** 28);
  });

  it("use the same scratch for one part after the other", async () => {
    const [m, k, n] = [300, 3, 300];
    const [a, b, c] = [m * k, k * n, m * n].map((count) => backend.alloc(2 * count));
    const before = backend.memory().reservedBytes;
    backend.gemm({ m, n, k, dtype: "f16", a: a!, b: b!, c: c! });
    await backend.synchronize();
    const parts = (2 * m * n) / LIMIT;
    assert.isAbove(parts, 40);
    assert.isBelow(backend.memory().reservedBytes - before, 4 * LIMIT);
    for (const handle of [a!, b!, c!]) backend.free(handle);
  });

  for (const dtype of floatTypes) {
    for (const before of [0, 3])
      it(`${dtype}: unary, ${before} elements into the buffers, and in place`, async () => {
        const values = wholes(10_001, 1);
        const input = place(values, dtype, before);
        const expected = values.map((value) => -value);
        const n = values.length;
        await check(dtype, expected, (output) => backend.unary({ kind: "neg", dtype, n, input, output }), {
          before,
        });
        const inPlace = (output: DeviceSlice) =>
          backend.unary({ kind: "neg", dtype, n, input: output, output });
        await check(dtype, expected, inPlace, { before, initial: values });
      });

    for (const [shapeA, shapeB] of shapePairs)
      it(`${dtype}: binary of [${shapeA}] and [${shapeB}]`, async () => {
        const [x, y] = [wholes(countOf(shapeA), 2), wholes(countOf(shapeB), 3)];
        const expected = broadcasted(shapeA, shapeB, x, y, (p, q) => p - q);
        const [a, b] = [place(x, dtype, 1), place(y, dtype, 2)];
        await check(dtype, expected, (output) =>
          backend.binary({ kind: "sub", dtype, shapeA, shapeB, a, b, output }),
        );
        if (x.length === expected.length)
          await check(
            dtype,
            expected,
            (output) => backend.binary({ kind: "sub", dtype, shapeA, shapeB, a: output, b, output }),
            { initial: x },
          );
      });

    for (const [shape, axes] of reductions)
      for (const kind of ["sum", "mean", "max", "prod", "logSumExp"] as const)
        it(`${dtype}: ${kind} of [${shape}] over [${axes}]`, async () => {
          const count = countOf(shape);
          const values =
            kind === "prod" ? wholes(count, 4).map((v, i) => productTerm(v, i)) : wholes(count, 4);
          const input = place(values, dtype, 3);
          const isRounded = kind === "mean" || kind === "logSumExp";
          const expected = reduced(kind, values, shape, axes).map((value) =>
            isRounded ? rounded([value], dtype)[0]! : value,
          );
          await check(
            dtype,
            expected,
            (output) => backend.reduce({ kind, dtype, shape, axes, input, output }),
            { tolerance: isRounded ? tolerances[dtype][kind] : 0 },
          );
        });

    for (const [title, given] of Object.entries(products))
      it(`${dtype}: gemm, ${title}`, async () => {
        const { m, n, k, batch = 1, transA = false, transB = false, alpha = 1, beta = 0 } = given;
        const [rowsA, columnsA] = transA ? [k, m] : [m, k];
        const [rowsB, columnsB] = transB ? [n, k] : [k, n];
        const { lda = columnsA, ldb = columnsB, ldc = n } = given;
        const { strideA = rowsA * lda, strideB = rowsB * ldb, strideC = m * ldc } = given;
        const extent = (rows: number, columns: number, ld: number, stride: number) =>
          (batch - 1) * stride + (rows - 1) * ld + columns;
        const x = wholes(extent(rowsA, columnsA, lda, strideA), 5, 2);
        const y = wholes(extent(rowsB, columnsB, ldb, strideB), 6, 2);
        const old = wholes(extent(m, n, ldc, strideC), 7);
        const expected = new Array<number | undefined>(old.length).fill(undefined);
        for (let i = 0; i < batch; i++)
          for (let row = 0; row < m; row++)
            for (let column = 0; column < n; column++) {
              let sum = 0;
              for (let p = 0; p < k; p++)
                sum +=
                  x[i * strideA + (transA ? p * lda + row : row * lda + p)]! *
                  y[i * strideB + (transB ? column * ldb + p : p * ldb + column)]!;
              const at = i * strideC + row * ldc + column;
              expected[at] = alpha * sum + beta * (beta === 0 ? 0 : old[at]!);
            }
        const [a, b] = [place(x, dtype, 1), place(y, dtype, 8)];
        const strides = { lda, ldb, ldc, strideA, strideB, strideC };
        const args = { ...{ m, n, k, batch, dtype, alpha, beta, transA, transB }, ...strides, a, b };
        // Where C is not to be read it holds noise, NaN among it.
        const initial = beta === 0 ? [] : old;
        await check(dtype, expected, (c) => backend.batchedGemm({ ...args, c }), { initial });
        // The bias belongs to columns, and relu to whole sums.
        const shift = wholes(n, 8);
        const columnOf = (at: number) => (strideC < ldc ? (at % ldc) % strideC : (at % strideC) % ldc);
        const finished = expected.map((value, at) =>
          value === undefined ? undefined : Math.max(0, value + shift[columnOf(at)]!),
        );
        const epilogue = { bias: place(shift, dtype, 3), activation: "relu" } as const;
        const run = (c: DeviceSlice) => backend.batchedGemm({ ...args, c, ...epilogue });
        await check(dtype, finished, run, { initial });
      });

    for (const [title, given] of Object.entries(convolutions))
      it(`${dtype}: conv2d, ${title}`, async () => {
        const { inputShape, filterShape, groups = 1 } = given;
        const { stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1] } = given;
        const count = (shape: readonly number[]) => shape.reduce((product, extent) => product * extent, 1);
        const [x, w] = [wholes(count(inputShape), 8, 2), wholes(count(filterShape), 9, 1)];
        const shift = wholes(filterShape[0], 10);
        const expected = convolved({ ...given, groups, stride, padding, dilation }, x, w, shift);
        const [input, filter, bias] = [place(x, dtype, 1), place(w, dtype, 3), place(shift, dtype, 2)];
        const args = { inputShape, filterShape, stride, padding, dilation, groups, dtype };
        await check(dtype, expected, (output) => backend.conv2d({ ...args, input, filter, bias, output }));
        // Without a bias other kernels are chosen.
        const plain = convolved({ ...given, groups, stride, padding, dilation }, x, w);
        await check(dtype, plain, (output) => backend.conv2d({ ...args, input, filter, output }));
        const positive = expected.map((value) => Math.max(0, value));
        await check(dtype, positive, (output) =>
          backend.conv2d({ ...args, input, filter, bias, output, activation: "relu" }),
        );
      });

    for (const [title, batch, side] of [
      ["whole images", 3, 7],
      ["an image longer than a binding", 2, 19],
    ] as const)
      it(`${dtype}: conv2d with channels last and filters for each, ${title}`, async () => {
        const given: Required<Convolution> = {
          ...{ inputShape: [batch, 8, side, side], filterShape: [8, 1, 3, 3], stride: [1, 1], groups: 8 },
          ...{ padding: [1, 1, 1, 1], dilation: [1, 1] },
        };
        const pixels = side * side;
        const [x, w] = [wholes(batch * 8 * pixels, 8, 2), wholes(8 * 9, 9, 1)];
        const last = (values: readonly number[]) =>
          values.map(
            (_, i) =>
              values[(Math.floor(i / (8 * pixels)) * 8 + (i % 8)) * pixels + (Math.floor(i / 8) % pixels)]!,
          );
        const [input, filter] = [place(last(x), dtype, 4), place(w, dtype, 8)];
        const { inputShape: _, ...args } = { ...given, layout: "NHWC" as const, dtype };
        const run = (output: DeviceSlice) =>
          backend.conv2d({ ...args, inputShape: [batch, side, side, 8], input, filter, output });
        await check(dtype, last(convolved(given, x, w)), run, { before: 4 });
      });

    for (const [title, given] of Object.entries(attentions))
      it(`${dtype}: attention, ${title}`, async () => {
        const { batch = 1, heads, kvHeads = heads, queryLength, keyLength, headSize, causal = false } = given;
        const some = (count: number, seed: number) => wholes(count, seed, 8).map((value) => value / 8);
        const [x, y, z] = [
          some(batch * heads * queryLength * headSize, 11),
          some(batch * kvHeads * keyLength * headSize, 12),
          some(batch * kvHeads * keyLength * headSize, 13),
        ];
        const { window = 0, mask: maskDtype = "none" } = given;
        const all = { ...given, batch, kvHeads, causal, window, mask: maskDtype };
        const logs: number[] = [];
        const expected = attended(all, x, y, z, logs);
        const hides = {
          ...(window === 0 ? {} : { window }),
          ...(maskDtype === "none"
            ? {}
            : {
                mask: place(maskNumbers(all), maskDtype, 3),
                maskDtype,
                maskStrides: [queryLength * keyLength, 0, keyLength, 1],
              }),
        };
        const [q, k, v] = [place(x, dtype, 1), place(y, dtype, 2), place(z, dtype, 3)];
        await check(
          dtype,
          expected,
          (out) =>
            backend.attention({
              ...{ batch, heads, kvHeads, queryLength, keyLength, headSize, causal, dtype, q, k, v, out },
              ...hides,
            }),
          { tolerance: tolerances[dtype].attention },
        );
        if (!logged.includes(title)) return;
        const out = place(expected, dtype, 1);
        const call = { batch, heads, kvHeads, queryLength, keyLength, headSize, causal, dtype, q, k, v, out };
        await check("f32", logs, (logSumExp) => backend.attention({ ...call, ...hides, logSumExp }), {
          tolerance: tolerances.f32.attention,
        });
      });
  }

  for (const dtype of floatTypes)
    for (const [title, given] of Object.entries(gradients))
      it(`${dtype}: attentionGradient, ${title}`, async () => {
        const { batch, heads, kvHeads, queryLength, keyLength, headSize, causal, window, mask } = given;
        const [queries, keys] = [batch * heads * queryLength, batch * kvHeads * keyLength];
        const half = Math.ceil(headSize / 2);
        const some = (rows: number, seed: number) => wholes(rows * headSize, seed, 1);
        const values = {
          // Scores are 0, and all that is seen has a probability of 1.
          q: some(queries, 21).map((x, i) => (i % headSize < half ? x : 0)),
          k: some(keys, 22).map((x, i) => (i % headSize < half ? 0 : x)),
          ...{ v: some(keys, 23), out: some(queries, 24), outGradient: some(queries, 25) },
        };
        const expected = gradientsOf(given, values);
        const inputs = {
          ...{ q: place(values.q, dtype, 1), k: place(values.k, dtype, 2), v: place(values.v, dtype, 3) },
          ...{ out: place(values.out, dtype, 1), outGradient: place(values.outGradient, dtype, 5) },
          logSumExp: place(new Array<number>(queries).fill(0), "f32", 1),
        };
        const hides = {
          ...(window === 0 ? {} : { window }),
          ...(mask === "none"
            ? {}
            : {
                mask: place(maskNumbers(given), mask, 3),
                maskDtype: mask,
                maskStrides: [queryLength * keyLength, 0, keyLength, 1],
              }),
        };
        const results = {
          qGradient: place(expected.qGradient, dtype, 3),
          ...{
            kGradient: place(expected.kGradient, dtype, 1),
            vGradient: place(expected.vGradient, dtype, 2),
          },
        };
        for (const name of ["qGradient", "kGradient", "vGradient"] as const)
          await check(dtype, expected[name], (output) =>
            backend.attentionGradient({
              ...{ batch, heads, kvHeads, queryLength, keyLength, headSize, causal, dtype, scale: 1 },
              ...{ ...inputs, ...hides, ...results, [name]: output },
            }),
          );
      });

  for (const dtype of integerTypes) {
    /** As the elements hold them. */
    const wrapped = (values: readonly number[]): number[] => [...decode(encode(values, dtype), dtype)];
    /** In all of the range. */
    const some = (count: number, seed: number): number[] => {
      const next = random(seed);
      return wrapped(Array.from({ length: count }, () => next() * Number.MAX_SAFE_INTEGER));
    };

    for (const [shapeA, shapeB] of shapePairs)
      it(`${dtype}: binary of [${shapeA}] and [${shapeB}]`, async () => {
        const [x, y] = [some(countOf(shapeA), 2), some(countOf(shapeB), 3)];
        const expected = wrapped(broadcasted(shapeA, shapeB, x, y, (p, q) => p - q));
        const [a, b] = [place(x, dtype, 1), place(y, dtype, 2)];
        await check(dtype, expected, (output) =>
          backend.binary({ kind: "sub", dtype, shapeA, shapeB, a, b, output }),
        );
      });

    for (const [shape, axes] of reductions)
      for (const kind of ["sum", "max"] as const)
        it(`${dtype}: ${kind} of [${shape}] over [${axes}]`, async () => {
          const values = some(countOf(shape), 4);
          const input = place(values, dtype, 3);
          const expected = wrapped(reduced(kind, values, shape, axes));
          await check(dtype, expected, (output) =>
            backend.reduce({ kind, dtype, shape, axes, input, output }),
          );
        });
  }

  for (const [small, axes] of reductions)
    for (const kind of truthReduceKinds)
      it(`u8: ${kind} of [${small}] over [${axes}], with the last extent four times as large`, async () => {
        const shape = [...small.slice(0, -1), 4 * small.at(-1)!];
        const count = countOf(shape);
        const results = countOf(shape.filter((_, axis) => !(axes as readonly number[]).includes(axis)));
        const next = random(5);
        const values = Array.from({ length: count }, (_, i) => {
          const isDecisive = next() < Math.min((0.7 * results) / count, 0.5);
          return isDecisive === (kind === "any") ? 2 ** (i % 8) : 0;
        });
        await check("u8", reduced(kind, values, shape, axes), (output) =>
          backend.reduce({ kind, dtype: "u8", shape, axes, input: place(values, "u8", 3), output }),
        );
      });

  for (const dtype of [...floatTypes, ...integerTypes])
    for (const [shapeA, shapeB] of shapePairs)
      for (const before of [0, 5])
        it(`${dtype}: comparison of [${shapeA}] and [${shapeB}], to ${before} bytes into the buffer`, async () => {
          const [x, y] = [countOf(shapeA), countOf(shapeB)].map((count, seed) =>
            wholes(count, seed).map(Math.abs),
          );
          const expected = broadcasted(shapeA, shapeB, x!, y!, (p, q) => (p <= q ? 1 : 0));
          const [a, b] = [place(x!, dtype, before), place(y!, dtype, 2 * before)];
          await check(
            "u8",
            expected,
            (output) => backend.binary({ kind: "lessEqual", dtype, shapeA, shapeB, a, b, output }),
            { before },
          );
        });
});
