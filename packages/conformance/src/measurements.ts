import { type OperationName, operationNames } from "@backplane/core";
import type { UnitsObservation } from "./law.js";
import { testedOperations } from "./ops/index.js";

/**
 * Upper ends of the buckets of error / tolerance. A ratio r falls into the first bucket with r <= end;
 * the last bucket, beyond these, is for ratios above 1, which break a law. The first is for exact results.
 */
export const ratioEnds: readonly number[] = [0, ...Array.from({ length: 17 }, (_, i) => 2 ** (i - 16))];

/** Number of cases per bucket of `ratioEnds`, and one more for those above 1. */
export type RatioHistogram = readonly number[];

/** The extents of a shape that matter most to kernels, the two most telling ones first; see `TestedOperation`. */
export const shapeAxes: Readonly<Record<OperationName, readonly string[]>> = Object.fromEntries(
  operationNames.map((name) => [name, testedOperations[name].shapeAxes]),
) as Record<OperationName, readonly string[]>;

/** A sparse histogram of the shapes tried. */
export interface ShapeCells {
  /** As in `shapeAxes`. */
  readonly axes: readonly string[];
  readonly cells: readonly ShapeCell[];
}

export interface ShapeCell {
  /** floor(log2(extent)) along each axis; -1 for an extent of 0. */
  readonly bins: readonly number[];
  readonly cases: number;
  /** The largest error / tolerance of these cases, as in `LawReport`. */
  readonly worst: number;
}

/** The measurements of laws. */
export interface Measurements {
  /** Cases tried, without those of shrinking. */
  readonly cases: number;
  /** The largest error over tolerance, which may be infinite; undefined if nothing was measured. */
  readonly worst: number | undefined;
  readonly ratios: RatioHistogram;
  readonly cells: readonly ShapeCell[];
  /** The worst one of each function and range. */
  readonly units: readonly UnitsObservation[];
}

/** Gathers the measurements of one law. */
export class Recorder {
  #cases = 0;
  #worst: number | undefined;
  readonly #ratios: number[] = new Array<number>(ratioEnds.length + 1).fill(0);
  readonly #cells = new Map<string, ShapeCell>();
  readonly #units = new Map<string, UnitsObservation>();
  #isStopped = false;

  /** Ends the counting: the cases that follow a failure belong to shrinking. */
  stop(): void {
    this.#isStopped = true;
  }

  countCase(): void {
    if (!this.#isStopped) this.#cases++;
  }

  /** Records the worst ratio of a result, and the extents of its shape if they are known. */
  observe(ratio: number, extents?: readonly number[]): void {
    if (this.#isStopped) return;
    const value = Number.isNaN(ratio) ? Number.POSITIVE_INFINITY : ratio;
    this.#worst = Math.max(this.#worst ?? 0, value);
    this.#ratios[bucketOf(value)]!++;
    if (extents !== undefined) addCell(this.#cells, { bins: extents.map(binOf), cases: 1, worst: value });
  }

  observeUnits(observation: UnitsObservation): void {
    if (!this.#isStopped) addUnits(this.#units, observation);
  }

  get measurements(): Measurements {
    const cells = [...this.#cells.values()];
    const units = [...this.#units.values()];
    return { cases: this.#cases, worst: this.#worst, ratios: [...this.#ratios], cells, units };
  }
}

/** Index of the bucket of `ratioEnds` into which a ratio falls. */
export function bucketOf(ratio: number): number {
  const bucket = ratioEnds.findIndex((end) => ratio <= end);
  return bucket < 0 ? ratioEnds.length : bucket;
}

function binOf(extent: number): number {
  return extent <= 0 ? -1 : Math.floor(Math.log2(extent));
}

function addCell(cells: Map<string, ShapeCell>, { bins, cases, worst }: ShapeCell): void {
  const key = bins.join();
  const before = cells.get(key);
  cells.set(key, {
    bins,
    cases: (before?.cases ?? 0) + cases,
    worst: Math.max(before?.worst ?? 0, worst),
  });
}

function addUnits(all: Map<string, UnitsObservation>, observation: UnitsObservation): void {
  const key = `${observation.kind} ${observation.range}`;
  if (!(observation.units <= (all.get(key)?.units ?? -1))) all.set(key, observation);
}

/** Several measurements as one. */
export function merged(all: Iterable<Measurements>): Measurements {
  const cells = new Map<string, ShapeCell>();
  const units = new Map<string, UnitsObservation>();
  const ratios = new Array<number>(ratioEnds.length + 1).fill(0);
  let cases = 0;
  let worst: number | undefined;
  for (const one of all) {
    cases += one.cases;
    if (one.worst !== undefined) worst = Math.max(worst ?? 0, one.worst);
    for (const [i, count] of one.ratios.entries()) ratios[i]! += count;
    for (const cell of one.cells) addCell(cells, cell);
    for (const observation of one.units) addUnits(units, observation);
  }
  return { cases, worst, ratios, cells: [...cells.values()], units: [...units.values()] };
}

/** As numbers are written in reports, since JSON has no infinity. */
export function finite(ratio: number): number {
  return Math.min(ratio, Number.MAX_VALUE);
}
