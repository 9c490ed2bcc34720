import { writeFileSync } from "node:fs";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import {
  BackendError,
  BackendRegistry,
  type ComputeBackend,
  type DeviceHandle,
  dtypeBytes,
  type FloatType,
  openScope,
  type QuantizedBits,
  type Scope,
  SwitchableBackend,
  withScope,
} from "@backplane/core";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { UsageError } from "./command-line.js";
import { BlockMatrix, DenseMatrix, type Matrix } from "./matrix.js";
import { Transformer } from "./model.js";
import { profilerFor } from "./profile.js";
import { Sampler } from "./sampler.js";
import type { Shape } from "./shape.js";
import { parseSpeedOptions, type SpeedOptions, speedUsage } from "./speed-options.js";
import { layerShapes, mappedLayer, type Weights } from "./weights.js";
import { type Watch, Writer } from "./writer.js";

/*
 * How fast a model of some shape writes, with random weights:
 *
 *   node examples/story/dist/speed.js --shape llama3-8b --weights q4 --dtype f16 --backend webgpu
 */

const DEVIATION = 0.02;
/** Of a series of calls whose rate is measured. */
const LEAST_SECONDS = 0.05;
const MOST_CALLS = 1024;

/** Weights that nobody has trained, made on the device. */
class RandomWeights {
  /** Bytes of all of them. */
  bytes = 0;
  readonly #backend: ComputeBackend;
  readonly #scope: Scope;
  readonly #dtype: FloatType;
  /** Undefined: of `dtype`. */
  readonly #bits: QuantizedBits | undefined;
  readonly #mayRoundInput: boolean;
  #seed = 1;

  constructor(
    backend: ComputeBackend,
    scope: Scope,
    { dtype, bits, mayRoundInputs }: Pick<SpeedOptions, "dtype" | "bits" | "mayRoundInputs">,
  ) {
    this.#backend = backend;
    this.#scope = scope;
    this.#dtype = dtype;
    this.#bits = bits;
    this.#mayRoundInput = mayRoundInputs;
  }

