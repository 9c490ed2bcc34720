import type { FloatType } from "../../dtype.js";
import type { Conv2dGeometry } from "./geometry.js";

/**
 * How a backend may compute convolutions with 3 x 3 filters: "never" by transforms, or by those for tiles of
 * 2 x 2 or 4 x 4 outputs. See `Numerics.transformedConvolutions`.
 */
export type TransformedConvolutions = "never" | ConvolutionTile;

/** Outputs of one tile. */
export type ConvolutionTile = "2x2" | "4x4";

/** The weaker promise comes later. */
export const transformedConvolutionNames: readonly TransformedConvolutions[] = ["never", "2x2", "4x4"];

type Matrix = readonly (readonly number[])[];

/**
 * The transforms of a tile (Winograd 1980; Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks"). For
 * a 3 x 3 filter g and the (outputs + 2) x (outputs + 2) inputs d under a tile,
 *
 *   outputs = A^T ((G g G^T) * (B^T d B)) A      (* by elements)
 *
 * is their correlation. Sums over channels are taken before A.
 */
export interface ConvolutionTransform {
  /** Rows, and columns, of outputs in a tile. */
  readonly outputs: number;
  /** B^T: outputs + 2 rows and columns. */
  readonly input: Matrix;
  /** G: outputs + 2 rows, 3 columns. */
  readonly filter: Matrix;
  /** A^T: `outputs` rows, outputs + 2 columns. */
  readonly output: Matrix;
}

/**
 * By Toom and Cook, from the points 0, 1, -1 for tiles of 2 x 2, and 0, 3/4, -3/4, 3/2, -3/2 for 4 x 4, both with infinity. All
 * elements but those of the second G are exact in f32. The points in use elsewhere, 0, 1, -1, 2, -2, have about
 * twice the error (Barabasz, Anderson, Soodhalter and Gregg 2020, "Error Analysis and Improving the Accuracy of
 * Winograd Convolution for Deep Neural Networks", on how points decide it).
 */
export const convolutionTransforms: Readonly<Record<ConvolutionTile, ConvolutionTransform>> = {
  "2x2": {
    outputs: 2,
    input: [
      [1, 0, -1, 0],
      [0, 1, 1, 0],
      [0, -1, 1, 0],
      [0, -1, 0, 1],
    ],
    filter: [
      [1, 0, 0],
      [1 / 2, 1 / 2, 1 / 2],
      [1 / 2, -1 / 2, 1 / 2],
      [0, 0, 1],
    ],
    output: [
      [1, 1, 1, 0],
      [0, 1, -1, 1],
    ],
  },
  "4x4": {
    outputs: 4,
    input: [
      [81 / 64, 0, -45 / 16, 0, 1, 0],
      [0, -27 / 16, -9 / 4, 3 / 4, 1, 0],
      [0, 27 / 16, -9 / 4, -3 / 4, 1, 0],
      [0, -27 / 32, -9 / 16, 3 / 2, 1, 0],
      [0, 27 / 32, -9 / 16, -3 / 2, 1, 0],
      [0, 81 / 64, 0, -45 / 16, 0, 1],
    ],
    filter: [
      [64 / 81, 0, 0],
      [-128 / 243, -32 / 81, -8 / 27],
      [-128 / 243, 32 / 81, -8 / 27],
      [32 / 243, 16 / 81, 8 / 27],
      [32 / 243, -16 / 81, 8 / 27],
      [0, 0, 1],
    ],
    output: [
      [1, 1, 1, 1, 1, 0],
      [0, 3 / 4, -3 / 4, 3 / 2, -3 / 2, 0],
      [0, 9 / 16, 9 / 16, 9 / 4, 9 / 4, 0],
      [0, 27 / 64, -27 / 64, 27 / 8, -27 / 8, 1],
    ],
  },
};

/** Whether transforms apply: f32, a 3 x 3 filter, one group, and no stride or dilation. */
export function isTransformable(
  dtype: FloatType,
  { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX, groups }: Conv2dGeometry,
): boolean {
  const isPlain = strideY === 1 && strideX === 1 && dilationY === 1 && dilationX === 1 && groups === 1;
  return dtype === "f32" && kernelHeight === 3 && kernelWidth === 3 && isPlain;
}
