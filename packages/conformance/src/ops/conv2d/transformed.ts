import {
  type Conv2dGeometry,
  type ConvolutionTile,
  type ConvolutionTransform,
  convolutionTransforms,
  type FloatType,
  isTransformable,
  type Numerics,
} from "@backplane/core";
import { gamma } from "../../tolerance.js";
import type { Expected } from "../../workspace.js";
import type { Emit } from "../operation.js";
import { placeIn } from "./place.js";

/*
 * The error of convolutions by transforms, where `numerics.transformedConvolutions` allows them. Every step of
 *
 *   A^T (sum over channels of (G g G^T) * (B^T d B)) A
 *
 * is a sum of products, so an output's error is at most gamma_n times the same expression in absolute values
 * (Barabasz et al. 2020, theorem 2, in their form for each element), where n is the number of roundings on
 * the longest way from an input to the output: one for each term of a sum, and one for each element of G.
 * With |d| <= X_c and |g| <= W_c it is at most gamma_n F sum X_c W_c, where sqrt(F) is the largest of
 * sum_j |A^T_ij| (sum |G_j|) (sum |B^T_j|).
 */

/** To spare, as in the bounds of other products: gemm has three for alpha, beta and their sum. */
const SPARE_ROUNDINGS = 3;

interface TransformError {
  /** r: n less the number of channels. The bias has one. */
  readonly roundings: number;
  /** F */
  readonly factor: number;
  /** Transformed inputs, and filters, are at most this much larger. */
  readonly inputs: number;
  readonly filters: number;
}

export function transformError({ input, filter, output }: ConvolutionTransform): TransformError {
  type Matrix = ConvolutionTransform["input"];
  const sums = (matrix: Matrix) => matrix.map((row) => row.reduce((sum, x) => sum + Math.abs(x), 0));
  const terms = (matrix: Matrix) => Math.max(...matrix.map((row) => row.filter((x) => x !== 0).length));
  const [ofInput, ofFilter] = [sums(input), sums(filter)];
  const along = output.map((row) =>
    row.reduce((sum, x, j) => sum + Math.abs(x) * ofFilter[j]! * ofInput[j]!, 0),
  );
  return {
    roundings: 2 * (terms(input) + terms(filter) + 1 + terms(output)) + 1 + SPARE_ROUNDINGS,
    factor: Math.max(...along) ** 2,
    inputs: Math.max(...ofInput) ** 2,
    filters: Math.max(1, ...ofFilter) ** 2,
  };
}

/** The tile by whose transforms a backend may compute a convolution; undefined: none. */
export function tileOf(
  geometry: Conv2dGeometry,
  dtype: FloatType,
  { transformedConvolutions = "never" }: Pick<Numerics, "transformedConvolutions">,
): ConvolutionTile | undefined {
  return transformedConvolutions === "never" || !isTransformable(dtype, geometry)
    ? undefined
    : transformedConvolutions;
}

/** Numbers that transforms divide, and products, may be read as 0 below this; eps times it is the smallest normal number. */
const SMALLEST = 2 ** -103;

/** Transformed numbers, products and sums must stay in the range of f32. */
const LARGEST = 2 ** 127;

type Sides = Pick<
  Conv2dGeometry,
  | ("layout" | "batch" | "inChannels" | "height" | "width" | "outChannels" | "outHeight" | "outWidth")
  | ("top" | "left")
>;

/** What widens the bounds of one call. */
interface Tiles {
  readonly tile: ConvolutionTile;
  /** Channels that are summed. */
  readonly channels: number;
  /** F sum X_c W_c for each output; infinite where the output may be anything. */
  readonly magnitudes: Float64Array;
}

/** Returns what widens the bounds of a call on these numbers, or undefined. */
export type TilesOf = (
  geometry: Conv2dGeometry,
  dtype: FloatType,
  numerics: Numerics,
  images: Float64Array,
  filter: Float64Array,
) => Tiles | undefined;

export const convolutionTiles: TilesOf = (geometry, dtype, numerics, images, filter) => {
  const tile = tileOf(geometry, dtype, numerics);
  if (tile === undefined) return undefined;
  const { inChannels } = geometry;
  const sizes = largestWeights(filter);
  const weight = (output: number, input: number) => sizes[output * inChannels + input]!;
  return tilesOf(geometry, tile, images, weight);
};

