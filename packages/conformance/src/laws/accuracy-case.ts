import { type ArithmeticKind, type FloatType, type FloatUnaryKind, rangeAt } from "@backplane/core";
import { declaredRanges, declaredUnits, expectedOf, unitsOff, unitsTolerance } from "../accuracy.js";
import { floatFormats } from "../elements.js";
import { binaryFunctions, unaryFunctions } from "../functions.js";
import { binaryEntries } from "../kinds/binary.js";
import { binaryCall, compute, unaryCall } from "../kit/values.js";
import type { LawContext } from "../law.js";
import { binaryTolerance } from "../ops/binary/index.js";
import { inDomain, unaryTolerance } from "../ops/unary/index.js";
import { measure, WrongResults } from "../workspace.js";
import { stratified, stratifiedPairs } from "./accuracy-arguments.js";

/** Arguments and results of one function on a backend. */
export interface Sweep {
  readonly kind: FloatUnaryKind | ArithmeticKind;
  readonly count: number;
  readonly got: readonly number[];
  readonly exact: readonly number[];
  /** The arguments of one result. */
  readonly at: (i: number) => readonly number[];
  /** Returns the units declared there; undefined if none are. */
  readonly units: (i: number) => number | undefined;
  /** Index of the declared range, or 0. */
  readonly range: (i: number) => number;
  /** Returns the bound that every backend keeps; infinite if there is none. */
  readonly least: (i: number) => number;
}

/** A unary function at arguments of every exponent, in ascending order. */
export async function sweepUnary(
  { backend, numerics }: LawContext,
  dtype: FloatType,
  kind: FloatUnaryKind,
  seed: number,
): Promise<Sweep & { readonly x: Float64Array }> {
  const { accuracy } = backend.capabilities;
  const ranges = declaredRanges(accuracy, kind);
  const x = stratified(dtype, ranges ?? [], numerics.subnormals === "kept", seed);
  const exact = Array.from(x, unaryFunctions[kind]);
  const call = unaryCall(backend, dtype, kind, x.length);
  const got = await compute(backend, dtype, [Array.from(x)], x.length, call);
  return {
    ...{ kind, x, count: x.length, got, exact },
    at: (i) => [x[i]!],
    units: (i) => ranges?.[rangeAt(ranges, x[i]!)]?.units,
    range: (i) => (ranges === undefined ? 0 : rangeAt(ranges, x[i]!)),
    least: (i) =>
      inDomain(kind, dtype, x[i]!)
        ? unaryTolerance(kind, x[i]!, exact[i]!, dtype, numerics)
        : Number.POSITIVE_INFINITY,
  };
}

/** A binary function at first operands of every exponent, with results of every exponent. */
export async function sweepBinary(
  { backend, numerics }: LawContext,
  dtype: FloatType,
  kind: ArithmeticKind,
  seed: number,
): Promise<Sweep> {
  const units = declaredUnits(backend.capabilities.accuracy, kind);
  const { a, b } = stratifiedPairs(kind, dtype, seed);
  const exact = Array.from(a, (first, i) => binaryFunctions[kind](first, b[i]!));
  const call = binaryCall(backend, dtype, kind, a.length);
  const got = await compute(backend, dtype, [Array.from(a), Array.from(b)], a.length, call);
  const isGranted = (i: number) => binaryEntries[kind].domain?.(a[i]!, b[i]!) ?? true;
  return {
    ...{ kind, count: a.length, got, exact },
    at: (i) => [a[i]!, b[i]!],
    units: () => units,
    range: () => 0,
    least: (i) =>
      isGranted(i)
        ? binaryTolerance(kind, a[i]!, b[i]!, exact[i]!, dtype, numerics)
        : Number.POSITIVE_INFINITY,
  };
}

/** Checks every result against the stricter of its bounds, and notes by how many units it is off. */
export function checkErrors(context: LawContext, dtype: FloatType, sweep: Sweep): void {
  const { numerics } = context;
  const places: number[] = [];
  const values: number[] = [];
  const bounds: number[] = [];
  for (const [i, y] of sweep.exact.entries()) {
    const units = sweep.units(i) ?? Number.POSITIVE_INFINITY;
    const bound = Math.min(sweep.least(i), unitsTolerance(units, y, dtype, numerics));
    if (bound === Number.POSITIVE_INFINITY) continue;
    const expected = expectedOf(sweep.got[i]!, y, bound, dtype, numerics);
    if (expected === undefined) continue;
    places.push(i);
    values.push(expected);
    bounds.push(bound);
  }
  if (floatFormats[dtype].bitsLost === 0) noteUnits(context, sweep);
  const got = Float64Array.from(sweep.got);
  // As in shapeAxes: the elements of the output, and of the other operand if there is one.
  const extents = sweep.at(0).map(() => got.length);
  try {
    measure(context, extents, got, { places, values, magnitudes: values }, (_y, _m, i) => bounds[i]!);
  } catch (error) {
    if (!(error instanceof WrongResults)) throw error;
    const i = places[error.values.first]!;
    const units = sweep.units(i);
    const bound =
      units === undefined ? "the least bound of all backends" : `${units} units in the last place`;
    const call = `${sweep.kind}(${sweep.at(i).join(", ")})`;
    throw new Error(`${call}: beyond ${bound}; ${error.message}`, { cause: error });
  }
}

/** The worst result of each range, for reports. */
function noteUnits(context: LawContext, sweep: Sweep): void {
  const worst = new Map<number, { readonly units: number; readonly place: number }>();
  for (const [place, y] of sweep.exact.entries()) {
    const units = unitsOff(sweep.got[place]!, y, context.numerics);
    const range = sweep.range(place);
    if (units !== undefined && !(units <= (worst.get(range)?.units ?? -1)))
      worst.set(range, { units, place });
  }
  // JSON has no -0.
  for (const [range, { units, place }] of worst)
    context.observeUnits({ kind: sweep.kind, range, units, at: sweep.at(place).map((x) => x + 0) });
}
