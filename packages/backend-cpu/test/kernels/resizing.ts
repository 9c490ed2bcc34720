/** For tests of resize2d and of its gradient. */
import type { Resize2dArguments, Resize2dKind, ResizedAxis } from "@backplane/core";

/** A call without operands; those of the gradient have the same arguments. */
export type Resize = Omit<Resize2dArguments, "input" | "output" | "kind" | "dtype">;
type Pair = readonly [height: number, width: number];

/** Images with channels first. */
export const planes = (from: Pair, to: Pair, rest: Partial<Resize> = {}): Resize => ({
  ...{ inputShape: [2, 3, ...from], outputHeight: to[0], outputWidth: to[1] },
  ...rest,
});

/** Images with `inner` channels, last. */
export const channels = (from: Pair, to: Pair, inner: number, rest: Partial<Resize> = {}): Resize => ({
  ...{ inputShape: [2, ...from, inner], outputHeight: to[0], outputWidth: to[1], layout: "NHWC" },
  ...rest,
});

/** Elements of the resized images. */
export function resultsOf({ inputShape, layout, outputHeight, outputWidth }: Resize): number {
  return inputShape[0] * (layout === "NHWC" ? inputShape[3] : inputShape[1]) * outputHeight * outputWidth;
}

/**
 * For each of `count` results along an axis: the elements before and after its place, and the weight of the latter. Written
 * without the code under test; exact, but for the rounding of doubles.
 */
export function placesAlong(
  kind: Resize2dKind,
  count: number,
  size: number,
  { factor, shift, divisor }: ResizedAxis,
): (readonly [before: number, after: number, weight: number])[] {
  return Array.from({ length: count }, (_, o) => {
    const place = Math.min(Math.max((o * factor + shift) / divisor, 0), size - 1);
    const lower = Math.floor(place + 1e-9);
    const weight = kind === "nearest" ? 0 : Math.max(0, place - lower);
    return [lower, Math.min(lower + 1, size - 1), weight < 1e-9 ? 0 : weight] as const;
  });
}