  of(shape: Shape): Weights {
    const { size, layers, vocabulary } = shape;
    const matrix = (rows: number, columns: number) => this.#matrix(rows, columns);
    const embedding = matrix(vocabulary, size);
    // The embedding is looked up, and read as a whole only as the classifier.
    this.bytes = 0;
    const layer = () =>
      mappedLayer(
        layerShapes(shape),
        ([rows, columns]) => matrix(rows, columns),
        ([columns]) => this.#ones(columns),
      );
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
    const mayRoundInput = this.#mayRoundInput;
    return new BlockMatrix(backend, dtype, { rows, columns, bits, stored, scales, mayRoundInput });
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

/** What a round took. */
interface Round {
  /** Milliseconds from the prompt to the first token. */
  readonly prompt: number;
  /** Tokens a second, after the first one. */
  readonly decode: number;
  /** Milliseconds for each of these in which the host did not wait. */
  readonly busy: number;
}

async function measure(options: SpeedOptions): Promise<void> {
  const {
    shape,
    dtype,
    mayRoundInputs,
    tokens,
    prompt: promptLength,
    shapeName,
    weightsName,
    tier,
  } = options;
  const registry = new BackendRegistry([webgpu(tier === undefined ? {} : { tier }), cpu()]);
  const backend = new SwitchableBackend(registry, options.backend);
  await backend.init();
  const scope = openScope(backend);
  const profiler = options.profile ? profilerFor(backend) : undefined;
  const measured = profiler?.backend ?? backend;
  // Products are calls of the weights.
  const random = new RandomWeights(measured, scope, options);
  const weights = random.of(shape);
  await backend.synchronize();
  const sampler = new Sampler(measured, shape.vocabulary, { temperature: 0, topP: 1, seed: 1 });
  const transformer = new Transformer(measured, shape, weights, promptLength + tokens, dtype);
  const prompt = Array.from({ length: promptLength }, (_, i) => (7 * i) % shape.vocabulary);
  const { name, details } = backend.capabilities.device;
  const device = details.tier === undefined ? name : `${name}, tier ${details.tier.split(" ")[0]}`;
  const rounded = mayRoundInputs ? ", inputs may be rounded" : "";
  console.log(`${device}: ${shapeName}, weights ${weightsName}, computed in ${dtype}${rounded}`);
  const write = async (watch?: Watch): Promise<Round> => {
    let [first, count, waited] = [0, 0, 0];
    const writer = new Writer(measured, transformer, sampler, {
      waited(begin, end) {
        watch?.waited(begin, end);
        if (count > 0) waited += end - begin;
      },
    });
    const start = performance.now();
    for await (const _ of writer.write(prompt, tokens, new Set())) {
      if (count === 0) first = performance.now();
      count += 1;
    }
    const end = performance.now();
    writer.free();
    const [others, milliseconds] = [count - 1, end - first];
    return {
      prompt: first - start,
      decode: (1000 * others) / milliseconds,
      busy: (milliseconds - waited) / others,
    };
  };
  const memory = await memoryRates(backend);
  const operations = promptOperations(shape, promptLength);
  const products = await productRate(backend, dtype, operations);
  const gigabytes = (rate: number): string => `${(rate / 1e9).toFixed(1)} GB/s`;
  const rounds: Round[] = [];
  for (let i = 0; i < options.rounds; i++) {
    const round = await write();
    rounds.push(round);
    const rate = round.decode * random.bytes;
    const promptRate = operations / (round.prompt / 1000);
    console.log(
      `prompt of ${promptLength}: ${round.prompt.toFixed(1)} ms, ${(promptRate / 1e12).toPrecision(3)} TFLOP/s, ` +
        `${(promptRate / products).toFixed(2)} of gemm; ${round.decode.toFixed(1)} tokens/s, the host busy for ` +
        `${round.busy.toFixed(2)} of ${(1000 / round.decode).toFixed(2)} ms: ` +
        `${(random.bytes / 1e6).toFixed(0)} MB of weights at ${gigabytes(rate)}, ${(rate / memory.copy).toFixed(2)} of a copy, ` +
        `${(rate / memory.sum).toFixed(2)} of a sum`,
    );
  }
  console.log(
    `gemm ${(products / 1e12).toPrecision(3)} TFLOP/s, copy ${gigabytes(memory.copy)}, sum ${gigabytes(memory.sum)}`,
  );
  const sorted = rounds.map(({ decode }) => decode).sort((a, b) => b - a);
  const median = sorted[Math.floor(sorted.length / 2)]!;
  console.log(`tokens/s: best ${sorted[0]!.toFixed(1)}, median ${median.toFixed(1)}`);
  console.log(`live: ${(backend.memory().liveBytes / 1e6).toFixed(0)} MB`);
  if (options.json !== undefined)
    writeFileSync(
      options.json,
      `${JSON.stringify({
        ...{ device, shape: shapeName, weights: weightsName, dtype, mayRoundInputs, promptLength, tokens },
        ...{ weightBytes: random.bytes, promptOperations: operations },
        ...{ copyRate: memory.copy, sumRate: memory.sum, gemmRate: products, rounds },
      })}\n`,
    );
  if (profiler !== undefined) {
    const { text } = await profiler.measure(async (watch) => {
      await write(watch);
    });
    console.log(text);
  }
  for (const part of [sampler, transformer]) part.free();
  scope.dispose();
  await backend.dispose();
}

/** Products of the prompt's pass count two operations for a multiplication and an addition, in matrices and in attention. */
function promptOperations(
  { size, hidden, layers, heads, kvHeads, headSize, vocabulary }: Shape,
  count: number,
): number {
  const ofToken = size * ((2 * heads + 2 * kvHeads) * headSize + 3 * hidden);
  const pairs = (count * (count + 1)) / 2;
  return 2 * layers * (count * ofToken + 2 * heads * headSize * pairs) + 2 * size * vocabulary;
}

/** Bytes per second of what is enqueued, the best of a few series that each take a while: their end is waited for. */
async function bestRate(backend: ComputeBackend, work: number, enqueue: () => void): Promise<number> {
  let [best, times] = [0, 1];
  for (let series = 0; series < 5; ) {
    await backend.synchronize();
    const start = performance.now();
    for (let i = 0; i < times; i++) enqueue();
    await backend.synchronize();
    const seconds = (performance.now() - start) / 1000;
    best = Math.max(best, (times * work) / seconds);
    if (seconds < LEAST_SECONDS && times < MOST_CALLS) times *= 4;
    else series++;
  }
  return best;
}

interface MemoryRates {
  /** Bytes read and written per second as one piece of memory is copied to another. */
  readonly copy: number;
  /** Bytes read per second as numbers are summed. */
  readonly sum: number;
}

/** The rates of memory that no cache holds. */
async function memoryRates(backend: ComputeBackend): Promise<MemoryRates> {
  const rows = 1024;
  const bytes = Math.min(2 ** 28, backend.capabilities.limits.maxAllocationBytes);
  const columns = Math.floor(bytes / (4 * rows));
  const count = rows * columns;
  return withScope(backend, async (scope) => {
    const [numbers, sums] = [scope.alloc(4 * count), scope.alloc(4 * count)];
    // Systems give memory that nobody has written one page of zeros, which caches hold.
    for (const operand of [numbers, sums]) backend.fill(operand, 1, count);
    return {
      copy: await bestRate(backend, 8 * count, () => backend.copyDtoD(sums, numbers, 4 * count)),
      sum: await bestRate(backend, 4 * count, () =>
        backend.reduce({ kind: "sum", shape: [rows, columns], axes: [1], input: numbers, output: sums }),
      ),
    };
  });
}

/** Operations per second of large products in this type, which take no longer than `most` operations do. */
async function productRate(backend: ComputeBackend, dtype: FloatType, most: number): Promise<number> {
  const size = 2 ** Math.min(12, Math.max(8, Math.floor(Math.log2(most / 2) / 3)));
  const count = size * size;
  return withScope(backend, async (scope) => {
    const [a, b, c] = Array.from({ length: 3 }, () => scope.alloc(count * dtypeBytes[dtype])) as [
      DeviceHandle,
      DeviceHandle,
      DeviceHandle,
    ];
    for (const [seed, output] of [a, b].entries())
      backend.random({ kind: "normal", count, output, seed, deviation: DEVIATION, dtype });
    return bestRate(backend, 2 * size ** 3, () =>
      backend.gemm({ m: size, n: size, k: size, a, b, transB: true, c, dtype }),
    );
  });
}

tellSystemErrors();
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
