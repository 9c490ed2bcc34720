import {
  type ComputeBackend,
  type DeviceHandle,
  type MapNode,
  type Operand,
  openScope,
  type Scope,
} from "@backplane/core";

export interface SamplerOptions {
  /** 0: always the likeliest token. Logits are divided by it otherwise. */
  readonly temperature: number;
  /** Only the likeliest tokens that have this probability together are chosen from; 1: all. */
  readonly topP: number;
  /** Not 0. */
  readonly seed: number;
}

/** 1 where the sum of probabilities is above the parameter, and at the last place; else 0. */
function firstAbove(vocabulary: number): readonly MapNode[] {
  return [
    { input: 0 },
    { parameter: 0 },
    { binary: "greater", a: 0, b: 1 },
    { index: 0 },
    { constant: vocabulary - 1, type: "i32" },
    { binary: "equal", a: 3, b: 4 },
    { binary: "logicalOr", a: 2, b: 5 },
    { constant: 1 },
    { constant: 0 },
    { select: 6, a: 7, b: 8 },
  ];
}

/** 1 where the sum of probabilities is above the parameter times `total`, and from `last` on; else 0. */
const chosen: readonly MapNode[] = [
  { input: 0 },
  { parameter: 0 },
  { input: 1 },
  { binary: "mul", a: 1, b: 2 },
  { binary: "greater", a: 0, b: 3 },
  { index: 0 },
  { input: 2 },
  { binary: "greaterEqual", a: 5, b: 6 },
  { binary: "logicalOr", a: 4, b: 7 },
  { constant: 1 },
  { constant: 0 },
  { select: 8, a: 9, b: 10 },
];

/**
 * Chooses tokens by their logits, on the device. The rules and the random numbers are those of llama2.c (`sample` in
 * `run.c`), so that a seed gives its texts.
 */
export class Sampler {
  readonly #backend: ComputeBackend;
  readonly #vocabulary: number;
  readonly #temperature: number;
  readonly #topP: number;
  readonly #coins: Coins;
  readonly #scope: Scope;
  readonly #probabilities: DeviceHandle;
  readonly #sorted: DeviceHandle;
  /** Tokens in the order of `sorted`. */
  readonly #order: DeviceHandle;
  readonly #sums: DeviceHandle;
  readonly #flags: DeviceHandle;
  /** One number each: the last place that is chosen from, the sum there, and the chosen place. */
  readonly #last: DeviceHandle;
  readonly #total: DeviceHandle;
  readonly #place: DeviceHandle;
  readonly #firstAbove: readonly MapNode[];

  constructor(backend: ComputeBackend, vocabulary: number, options: SamplerOptions) {
    this.#backend = backend;
    this.#vocabulary = vocabulary;
    this.#temperature = options.temperature;
    this.#topP = options.topP;
    this.#coins = new Coins(options.seed);
    this.#scope = openScope(backend);
    this.#firstAbove = firstAbove(vocabulary);
    const alloc = (count: number) => this.#scope.alloc(4 * count);
    this.#probabilities = alloc(vocabulary);
    this.#sorted = alloc(vocabulary);
    this.#order = alloc(vocabulary);
    this.#sums = alloc(vocabulary);
    this.#flags = alloc(vocabulary);
    this.#last = alloc(1);
    this.#total = alloc(1);
    this.#place = alloc(1);
  }

  /** Enqueues token (i32) = the choice by logits ([vocabulary], f32). */
  sample(logits: Operand, token: Operand): void {
    const backend = this.#backend;
    const n = this.#vocabulary;
    if (this.#temperature === 0) {
      backend.argReduce({ kind: "argMax", shape: [n], input: logits, output: token });
      return;
    }
    const probabilities = this.#probabilities;
    backend.binary({ kind: "div", n, a: logits, b: { scalar: this.#temperature }, output: probabilities });
    backend.softmax({ kind: "softmax", shape: [n], input: probabilities, output: probabilities });
    const coin = this.#coins.next();
    const [sums, output] = [this.#sums, this.#flags];
    if (this.#topP <= 0 || this.#topP >= 1) {
      backend.scan({ kind: "sum", shape: [n], input: probabilities, output: sums });
      this.#firstSumAbove(coin, token);
      return;
    }
    backend.sort({
      ...{ shape: [n], descending: true },
      ...{ input: probabilities, values: this.#sorted, indices: this.#order },
    });
    backend.scan({ kind: "sum", shape: [n], input: this.#sorted, output: sums });
    this.#firstSumAbove(this.#topP, this.#last);
    this.#take("f32", sums, this.#last, this.#total);
    backend.map({
      ...{ shape: [n], inputs: [sums, this.#total, this.#last], inputShapes: [[n], [1], [1]] },
      ...{ inputTypes: ["f32", "f32", "i32"], parameters: [coin] },
      ...{ nodes: chosen, results: [-1], outputs: [output] },
    });
    backend.argReduce({ kind: "argMax", shape: [n], input: output, output: this.#place });
    this.#take("i32", this.#order, this.#place, token);
  }

  free(): void {
    this.#scope.dispose();
  }

  #firstSumAbove(limit: number, output: Operand): void {
    const n = this.#vocabulary;
    this.#backend.map({
      ...{ shape: [n], inputs: [this.#sums], parameters: [limit] },
      ...{ nodes: this.#firstAbove, results: [-1], outputs: [this.#flags] },
    });
    // The first of the largest: the first 1.
    this.#backend.argReduce({ kind: "argMax", shape: [n], input: this.#flags, output });
  }

  #take(dtype: "f32" | "i32", input: Operand, indices: Operand, output: Operand): void {
    this.#backend.gather({ shape: [this.#vocabulary], indexShape: [1], dtype, input, indices, output });
  }
}

const multiplier = 0x2545f4914f6cdd1dn;

/** Numbers in [0, 1): xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016). */
export class Coins {
  #state: bigint;

  constructor(seed: number) {
    this.#state = BigInt(seed);
  }

  next(): number {
    let state = this.#state;
    state ^= state >> 12n;
    state = BigInt.asUintN(64, state ^ (state << 25n));
    state ^= state >> 27n;
    this.#state = state;
    const word = Number(BigInt.asUintN(64, state * multiplier) >> 32n);
    return Math.floor(word / 2 ** 8) / 2 ** 24;
  }
}
