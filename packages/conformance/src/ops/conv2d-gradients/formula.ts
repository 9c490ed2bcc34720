import type { FloatType, Numerics } from "@backplane/core";
import type { Place } from "../../elements.js";
import { productSum } from "../../tolerance.js";
import type { Conv2dShape } from "../conv2d/formula.js";
import { placeIn } from "../conv2d/place.js";
import { type TilesOf, widened } from "../conv2d/transformed.js";
import { type Emit, emitting, type FormulaMemory } from "../operation.js";

/**
 * The products of one filter element with elements of one row of the output: `count` of them, from these places of output and
 * input on, which lie so many elements apart.
 */
type RowOfProducts = (
  filter: number,
  output: number,
  outputStep: number,
  input: number,
  inputStep: number,
  count: number,
) => void;

/** Visits every product of a convolution once: where an element of the filter meets one of the input, and for which output. */
function visitProducts(shape: Conv2dShape, visit: RowOfProducts): void {
  const { layout, batch, inChannels, height, width, outChannels, outHeight, outWidth, groups } = shape;
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX, top, left } = shape;
  const outPlace = placeIn(layout, outChannels, outHeight * outWidth);
  const inPlace = placeIn(layout, inChannels, height * width);
  const [outStep, inStep] = layout === "NCHW" ? [1, strideX] : [outChannels, inChannels * strideX];
  const [inputs, outputs] = [inChannels / groups, outChannels / groups];
  for (let image = 0; image < batch; image++)
    for (let o = 0; o < outChannels; o++)
      for (let c = 0; c < inputs; c++)
        for (let i = 0; i < kernelHeight; i++)
          for (let j = 0; j < kernelWidth; j++) {
            const filter = ((o * inputs + c) * kernelHeight + i) * kernelWidth + j;
            const channel = Math.floor(o / outputs) * inputs + c;
            const shift = j * dilationX - left;
            const first = Math.max(0, Math.ceil(-shift / strideX));
            const end = Math.min(outWidth, Math.floor((width - 1 - shift) / strideX) + 1);
            if (end <= first) continue;
            for (let y = 0; y < outHeight; y++) {
              const row = y * strideY + i * dilationY - top;
              if (row < 0 || row >= height) continue;
              const output = outPlace(image, o, y * outWidth + first);
              const input = inPlace(image, channel, row * width + first * strideX + shift);
              visit(filter, output, outStep, input, inStep, end - first);
            }
          }
}

/**
 * The formula of one gradient: emits each element of the result, which is that of `before` at its place, if there is one, and the
 * sum of its products. The magnitude is that of all terms.
 */
export type GradientFormula = (
  shape: Conv2dShape,
  other: Float64Array,
  outputGradient: Float64Array,
  before: Float64Array | undefined,
  emit: Emit,
) => void;

/** `other` is the filter. */
export const inputGradient: GradientFormula = (shape, other, outputGradient, before, emit) => {
  const sums = new Sums(shape.batch * shape.inChannels * shape.height * shape.width, before);
  visitProducts(shape, (filter, output, outputStep, input, inputStep, count) => {
    const weight = other[filter]!;
    for (let x = 0; x < count; x++)
      sums.add(input + x * inputStep, weight * outputGradient[output + x * outputStep]!);
  });
  sums.emit(emit);
};

/** `other` is the input. */
export const filterGradient: GradientFormula = (shape, other, outputGradient, before, emit) => {
  const { outChannels, inChannels, groups, kernelHeight, kernelWidth } = shape;
  const sums = new Sums(outChannels * (inChannels / groups) * kernelHeight * kernelWidth, before);
  visitProducts(shape, (filter, output, outputStep, input, inputStep, count) => {
    for (let x = 0; x < count; x++)
      sums.add(filter, other[input + x * inputStep]! * outputGradient[output + x * outputStep]!);
  });
  sums.emit(emit);
};

/** Sums in double precision, with the sums of their terms' magnitudes. */
class Sums {
  readonly #values: Float64Array;
  readonly #magnitudes: Float64Array;

  constructor(count: number, before: Float64Array | undefined) {
    this.#values = before === undefined ? new Float64Array(count) : Float64Array.from(before);
    this.#magnitudes = this.#values.map(Math.abs);
  }

  add(place: number, term: number): void {
    this.#values[place]! += term;
    this.#magnitudes[place]! += Math.abs(term);
  }

  emit(emit: Emit): void {
    for (const [i, value] of this.#values.entries()) emit(i, value, this.#magnitudes[i]!);
  }
}

/** Products of an element of the gradient of the input, at most. */
export function inputGradientTerms(shape: Conv2dShape): number {
  return (shape.outChannels / shape.groups) * shape.kernelHeight * shape.kernelWidth;
}

/** Products of an element of the gradient of the filter, at most. */
export function filterGradientTerms({ batch, outHeight, outWidth }: Conv2dShape): number {
  return batch * outHeight * outWidth;
}

/** Its products, what is added to, and the order: see `productSum`. */
export function roundings(terms: number): number {
  return terms + 2;
}

/** What both gradients have in common as problems. */
interface GradientProblem extends Conv2dShape {
  readonly dtype: FloatType;
  readonly outputGradient: Place;
  readonly accumulate: boolean;
}

export interface GradientRules {
  readonly formula: GradientFormula;
  /** Products of one element, at most. */
  readonly terms: (shape: Conv2dShape) => number;
  /** For gradients that may be computed by transforms. */
  readonly tilesOf?: TilesOf;
}

export function evaluateGradient(
  problem: GradientProblem,
  { other, result }: { readonly other: Place; readonly result: Place },
  { formula, terms, tilesOf }: GradientRules,
  memory: FormulaMemory,
  numerics: Numerics | undefined,
): void {
  const { dtype, accumulate } = problem;
  const factors = memory.read(other, dtype);
  const outputGradient = memory.read(problem.outputGradient, dtype);
  const before = accumulate ? memory.read(result, dtype) : undefined;
  const n = roundings(terms(problem));
  const tolerance = numerics && productSum(n, dtype, numerics);
  const tiles = numerics && tilesOf?.(problem, dtype, numerics, outputGradient, factors);
  const emit = widened(emitting(memory.write(result, dtype), tolerance), tiles, n);
  formula(problem, factors, outputGradient, before, emit);
}
