import { parseArgs } from "node:util";
import { createCpuBackend } from "@backplane/backend-cpu";
import type { ComputeBackend, DeviceHandle, MapNode } from "@backplane/core";
import { commandLine, wholeNumber } from "./command-line.js";
import { generator } from "./data.js";
import { quantile } from "./statistics.js";

const usage = `Times steps of many small calls on the CPU backend, made one by one and as a recording, in turns: a training step of the
MLP of examples/digits, and a token of a language model of the shape of stories260K. Both ways must leave the same bits.

  --threads LIST  worker threads, with commas between (default 2,1,0)
  --rounds N      (default 40)
  --help          this text
`;

const batch = 100;
const sizes = [784, 256, 128, 10] as const;
const rate = 0.01;
const momentum = 0.9;

/** Calls of a step, and what they leave. */
interface Step {
  readonly calls: () => void;
  readonly results: readonly (readonly [DeviceHandle, count: number])[];
}

type Upload = (count: number, amplitude?: number) => DeviceHandle;

/** What passes back through relu: the gradient where the result is above 0. */
const passed: readonly MapNode[] = [
  { input: 0 },
  { input: 1 },
  { constant: 0 },
  { binary: "greater", a: 1, b: 2 },
  { select: 3, a: 0, b: 2 },
];

/** v = momentum v + gradient, w = w - rate v */
const updated: readonly MapNode[] = [
  { input: 0 },
  { input: 1 },
  { input: 2 },
  { parameter: 0 },
  { parameter: 1 },
  { binary: "mul", a: 1, b: 3 },
  { binary: "add", a: 5, b: 2 },
  { binary: "mul", a: 6, b: 4 },
  { binary: "sub", a: 0, b: 7 },
];

function trainingStep(backend: ComputeBackend, upload: Upload): Step {
  const layers = sizes.slice(1).map((outputs, i) => {
    const inputs = sizes[i]!;
    const parameter = (count: number, amplitude: number) => ({
      count,
      value: upload(count, amplitude),
      velocity: upload(count, 0),
      gradient: upload(count, 0),
    });
    const [weight, bias] = [parameter(inputs * outputs, inputs ** -0.5), parameter(outputs, 0.1)];
    return { inputs, outputs, weight, bias, out: upload(batch * outputs), delta: upload(batch * outputs) };
  });
  const [images, expected] = [upload(batch * sizes[0]), upload(batch * 10)];
  const [first, second, last] = layers as [Layer, Layer, Layer];
  const chance = upload(batch * 10);
  type Layer = (typeof layers)[number];
  const forward = (layer: Layer, a: DeviceHandle, activation?: "relu"): void => {
    const { inputs: k, outputs: n, weight, bias, out: c } = layer;
    backend.gemm({
      m: batch,
      n,
      k,
      a,
      b: weight.value,
      c,
      bias: bias.value,
      ...(activation && { activation }),
    });
  };
  const backward = (layer: Layer, a: DeviceHandle, below?: Layer): void => {
    const { inputs, outputs, weight, bias, delta } = layer;
    const alpha = 1 / batch;
    backend.gemm({ m: inputs, n: outputs, k: batch, a, transA: true, b: delta, c: weight.gradient, alpha });
    backend.reduce({ kind: "mean", shape: [batch, outputs], axes: [0], input: delta, output: bias.gradient });
    if (below === undefined) return;
    const [n, k] = [inputs, outputs];
    backend.gemm({ m: batch, n, k, a: delta, b: weight.value, transB: true, c: below.delta });
    const [inputs2, outputs2] = [[below.delta, below.out], [below.delta]];
    backend.map({ shape: [batch * n], nodes: passed, results: [-1], inputs: inputs2, outputs: outputs2 });
  };
  const calls = (): void => {
    forward(first, images, "relu");
    forward(second, first.out, "relu");
    forward(last, second.out);
    backend.softmax({ kind: "softmax", shape: [batch, 10], axis: 1, input: last.out, output: chance });
    backend.binary({ kind: "sub", n: batch * 10, a: chance, b: expected, output: last.delta });
    backward(last, second.out, second);
    backward(second, first.out, first);
    backward(first, images);
    for (const { weight, bias } of layers)
      for (const { count, value, velocity, gradient } of [weight, bias])
        backend.map({
          ...{ shape: [count], nodes: updated, parameters: [momentum, rate], results: [-1, 6] },
          ...{ inputs: [value, velocity, gradient], outputs: [value, velocity] },
        });
  };
  return { calls, results: layers.map(({ weight }) => [weight.value, weight.count] as const) };
}

/** Of the shape of stories260K. */
const model = { size: 64, hidden: 172, layers: 5, heads: 8, kvHeads: 4, vocabulary: 512, room: 256 };

const gated: readonly MapNode[] = [
  { input: 0 },
  { unary: "silu", x: 0 },
  { input: 1 },
  { binary: "mul", a: 1, b: 2 },
];

