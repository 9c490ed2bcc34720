import {
  BackendError,
  type ComputeBackend,
  dtypeBytes,
  type FloatType,
  openScope,
  type QuantizedBits,
  type Scope,
} from "@backplane/core";
import { registry } from "./backends.js";
import { UsageError } from "./command-line.js";
import { BlockMatrix, DenseMatrix, type Matrix } from "./matrix.js";
import { Transformer, type Weights } from "./model.js";
import { Sampler } from "./sampler.js";
import type { Shape } from "./shape.js";
import { parseSpeedOptions, type SpeedOptions, speedUsage } from "./speed-options.js";
import { Writer } from "./writer.js";

/*
 * How fast a model of some shape writes, with random weights:
 *
 *   node examples/story/dist/speed.js --shape llama3-8b --weights q4 --dtype f16 --backend webgpu
 */

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
    const values = this.#alloc(count * dtypeBytes[this.#dtype]);
    this.#backend.fill(values, 1, count, this.#dtype);
    return values;
  }

  #matrix(rows: number, columns: number): Matrix {
    const count = rows * columns;
    const [backend, dtype, bits] = [this.#backend, this.#dtype, this.#bits];
    const seed = this.#seed++;
    if (bits === undefined) {
      const values = this.#alloc(count * dtypeBytes[dtype]);
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

async function main(args: readonly string[]): Promise<void> {
  const options = parseSpeedOptions(args);
  if (options.help) process.stdout.write(speedUsage);
  else await measure(options);
}

async function measure(options: SpeedOptions): Promise<void> {
  const { shape, dtype, bits, tokens, rounds, prompt: promptLength } = options;
  const backend = registry.create(options.backend);
  await backend.init();
  const scope = openScope(backend);
  const random = new RandomWeights(backend, scope, dtype, bits);
  const weights = random.of(shape);
  await backend.synchronize();
  const transformer = new Transformer(backend, shape, weights, promptLength + tokens, dtype);
  const sampler = new Sampler(backend, shape.vocabulary, { temperature: 0, topP: 1, seed: 1 });
  const writer = new Writer(backend, transformer, sampler);
  const prompt = Array.from({ length: promptLength }, (_, i) => (7 * i) % shape.vocabulary);
  const { shapeName, weightsName } = options;
  console.log(
    `${backend.capabilities.device.name}: ${shapeName}, weights ${weightsName}, computed in ${dtype}`,
  );
  const rates: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const bandwidth = await readRate(backend);
    const start = performance.now();
    let first = 0;
    let count = 0;
    for await (const _ of writer.write(prompt, tokens, new Set())) {
      if (count === 0) first = performance.now();
      count += 1;
    }
    const decode = (count - 1) / ((performance.now() - first) / 1000);
    rates.push(decode);
    const rate = decode * random.bytes;
    console.log(
      `prompt of ${promptLength}: ${(first - start).toFixed(1)} ms; ${decode.toFixed(1)} tokens/s; ` +
        `weights ${(random.bytes / 1e6).toFixed(0)} MB, read at ${(rate / 1e9).toFixed(1)} GB/s, ` +
        `${(rate / bandwidth).toFixed(2)} of the ${(bandwidth / 1e9).toFixed(1)} GB/s of a sum`,
    );
  }
  rates.sort((a, b) => b - a);
  const median = rates[Math.floor(rates.length / 2)]!;
  console.log(`tokens/s: best ${rates[0]!.toFixed(1)}, median ${median.toFixed(1)}`);
  console.log(`live: ${(backend.memory().liveBytes / 1e6).toFixed(0)} MB`);
  for (const part of [writer, sampler, transformer]) part.free();
  scope.dispose();
  await backend.dispose();
}

/** Bytes per second at which the backend reads memory, as it sums numbers that no cache holds: the best of a few. */
async function readRate(backend: ComputeBackend): Promise<number> {
  const bytes = Math.min(2 ** 27, backend.capabilities.limits.maxAllocationBytes);
  const rows = 1024;
  const columns = Math.floor(bytes / (4 * rows));
  const [numbers, sums] = [backend.alloc(4 * rows * columns), backend.alloc(4 * rows)];
  // Systems give memory that nobody has written one page of zeros, which caches hold.
  backend.fill(numbers, 1, rows * columns);
  let best = 0;
  for (let i = 0; i < 4; i++) {
    const times = 4;
    await backend.synchronize();
    const start = performance.now();
    for (let j = 0; j < times; j++)
      backend.reduce({ kind: "sum", shape: [rows, columns], axes: [1], input: numbers, output: sums });
    await backend.synchronize();
    best = Math.max(best, (times * 4 * rows * columns) / ((performance.now() - start) / 1000));
  }
  backend.free(numbers);
  backend.free(sums);
  return best;
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof UsageError) {
    process.stderr.write(`${error.message}\n\n${speedUsage}`);
    process.exitCode = 2;
  } else if (error instanceof BackendError) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  } else throw error;
}
