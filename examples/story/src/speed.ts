import { parseArgs } from "node:util";
import {
  type ComputeBackend,
  type FloatType,
  openScope,
  type QuantizedBits,
  type Scope,
} from "@backplane/core";
import { registry } from "./backends.js";
import { BlockMatrix, DenseMatrix, type Matrix } from "./matrix.js";
import { Transformer, type Weights } from "./model.js";
import { Sampler } from "./sampler.js";
import { ropeFrequencies, type Shape } from "./shape.js";
import { Writer } from "./writer.js";

/*
 * How fast a model of some shape writes, with random weights:
 *
 *   node examples/story/dist/speed.js --shape llama3-8b --weights q4 --dtype f16 --backend webgpu
 */

/** Sizes of well-known models. */
const shapes = {
  stories260K: shapeOf(64, 172, 5, 8, 4, 512, 512, 10_000),
  stories110M: shapeOf(768, 2048, 12, 12, 12, 32_000, 1024, 10_000),
  "tinyllama-1b": shapeOf(2048, 5632, 22, 32, 4, 32_000, 2048, 10_000),
  "llama3-8b": shapeOf(4096, 14_336, 32, 32, 8, 128_256, 8192, 500_000),
} as const;

function shapeOf(
  ...[size, hidden, layers, heads, kvHeads, vocabulary, length, base]: [
    ...[number, number, number, number, number, number, number, number],
  ]
): Shape {
  const headSize = size / heads;
  const frequencies = ropeFrequencies(headSize, base);
  return { size, hidden, layers, heads, kvHeads, headSize, vocabulary, length, epsilon: 1e-5, frequencies };
}

const DEVIATION = 0.02;

/** Weights that nobody has trained, made on the device. */
class RandomWeights {
  /** Bytes of all of them. */
  bytes = 0;
  readonly #backend: ComputeBackend;
  readonly #scope: Scope;
  readonly #dtype: FloatType;
  /** Undefined: of `dtype`. */
  readonly #bits: QuantizedBits | undefined;
  #seed = 1;

  constructor(backend: ComputeBackend, scope: Scope, dtype: FloatType, bits: QuantizedBits | undefined) {
    this.#backend = backend;
    this.#scope = scope;
    this.#dtype = dtype;
    this.#bits = bits;
  }

  of({ size, hidden, layers, heads, kvHeads, headSize, vocabulary }: Shape): Weights {
    const matrix = (rows: number, columns: number) => this.#matrix(rows, columns);
    const embedding = matrix(vocabulary, size);
    // The embedding is looked up, and read as a whole only as the classifier.
    this.bytes = 0;
    const layer = () => ({
      attentionNorm: this.#ones(size),
      queryKeyValue: matrix((heads + 2 * kvHeads) * headSize, size),
      attentionOutput: matrix(size, heads * headSize),
      feedForwardNorm: this.#ones(size),
      gateUp: matrix(2 * hidden, size),
      down: matrix(size, hidden),
    });
    return {
      ...{ embedding, finalNorm: this.#ones(size), classifier: matrix(vocabulary, size) },
      layers: Array.from({ length: layers }, layer),
    };
  }

  #ones(count: number) {
    const values = this.#alloc(count * bytesOf[this.#dtype]);
    this.#backend.fill(values, 1, count, this.#dtype);
    return values;
  }

  #matrix(rows: number, columns: number): Matrix {
    const count = rows * columns;
    const [backend, dtype, bits] = [this.#backend, this.#dtype, this.#bits];
    const seed = this.#seed++;
    if (bits === undefined) {
      const values = this.#alloc(count * bytesOf[dtype]);
      backend.random({ kind: "normal", count, output: values, seed, deviation: DEVIATION, dtype });
      return new DenseMatrix(backend, dtype, rows, columns, values);
    }
    const stored = this.#alloc((count * bits) / 8);
    backend.random({ kind: "bits", count: (count * bits) / 32, output: stored, seed });
    const scales = this.#alloc((count / 32) * 2);
    backend.fill(scales, DEVIATION / 2 ** (bits - 2), count / 32, "f16");
    return new BlockMatrix(backend, dtype, { rows, columns, bits, stored, scales });
  }

