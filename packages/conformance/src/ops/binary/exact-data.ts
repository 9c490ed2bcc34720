import { elementTypes, type FloatType, type IntegerType } from "@backplane/core";
import { type Distribution, draw, random } from "../../data.js";

/**
 * Data for both sides of comparisons and of integer arithmetic: many equal pairs, neighbours, zeros of either
 * sign, zero divisors, and the ends of the type.
 */
export function drawExact(
  dtype: FloatType | IntegerType | "u8",
  data: Distribution,
  seed: number,
  countA: number,
  countB: number,
): { readonly a: Float64Array; readonly b: Float64Array } {
  const { range } = elementTypes[dtype];
  const next = random(seed + 2);
  const one = range === undefined ? undefined : integersOf(range, next);
  const side = (count: number, shift: number) =>
    one === undefined
      ? draw(data, count, seed + shift, dtype as FloatType)
      : new Float64Array(count).map(() => one());
  const [a, b] = [side(countA, 0), side(countB, 1)];
  for (let i = 0; i < Math.min(countA, countB); i++) {
    const choice = next();
    if (dtype === "u8") {
      // All four pairs of truth values.
      if (choice < 0.25 || choice > 0.75) a[i] = 0;
      if (choice < 0.5) b[i] = 0;
    } else if (choice < 0.25) b[i] = a[i]!;
    else if (choice < 0.35 && one === undefined) {
      a[i] = next() < 0.5 ? -0 : 0;
      b[i] = next() < 0.5 ? -0 : 0;
    }
  }
  return { a, b };
}

/** Small numbers, the ends of the type and their neighbours, powers of two, and any bits. */
export function integersOf([least, largest]: readonly [number, number], next: () => number): () => number {
  const small = () => Math.floor(next() * 17) + Math.max(least, -8);
  const ends = [least, least + 1, largest - 1, largest, 0, 1, Math.max(least, -1)];
  const choices: readonly (() => number)[] = [
    small,
    () => ends[Math.floor(next() * ends.length)]!,
    // 2^24 + 1 and the like, which f32 does not hold.
    () =>
      2 ** Math.floor(next() * Math.floor(Math.log2(largest))) + Math.floor(next() * 3) - (least < 0 ? 1 : 0),
    () => Math.floor(least + next() * (largest - least + 1)),
  ];
  return () => Math.min(Math.max(choices[Math.floor(next() * choices.length)]!(), least), largest);
}
