import { Worker } from "node:worker_threads";
import type { Contender } from "../contender.js";

/** How a product is added to a sum. */
export type Instruction = "relaxed_madd" | "mul, add";

/** Sums that do not depend on each other: enough to hide latencies, few enough for 16 registers. */
const sums = 12;
/** Operations per pass of the loop: 4 lanes, a product and a sum each. */
const flopsPerPass = sums * 4 * 2;

/** Bytes of WebAssembly: https://webassembly.github.io/spec/core/binary/ and the relaxed SIMD proposal. */
const code = {
  i32: 0x7f,
  f32: 0x7d,
  v128: 0x7b,
  loop: 0x03,
  end: 0x0b,
  branchIf: 0x0d,
  get: 0x20,
  set: 0x21,
  tee: 0x22,
  i32Const: 0x41,
  f32Const: 0x43,
  i32Subtract: 0x6b,
  void: 0x40,
  simd: 0xfd,
  splat: 0x13,
  extractLane: 0x1f,
  add: [0xfd, 0xe4, 0x01],
  multiply: [0xfd, 0xe6, 0x01],
  relaxedMadd: [0xfd, 0x85, 0x02],
} as const;

/**
 * Returns a module whose "run(passes)" only multiplies and adds in registers: sum = sum * x + y, for twelve
 * sums of four lanes each. Its rate is the upper bound of WebAssembly SIMD for a matrix product.
 */
export function ceilingModule(instruction: Instruction): Uint8Array<ArrayBuffer> {
  const [passes, x, y, first] = [0, 1, 2, 3];
  const constant = (value: number, local: number) => [
    code.f32Const,
    ...new Uint8Array(Float32Array.of(value).buffer),
    ...[code.simd, code.splat, code.set, local],
  ];
  const all = Array.from({ length: sums }, (_, i) => first + i);
  const step =
    instruction === "relaxed_madd"
      ? [code.get, x, code.get, y, ...code.relaxedMadd]
      : [code.get, x, ...code.multiply, code.get, y, ...code.add];
  const body = [
    ...[1, sums + 2, code.v128],
    ...constant(0.999, x),
    ...constant(0.001, y),
    ...all.flatMap((sum) => constant(sum, sum)),
    ...[code.loop, code.void],
    ...all.flatMap((sum) => [code.get, sum, ...step, code.set, sum]),
    ...[code.get, passes, code.i32Const, 1, code.i32Subtract, code.tee, passes, code.branchIf, 0],
    code.end,
    // The result depends on every sum, or the engine might leave them out.
    ...all.flatMap((sum, i) => [code.get, sum, ...(i === 0 ? [] : code.add)]),
    ...[code.simd, code.extractLane, 0, code.end],
  ];
  const section = (id: number, content: readonly number[]) => [id, ...length(content.length), ...content];
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 1, code.i32, 1, code.f32]),
    ...section(3, [1, 0]),
    ...section(7, [1, 3, ...new TextEncoder().encode("run"), 0, 0]),
    ...section(10, [1, ...length(body.length), ...body]),
  ]);
}

function length(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...length(value >> 7)];
}

/** Returns the fused instruction if the engine has relaxed SIMD. */
export function bestInstruction(): Instruction {
  return WebAssembly.validate(ceilingModule("relaxed_madd")) ? "relaxed_madd" : "mul, add";
}

/** Returns a function that runs this many passes and returns the seconds that they took. */
export function ceilingRun(module: Uint8Array<ArrayBuffer>): (passes: number) => number {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module));
  const run = exports.run as (passes: number) => number;
  return (passes) => {
    const start = performance.now();
    if (!Number.isFinite(run(passes))) throw new Error("ceiling: the sums have overflowed");
    return (performance.now() - start) / 1000;
  };
}

/** Multiplies and adds on several threads at once, each of which runs `passes` on request; one is the caller's. */
export class Ceiling {
  readonly #threads: number;
  readonly #workers: readonly Worker[];
  readonly #here: (passes: number) => number;

  constructor(threads: number, instruction: Instruction) {
    const workerData = ceilingModule(instruction);
    this.#threads = threads;
    this.#here = ceilingRun(workerData);
    this.#workers = Array.from(
      { length: threads > 1 ? threads : 0 },
      () => new Worker(new URL("./ceiling-worker.js", import.meta.url), { workerData }),
    );
  }

  /** Returns the least time for this many floating-point operations. */
  contender(flops: number): Contender {
    let passes = 1e6;
    return {
      sample: async ({ sample, warmUp }) => {
        for (let spent = 0; spent < warmUp; ) spent += await this.#run(passes);
        let seconds = await this.#run(passes);
        // The first time, a sample is found to be short, and made longer.
        while (seconds < sample / 2) {
          passes = Math.min(Math.ceil((passes * sample) / seconds), 2 ** 31 - 1);
          seconds = await this.#run(passes);
        }
        return (flops * seconds) / (passes * flopsPerPass * this.#threads);
      },
      close() {},
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  /** Seconds of the slowest, from its own clock: starting them takes a while. */
  async #run(passes: number): Promise<number> {
    if (this.#workers.length === 0) return this.#here(passes);
    const seconds = await Promise.all(
      this.#workers.map(
        (worker) =>
          new Promise<number>((resolve, reject) => {
            worker.once("error", reject);
            worker.once("message", (time: number) => {
              worker.off("error", reject);
              resolve(time);
            });
            worker.postMessage(passes);
          }),
      ),
    );
    return Math.max(...seconds);
  }
}
