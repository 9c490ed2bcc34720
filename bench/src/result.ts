import type { DeviceDescription, FloatType } from "@backplane/core";

/** The times of one case on one configuration, in seconds per operation. */
export interface Row {
  readonly case: string;
  readonly operation: string;
  readonly dtype: FloatType;
  readonly configuration: string;
  readonly flops: number;
  /** That must cross memory at least once. */
  readonly bytes: number;
  readonly median: number;
  readonly best: number;
  readonly samples: readonly number[];
  /** The middle half of the samples, as a share of their median. */
  readonly spread: number;
  /** The worst error found before timing, as a share of the allowed error. */
  readonly worstError: number;
  /** The least time that memory and arithmetic units need, over the median. Missing if unknown. */
  readonly ofFloor?: number;
  readonly comparison?: Comparison;
  /** Next to the anchor, if there was one that can do the case and `comparison` is with something else. */
  readonly anchor?: Ratio;
  /** The spread of the samples, or of the ratios, is too large to trust the middle. */
  readonly unstable: boolean;
  readonly curve?: { readonly name: string; readonly x: number };
}

/** The times of another contender, in turns with ours. */
export interface Ratio {
  readonly against: string;
  readonly median: number;
  readonly best: number;
  readonly samples: readonly number[];
  /** How many times as fast ours was: the median over the rounds, and best against best. */
  readonly ratio: number;
  readonly bestRatio: number;
  readonly spread: number;
}

/** One with a goal. */
export interface Comparison extends Ratio {
  readonly atLeast: number;
}

/** A case that gave no row, or a row without its comparison. */
export interface Missing {
  readonly case: string;
  readonly configuration: string;
  readonly reason: string;
  /** A wrong result, or a call that threw; otherwise only the comparison is missing. */
  readonly failed: boolean;
}

/** The output of one run: bench/results holds some. */
export interface Report {
  readonly date: string;
  readonly versions: Readonly<Record<string, string>>;
  /** Operating system and processor. */
  readonly machine: string;
  readonly command: readonly string[];
  readonly devices: Readonly<Record<string, DeviceDescription>>;
  /** The anchor's description of itself; missing if there is none. */
  readonly anchor?: Readonly<Record<string, unknown>>;
  /** Bytes a second of an aligned device copy, read and written bytes counted, by configuration. */
  readonly copyBandwidth: Readonly<Record<string, number>>;
  /** Floating-point operations a second that the device could reach. Missing if unknown. */
  readonly peak?: Peak;
  readonly rounds: number;
  readonly sampleMilliseconds: number;
  readonly rows: readonly Row[];
  readonly missing: readonly Missing[];
  /** Which kernels were chosen, and why, as the backends said. */
  readonly log: readonly string[];
}

export interface Peak {
  readonly f32: number;
  /** Of matrix units, with f32 sums. */
  readonly f16: number;
}
