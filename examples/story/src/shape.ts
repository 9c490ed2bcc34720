import { faultOfCounts } from "./checkpoint/json.js";

/** The sizes of a transformer of the llama architecture. */
export interface Shape {
  /** Numbers of the residual stream at each position. */
  readonly size: number;
  /** Numbers between the two products of a feed-forward layer. */
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  /** Heads of keys and values; a divisor of `heads`. */
  readonly kvHeads: number;
  readonly headSize: number;
  /** Tokens that there are. */
  readonly vocabulary: number;
  /** Positions that the model was trained for. */
  readonly length: number;
  /** Tokens that a token sees, those just before it and itself. Undefined: all up to itself. */
  readonly window?: number;
  /** Of the RMS normalizations. */
  readonly epsilon: number;
  /**
   * Radians per position by which pair i of a head turns, the elements 2i and 2i + 1; elements beyond these pairs do
   * not turn.
   */
  readonly frequencies: readonly number[];
}

/** base^(-2i / rotated) for the pairs of `rotated` elements (RoPE, arXiv 2104.09864). */
export function ropeFrequencies(rotated: number, base: number): number[] {
  return Array.from({ length: rotated / 2 }, (_, i) => base ** ((-2 * i) / rotated));
}

const counts = [
  ...(["size", "hidden", "layers", "heads", "kvHeads", "headSize"] as const),
  ...(["vocabulary", "length"] as const),
];

/** Returns what is wrong with sizes from a file; undefined if nothing is. */
export function faultOf(shape: Omit<Shape, "frequencies">): string | undefined {
  const fault = faultOfCounts(shape, counts);
  if (fault !== undefined) return fault;
  const { heads, kvHeads, headSize, epsilon, window = 1 } = shape;
  if (!Number.isFinite(epsilon) || epsilon < 0) return `epsilon is ${epsilon}`;
  if (!Number.isSafeInteger(window) || window < 1) return `window is ${window}`;
  if (heads % kvHeads !== 0) return `${heads} heads do not divide into ${kvHeads} heads of keys`;
  return headSize % 2 === 0 ? undefined : `a head has ${headSize} elements, which do not form pairs`;
}
