import type { PeerName } from "./peer.js";

/** Times of one contender on one row, in seconds per operation. */
export interface Times {
  readonly median: number;
  readonly best: number;
  readonly samples: readonly number[];
}

/** How many times as fast ours was as another: the median over the rounds, and best against best. */
export interface Ratio {
  readonly ratio: number;
  readonly bestRatio: number;
  /** The middle half of the rounds' ratios, as a share of their median. */
  readonly spread: number;
}

export interface PeerTimes extends Times, Ratio {
  readonly name: PeerName;
  /** Which operators computed it. */
  readonly how: string;
  /** The worst error before timing, as a share of our allowed error; peers may be further off. */
  readonly worstError: number;
}

/** One case on one number of threads. */
export interface CpuRow {
  readonly case: string;
  readonly operation: string;
  readonly threads: number;
  readonly flops: number;
  /** That must cross memory at least once. */
  readonly bytes: number;
  readonly ours: Times & { readonly worstError: number };
  readonly peers: readonly PeerTimes[];
  /** Least ratio wanted to the best peer in WebAssembly. */
  readonly goal: number;
  /** Our rate as a share of the rate of multiplying and adding in registers on as many threads. Products only. */
  readonly ceiling?: Ratio & { readonly flopsPerSecond: number };
  /** How many times as fast as ours on one thread. Products only. */
  readonly scaling?: Ratio;
}

/** A row, or one peer of it, that could not be had. */
export interface CpuMissing {
  readonly case: string;
  readonly threads: number;
  readonly name: PeerName | "backplane";
  readonly reason: string;
}

export interface PeerAbout {
  readonly name: PeerName;
  /** Asked for, and had. */
  readonly asked: number;
  readonly threads: number;
  readonly version: string;
  readonly note: string;
}

/** From starting a process to its first result, in milliseconds, over several processes. */
export interface Startup {
  readonly threads: number;
  /** Loading the modules. */
  readonly load: readonly number[];
  readonly init: readonly number[];
  /** A product of 256^3 and the wait for it: the first one, and the second. */
  readonly first: readonly number[];
  readonly second: readonly number[];
}

/** The output of one run. */
export interface CpuReport {
  readonly date: string;
  readonly node: string;
  readonly machine: string;
  readonly rounds: number;
  readonly sampleMilliseconds: number;
  readonly instruction: string;
  /** The native library that computed our large products, if one was requested. */
  readonly blas?: string;
  /** The tiles by whose transforms ours could compute 3x3 convolutions, if any. */
  readonly transforms?: string;
  readonly peers: readonly PeerAbout[];
  readonly rows: readonly CpuRow[];
  readonly startup: readonly Startup[];
  readonly missing: readonly CpuMissing[];
}