/** A convolution of the output's gradient, with as much padding as lets each window meet it: `images` is that gradient. */
export const inputGradientTiles: TilesOf = (geometry, dtype, numerics, images, filter) => {
  const tile = tileOf(geometry, dtype, numerics);
  if (tile === undefined) return undefined;
  const { layout, batch, inChannels, height, width, outChannels, outHeight, outWidth, top, left } = geometry;
  const sizes = largestWeights(filter);
  const turned: Sides = {
    ...{ layout, batch, inChannels: outChannels, height: outHeight, width: outWidth },
    ...{ outChannels: inChannels, outHeight: height, outWidth: width, top: 2 - top, left: 2 - left },
  };
  const weight = (output: number, input: number) => sizes[input * inChannels + output]!;
  return tilesOf(turned, tile, images, weight);
};

function tilesOf(
  sides: Sides,
  tile: ConvolutionTile,
  images: Float64Array,
  weight: (output: number, input: number) => number,
): Tiles {
  const { layout, batch, inChannels, height, width, outChannels, outHeight, outWidth, top, left } = sides;
  const transform = convolutionTransforms[tile];
  const { factor, inputs, filters } = transformError(transform);
  const inPlace = placeIn(layout, inChannels, height * width);
  const outPlace = placeIn(layout, outChannels, outHeight * outWidth);
  const magnitudes = new Float64Array(batch * outChannels * outHeight * outWidth);
  // Along one axis: the inputs under the window of an output, and those on both sides that may share a tile with it.
  const reach = transform.outputs - 1;
  const largest = (extent: number, first: number, at: (i: number) => number): number => {
    let size = SMALLEST;
    for (let i = Math.max(0, first - reach); i <= Math.min(extent - 1, first + 2 + reach); i++)
      size = Math.max(size, at(i));
    return size;
  };
  const alongRows = new Float64Array(height * outWidth);
  for (let image = 0; image < batch; image++)
    for (let c = 0; c < inChannels; c++) {
      const sizeAt = (pixel: number) => sizeOf(images[inPlace(image, c, pixel)]!);
      for (let row = 0; row < height; row++)
        for (let x = 0; x < outWidth; x++)
          alongRows[row * outWidth + x] = largest(width, x - left, (i) => sizeAt(row * width + i));
      for (let y = 0; y < outHeight; y++)
        for (let x = 0; x < outWidth; x++) {
          const size = largest(height, y - top, (i) => alongRows[i * outWidth + x]!);
          for (let o = 0; o < outChannels; o++)
            magnitudes[outPlace(image, o, y * outWidth + x)]! +=
              isInRange(size * inputs) && isInRange(weight(o, c) * filters)
                ? factor * Math.max(size * weight(o, c), SMALLEST)
                : Number.POSITIVE_INFINITY;
        }
    }
  for (const [i, magnitude] of magnitudes.entries())
    if (!isInRange(magnitude)) magnitudes[i] = Number.POSITIVE_INFINITY;
  return { tile, channels: inChannels, magnitudes };
}

function isInRange(size: number): boolean {
  return size < LARGEST;
}

/** NaN and infinities alike spoil whatever they meet. */
function sizeOf(value: number): number {
  return Number.isFinite(value) ? Math.abs(value) : Number.POSITIVE_INFINITY;
}

/** The largest weight of each 3 x 3 filter. */
function largestWeights(filter: Float64Array): Float64Array {
  const sizes = new Float64Array(filter.length / 9).fill(SMALLEST);
  for (const [i, value] of filter.entries()) {
    const place = Math.floor(i / 9);
    sizes[place] = Math.max(sizes[place]!, sizeOf(value));
  }
  return sizes;
}

/**
 * Returns an `Emit` that adds as much to magnitudes as makes `productSum(n)` the sum of two bounds: that of plain sums, in
 * which the bias has its part, and that of transforms. Without tiles it returns `emit`.
 */
export function widened(emit: Emit, tiles: Tiles | undefined, n: number): Emit {
  if (tiles === undefined) return emit;
  const { tile, channels, magnitudes } = tiles;
  const share = gamma(channels + transformError(convolutionTransforms[tile]).roundings) / gamma(n);
  return (place, value, magnitude) => emit(place, value, magnitude + share * magnitudes[place]!);
}

/** The results that may not be anything, of those that a `widened` formula gave. */
export function constrained(expected: Expected): Expected {
  const { places, values, magnitudes } = expected;
  if (!magnitudes.includes(Number.POSITIVE_INFINITY)) return expected;
  const kept = (_: unknown, i: number): boolean => magnitudes[i] !== Number.POSITIVE_INFINITY;
  return { places: places.filter(kept), values: values.filter(kept), magnitudes: magnitudes.filter(kept) };
}
