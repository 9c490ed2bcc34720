import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { elements } from "../checks.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";
import { checkPlaces, type PoolWindows, windowsOf, windowsTable } from "./windows.js";

const kindTable = {
  kind: {
    role: "kind",
    kinds: {
      max: "the largest element of the window",
      mean: "the sum of the window's elements, divided by how many they are",
    },
  },
} as const;

const operandTable = {
  input: { role: "reads", shape: "inputShape" },
  /** May not overlap the input. */
  output: { role: "writes", shape: "outputShape" },
  /**
   * Where the maximum is: y * width + x of the input, of equal elements the first. Of at most 2^31 places. May overlap neither the
   * input nor the output. For `max` only.
   */
  indices: { role: "writes", shape: "outputShape; i32", otherwise: "none" },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

const table: typeof kindTable & typeof windowsTable & typeof operandTable = {
  ...kindTable,
  ...windowsTable,
  ...operandTable,
};

/**
 * The largest element, or the mean, of each window of an image, as in neural networks:
 *
 *   output[b, c, y, x] = max or mean over i < kernelHeight, j < kernelWidth of
 *     input[b, c, y * strideY + i * dilationY - top, x * strideX + j * dilationX - left]
 *
 * Only places inside of the input count; `countPadding` makes means divide by others too. A NaN in a window makes the
 * result NaN, and its place is the first one of a NaN. -0 and +0 are equal. All operands are contiguous.
 */
export interface Pool2dArguments extends ArgumentsOf<typeof table> {}

export type Pool2dKind = Pool2dArguments["kind"];

export const pool2dKinds: readonly Pool2dKind[] = Object.keys(table.kind.kinds) as Pool2dKind[];

export interface Pool2dProblem<Memory> extends PoolWindows {
  readonly dtype: FloatType;
  readonly kind: Pool2dKind;
  readonly input: Region<Memory>;
  readonly output: Region<Memory>;
  /** i32 */
  readonly indices: Region<Memory> | undefined;
}

export const pool2d: Operation<Pool2dArguments, Pool2dProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "pool2d",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, pool2dKinds);
    const windows = windowsOf(args, kind, read);
    const { outputs } = windows;
    const input = read.region(binder, "input", args.input, windows.inputs, dtype);
    const output = read.region(binder, "output", args.output, outputs, dtype);
    const indices = read.optionalRegion(binder, "indices", args.indices, outputs, "i32");
    read.disjoint({ argument: "output", region: output }, { argument: "input", region: input });
    if (indices !== undefined) {
      if (kind !== "max") read.fail("indices", `is given; allowed: none for the kind ${kind}`);
      checkPlaces(windows, read);
      for (const [argument, region] of [
        ["input", input],
        ["output", output],
      ] as const)
        read.disjoint({ argument: "indices", region: indices }, { argument, region });
    }
    if (outputs === 0) return undefined;
    return {
      dtype,
      kind,
      planes: windows.planes,
      height: windows.height,
      width: windows.width,
      inner: windows.inner,
      kernelHeight: windows.kernelHeight,
      kernelWidth: windows.kernelWidth,
      outHeight: windows.outHeight,
      outWidth: windows.outWidth,
      strideY: windows.strideY,
      strideX: windows.strideX,
      top: windows.top,
      left: windows.left,
      bottom: windows.bottom,
      right: windows.right,
      dilationY: windows.dilationY,
      dilationX: windows.dilationX,
      countPadding: windows.countPadding,
      input,
      output,
      indices,
    };
  },

  /** A comparison or an addition for each place of a window. */
  flops: (problem) => elements(problem.output, problem.dtype) * problem.kernelHeight * problem.kernelWidth,
});