function tokenStep(backend: ComputeBackend, upload: Upload): Step {
  const { size, hidden, heads, kvHeads, vocabulary, room } = model;
  const headSize = size / heads;
  const width = (heads + 2 * kvHeads) * headSize;
  const layers = Array.from({ length: model.layers }, () => ({
    norms: [upload(size), upload(size)] as const,
    queryKeyValue: upload(width * size, 0.1),
    attentionOutput: upload(size * size, 0.1),
    gateUp: upload(2 * hidden * size, 0.1),
    down: upload(size * hidden, 0.1),
    cache: upload(2 * kvHeads * room * headSize),
  }));
  const [embedding, finalNorm, token] = [upload(vocabulary * size), upload(size), upload(1, 0)];
  const [cos, sin] = [upload((room * headSize) / 2), upload((room * headSize) / 2)];
  const [stream, normalized, mixed] = [upload(size), upload(size), upload(width)];
  const [attended, wide, narrow, logits] = [
    upload(size),
    upload(2 * hidden),
    upload(hidden),
    upload(vocabulary),
  ];
  const at = room / 2;
  const rms = (weight: DeviceHandle): void =>
    backend.normalize({ kind: "rms", rows: 1, size, input: stream, weight, output: normalized });
  const product = (a: DeviceHandle, b: DeviceHandle, c: DeviceHandle, n: number, k: number, beta = 0): void =>
    backend.gemm({ m: 1, n, k, a, b, transB: true, c, beta });
  const after = (handle: DeviceHandle, elements: number) => ({ handle, byteOffset: 4 * elements });
  const calls = (): void => {
    backend.gather({
      ...{ shape: [vocabulary, size], indexShape: [1, 1] },
      ...{ input: embedding, indices: token, output: stream },
    });
    for (const { norms, queryKeyValue, attentionOutput, gateUp, down, cache } of layers) {
      rms(norms[0]);
      product(normalized, queryKeyValue, mixed, width, size);
      backend.rope({
        ...{ kind: "neighbours", heads: heads + kvHeads, rows: 1, size: headSize, length: room, start: at },
        ...{ cos, sin, input: mixed, output: mixed },
      });
      backend.copy({
        ...{ shape: [2 * kvHeads, headSize], outputStrides: [room * headSize, 1] },
        ...{ input: after(mixed, size), output: after(cache, at * headSize) },
      });
      const strides = [kvHeads * room * headSize, room * headSize, headSize];
      backend.attention({
        ...{ batch: 1, heads, kvHeads, queryLength: 1, keyLength: at + 1, headSize, out: attended },
        ...{
          q: mixed,
          k: cache,
          kStrides: strides,
          v: after(cache, kvHeads * room * headSize),
          vStrides: strides,
        },
      });
      product(attended, attentionOutput, stream, size, size, 1);
      rms(norms[1]);
      product(normalized, gateUp, wide, 2 * hidden, size);
      const inputs = [wide, after(wide, hidden)];
      backend.map({ shape: [hidden], nodes: gated, results: [-1], inputs, outputs: [narrow] });
      product(narrow, down, stream, size, hidden, 1);
    }
    rms(finalNorm);
    product(normalized, embedding, logits, vocabulary, size);
  };
  return { calls, results: [[logits, vocabulary]] };
}

const steps = { "training step of an MLP": trainingStep, "token of a small model": tokenStep };

/** Each way has memory of its own, from the same numbers. */
async function measure(threads: number, rounds: number): Promise<void> {
  await using backend = createCpuBackend({ threads });
  await backend.init();
  for (const [title, make] of Object.entries(steps)) {
    const stepOf = (): Step => {
      const next = generator(1);
      return make(backend, (count, amplitude = 1) => {
        const handle = backend.alloc(4 * count);
        const values = Float32Array.from({ length: count }, () => amplitude * (2 * next() - 1));
        backend.copyHtoD(handle, values);
        return handle;
      });
    };
    const [plain, other] = [stepOf(), stepOf()];
    using recording = backend.record(other.calls);
    const ways = { plain: plain.calls, recorded: () => recording.run() };
    const microseconds = { plain: [] as number[], recorded: [] as number[] };
    const repeats = 20;
    for (let round = -5; round < rounds; round++)
      for (const way of ["plain", "recorded"] as const) {
        const start = performance.now();
        for (let i = 0; i < repeats; i++) ways[way]();
        await backend.synchronize();
        if (round >= 0) microseconds[way].push((1000 * (performance.now() - start)) / repeats);
      }
    for (const [i, [handle, count]] of plain.results.entries()) {
      const [a, b] = [new Uint32Array(count), new Uint32Array(count)];
      await backend.copyDtoH(a, handle);
      await backend.copyDtoH(b, other.results[i]![0]);
      if (a.some((word, at) => word !== b[at])) throw new Error(`${title}: the recording left other bits`);
    }
    const [one, two] = [quantile(microseconds.plain, 0.5), quantile(microseconds.recorded, 0.5)];
    console.log(
      `threads ${threads}, ${title}: ${one.toFixed(0)} us by calls, ${two.toFixed(0)} recorded, ${(one / two).toFixed(2)} times as fast`,
    );
  }
}

const { threads, rounds } = commandLine(usage, () => {
  const { values } = parseArgs({
    options: {
      threads: { type: "string", default: "2,1,0" },
      rounds: { type: "string", default: "40" },
      help: { type: "boolean", default: false },
    },
  });
  return {
    help: values.help,
    threads: values.threads.split(",").map((text) => wholeNumber("threads", text, 0)),
    rounds: wholeNumber("rounds", values.rounds, 1),
  };
});
for (const count of threads) await measure(count, rounds);
