import type { ArithmeticKind, FloatUnaryKind } from "@backplane/core";
import { binaryEntries } from "./kinds/binary.js";
import { unaryEntries } from "./kinds/unary.js";

/*
 * The functions of unary, binary and random in double precision, for whoever has to know what is right: the oracle, the
 * tests of backends, examples. This is an entry point of its own, which imports nothing but types and tables.
 */

export { comparisons, type IntegerKind, integerFunctions, logicalFunctions } from "./kinds/binary.js";
export { erf, erfc } from "./kinds/gaussian.js";
export {
  type IntegerUnaryKind,
  integerUnaryFunctions,
  logicalUnaryFunctions,
  tests,
} from "./kinds/unary.js";

type Computed<Entries> = {
  readonly [Kind in keyof Entries]: Entries[Kind] extends { compute: infer Compute } ? Compute : never;
};

function computed<Entries extends Readonly<Record<string, { readonly compute: unknown }>>>(
  entries: Entries,
): Computed<Entries> {
  return Object.fromEntries(
    Object.entries(entries).map(([kind, { compute }]) => [kind, compute]),
  ) as Computed<Entries>;
}

/** Each function of floats in double precision, accurate to a few of its units in the last place. */
export const unaryFunctions: Readonly<Record<FloatUnaryKind, (x: number) => number>> = computed(unaryEntries);

export const binaryFunctions: Readonly<Record<ArithmeticKind, (a: number, b: number) => number>> =
  computed(binaryEntries);

/** e^(i 2 pi b / 2^32) as [cosine, sine]; exact in all multiples of a quarter turn. */
function turn(b: number): readonly [number, number] {
  const quarters = Math.floor((b + 2 ** 29) / 2 ** 30);
  const angle = (b - quarters * 2 ** 30) * ((2 * Math.PI) / 2 ** 32);
  const [x, y] = [Math.cos(angle), Math.sin(angle)];
  return (
    [
      [x, y],
      [-y, x],
      [-x, -y],
      [y, -x],
    ] as const
  )[quarters % 4]!;
}

/** The standard normal pair that random makes of two words. */
export function normalPair(a: number, b: number): readonly [number, number] {
  const radius = Math.sqrt(-2 * Math.log((a + 0.5) / 2 ** 32));
  const [x, y] = turn(b);
  return [radius * x, radius * y];
}
