import type { Accuracy, UnitsRange } from "../accuracy.js";
import type { Capabilities, Numerics } from "../capabilities.js";
import { dtypes } from "../dtype.js";
import { type TransformedConvolutions, transformedConvolutionNames } from "../ops/conv2d/transforms.js";

/** Returns what can be promised of calls that run on either of two backends. Allocations begin on the first. */
export function weakerOf(first: Capabilities, second: Capabilities): Capabilities {
  const accuracy = weakerAccuracy(first.accuracy, second.accuracy);
  return {
    device: first.device,
    dtypes: dtypes.filter((dtype) => [first, second].some((each) => each.dtypes.includes(dtype))),
    limits: first.limits,
    numerics: weakerNumerics(first.numerics, second.numerics),
    synchronousReads: first.synchronousReads && second.synchronousReads,
    ...(accuracy === undefined ? {} : { accuracy }),
  };
}

function weakerNumerics(first: Numerics, second: Numerics): Numerics {
  const both = <Value>(of: (numerics: Numerics) => Value, strong: Value, weak: Value): Value =>
    of(first) === strong && of(second) === strong ? strong : weak;
  return {
    nan: both(({ nan }) => nan, "kept", "unspecified"),
    infinity: both(({ infinity }) => infinity, "kept", "unspecified"),
    subnormals: both(({ subnormals }) => subnormals, "kept", "flushed"),
    signedZero: both(({ signedZero }) => signedZero, "kept", "unspecified"),
    rounding: both(({ rounding }) => rounding, "nearest-even", "unspecified"),
    deterministic: first.deterministic && second.deterministic,
    transformedConvolutions: largerTile(first.transformedConvolutions, second.transformedConvolutions),
  };
}

function largerTile(
  first: TransformedConvolutions = "never",
  second: TransformedConvolutions = "never",
): TransformedConvolutions {
  const weakness = (tile: TransformedConvolutions): number => transformedConvolutionNames.indexOf(tile);
  return weakness(first) > weakness(second) ? first : second;
}

/** A function that only one of them declares is declared by neither. */
function weakerAccuracy(first: Accuracy | undefined, second: Accuracy | undefined): Accuracy | undefined {
  if (first === undefined || second === undefined) return undefined;
  return {
    unary: inBoth(first.unary, second.unary, largerUnits),
    binary: inBoth(first.binary, second.binary, Math.max),
  };
}

function inBoth<Value>(
  first: Readonly<Record<string, Value>> = {},
  second: Readonly<Record<string, Value>> = {},
  weaker: (a: Value, b: Value) => Value,
): Record<string, Value> {
  const shared = Object.keys(first).filter((kind) => second[kind] !== undefined);
  return Object.fromEntries(shared.map((kind) => [kind, weaker(first[kind]!, second[kind]!)]));
}

/** Cuts both lists at the ends of all their ranges. */
function largerUnits(first: readonly UnitsRange[], second: readonly UnitsRange[]): readonly UnitsRange[] {
  const ranges: UnitsRange[] = [];
  for (let i = 0, j = 0; ; ) {
    const [a, b] = [first[i]!, second[j]!];
    const units = Math.max(a.units, b.units);
    const below = Math.min(a.below ?? Infinity, b.below ?? Infinity);
    if (below === Infinity) return [...ranges, { units }];
    ranges.push({ below, units });
    if (a.below === below) i++;
    if (b.below === below) j++;
  }
}
