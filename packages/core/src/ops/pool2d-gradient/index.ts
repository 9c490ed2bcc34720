import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { elements } from "../checks.js";
import { defineOperation, type Operation } from "../operation.js";
import { type Pool2dKind, pool2dKinds } from "../pool2d/index.js";
import { checkPlaces, type PoolWindows, windowsOf, windowsTable } from "../pool2d/windows.js";
import type { ArgumentsOf } from "../table.js";

const kindTable = {
  kind: {
    role: "kind",
    kinds: {
      max: "all of a window's gradient for its largest element, which `indices` names",
      mean: "an equal share of a window's gradient for each of its elements",
    },
  },
} as const;

const operandTable = {
  /** For each result of `pool2d`. */
  outputGradient: { role: "reads", shape: "outputShape" },
  /** The `indices` that `pool2d` wrote. For `max` only, which needs them. */
  indices: { role: "reads", shape: "outputShape; i32", otherwise: "none, for `mean`" },
  /** May overlap neither the outputGradient nor the indices. */
  inputGradient: { role: "writes", shape: "inputShape" },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

const table: typeof kindTable & typeof windowsTable & typeof operandTable = {
  ...kindTable,
  ...windowsTable,
  ...operandTable,
};

/**
 * The gradient of `pool2d` by its input: for each element of the input, the sum over the windows w that it is in, of the
 * same image and channel, with p = y * width + x its place,
 *
 * - `max`: of outputGradient[w] if indices[w] = p. An index that is no element of its own window is that of none: its
 *   gradient has no effect, whatever it is.
 * - `mean`: of outputGradient[w] / n, where n is what `pool2d` divides by, with the padding if `countPadding` is true.
 *
 * An element in no window gets 0. Sums are computed in f32, and rounded to f16 once; the same call has the same bits every
 * time. All operands are contiguous. The other arguments are those of `pool2d`.
 */
export interface Pool2dGradientArguments extends ArgumentsOf<typeof table> {}

export interface Pool2dGradientProblem<Memory> extends PoolWindows {
  readonly dtype: FloatType;
  readonly kind: Pool2dKind;
  readonly outputGradient: Region<Memory>;
  /** i32. Given if the kind is `max`. Any numbers. */
  readonly indices: Region<Memory> | undefined;
  readonly inputGradient: Region<Memory>;
}

export const pool2dGradient: Operation<
  Pool2dGradientArguments,
  Pool2dGradientProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "pool2dGradient",
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
    const { inputs, outputs } = windows;
    const outputGradient = read.region(binder, "outputGradient", args.outputGradient, outputs, dtype);
    const indices = read.optionalRegion(binder, "indices", args.indices, outputs, "i32");
    const inputGradient = read.region(binder, "inputGradient", args.inputGradient, inputs, dtype);
    const output = { argument: "inputGradient", region: inputGradient };
    read.disjoint(output, { argument: "outputGradient", region: outputGradient });
    if (kind === "max") {
      if (indices === undefined)
        return read.fail("indices", "is undefined; allowed: the places of the maxima, for the kind max");
      checkPlaces(windows, read);
      read.disjoint(output, { argument: "indices", region: indices });
    } else if (indices !== undefined) read.fail("indices", `is given; allowed: none for the kind ${kind}`);
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
      outputGradient,
      indices,
      inputGradient,
    };
  },

  /** A comparison or an addition for each place of a window. */
  flops: ({ dtype, outputGradient, kernelHeight, kernelWidth }) =>
    elements(outputGradient, dtype) * kernelHeight * kernelWidth,
});