  #alloc(bytes: number) {
    this.bytes += bytes;
    return this.#scope.alloc(bytes, { zero: false });
  }
}

const bytesOf: Readonly<Record<FloatType, number>> = { f32: 4, f16: 2 };
const kinds: Readonly<Record<string, QuantizedBits | undefined>> = { dense: undefined, q8: 8, q4: 4 };

const { values: given } = parseArgs({
  options: {
    shape: { type: "string", default: "stories260K" },
    weights: { type: "string", default: "dense" },
    dtype: { type: "string", default: "f32" },
    backend: { type: "string", default: "webgpu" },
    prompt: { type: "string", default: "256" },
    tokens: { type: "string", default: "64" },
    rounds: { type: "string", default: "3" },
  },
});
const shape = shapes[given.shape as keyof typeof shapes];
if (shape === undefined || !Object.hasOwn(kinds, given.weights))
  throw new Error(`allowed: --shape ${Object.keys(shapes)} --weights ${Object.keys(kinds)}`);
const dtype = given.dtype as FloatType;
const [promptLength, tokens, rounds] = [Number(given.prompt), Number(given.tokens), Number(given.rounds)];

const backend = registry.create(given.backend);
await backend.init();
const scope = openScope(backend);
const random = new RandomWeights(backend, scope, dtype, kinds[given.weights]);
const weights = random.of(shape);
await backend.synchronize();
const transformer = new Transformer(backend, shape, weights, promptLength + tokens, dtype);
const sampler = new Sampler(backend, shape.vocabulary, { temperature: 0, topP: 1, seed: 1 });
const writer = new Writer(backend, transformer, sampler);
const prompt = Array.from({ length: promptLength }, (_, i) => (7 * i) % shape.vocabulary);
console.log(
  `${backend.capabilities.device.name}: ${given.shape}, weights ${given.weights}, computed in ${dtype}`,
);
for (let round = 0; round < rounds; round++) {
  const bandwidth = await copyRate(backend);
  const start = performance.now();
  let first = 0;
  let count = 0;
  for await (const _ of writer.write(prompt, tokens, new Set())) {
    if (count === 0) first = performance.now();
    count += 1;
  }
  const decode = (count - 1) / ((performance.now() - first) / 1000);
  const rate = decode * random.bytes;
  console.log(
    `prompt of ${promptLength}: ${(first - start).toFixed(1)} ms; ${decode.toFixed(1)} tokens/s; ` +
      `weights ${(random.bytes / 1e6).toFixed(0)} MB, read at ${(rate / 1e9).toFixed(1)} GB/s, ` +
      `${(rate / bandwidth).toFixed(2)} of a copy's ${(bandwidth / 1e9).toFixed(0)} GB/s`,
  );
}
console.log(`live: ${(backend.memory().liveBytes / 1e6).toFixed(0)} MB`);
for (const part of [writer, sampler, transformer]) part.free();
scope.dispose();
await backend.dispose();

/** Bytes per second that copies read and write together: the best of a few. */
async function copyRate(backend: ComputeBackend): Promise<number> {
  const bytes = Math.min(2 ** 27, backend.capabilities.limits.maxAllocationBytes);
  const [from, to] = [backend.alloc(bytes), backend.alloc(bytes)];
  let best = 0;
  for (let i = 0; i < 4; i++) {
    const copies = 8;
    await backend.synchronize();
    const start = performance.now();
    for (let j = 0; j < copies; j++) backend.copyDtoD(to, from, bytes);
    await backend.synchronize();
    best = Math.max(best, (2 * copies * bytes) / ((performance.now() - start) / 1000));
  }
  backend.free(from);
  backend.free(to);
  return best;
}
