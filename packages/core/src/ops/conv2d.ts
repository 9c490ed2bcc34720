import type { DType } from "../dtype.js";
import type { Operand } from "../handles.js";
import { checkNames } from "../names.js";
import type { Region } from "../region.js";
import { type Activation, activations, isActivation } from "./epilogue.js";
import { Checks, elements, type Operation } from "./operation.js";

/**
 * 2-D convolution, forward, as networks mean it (cross-correlation):
 *
 *   output[b, o, y, x] = bias[o] + sum over c, i, j of
 *     filter[o, c, i, j] * input[b, group(o) * C + c, y * strideY + i * dilationY - top,
 *                                                     x * strideX + j * dilationX - left]
 *
 * with C = inChannels / groups input channels per group, group(o) = floor(o / (outChannels / groups)),
 * and zeros outside the input; to each of these the activation is applied, if there is one. All operands
 * are contiguous.
 */
export interface Conv2dArguments {
  /** [batch, inChannels, height, width] */
  readonly inputShape: readonly [number, number, number, number];
  /**
   * [outChannels, inChannels / groups, kernelHeight, kernelWidth]; the kernel is at least 1 x 1, and
   * with dilation it fits into the padded input.
   */
  readonly filterShape: readonly [number, number, number, number];
  /**
   * [batch, outChannels, outHeight, outWidth]. Derived; checked if given.
   * outHeight = floor((height + top + bottom - dilationY * (kernelHeight - 1) - 1) / strideY) + 1
   */
  readonly outputShape?: readonly [number, number, number, number];
  readonly input: Operand;
  readonly filter: Operand;
  /** [outChannels]; none by default. */
  readonly bias?: Operand;
  /**
   * None by default. With one, a backend throws `UNSUPPORTED` unless it
   * `supports("conv2d", dtype, "epilogue")`.
   */
  readonly activation?: Activation;
  readonly output: Operand;
  /** [y, x], at least 1. Default [1, 1]. */
  readonly stride?: readonly [number, number];
  /**
   * Zeros around the input: [top, left, bottom, right]. Default none. With them it has less than 2^30 rows
   * and columns.
   */
  readonly padding?: readonly [number, number, number, number];
  /** [y, x], at least 1. Default [1, 1]. */
  readonly dilation?: readonly [number, number];
  /** Divides inChannels and outChannels. Default 1. */
  readonly groups?: number;
  readonly dtype?: DType;
}

/**
 * Every output extent is at least 1. inChannels, height and width may be 0 (the latter two within
 * padding): then the output is the bias, or zero, with the activation applied. The padded input has less than
 * 2^30 rows and columns, and a stride or dilation that leads past it is cut off there: so kernels may add
 * coordinates in 32 bits with a sign.
 */
export interface Conv2dProblem<Memory> {
  readonly dtype: DType;
  readonly batch: number;
  readonly inChannels: number;
  readonly height: number;
  readonly width: number;
  readonly outChannels: number;
  readonly kernelHeight: number;
  readonly kernelWidth: number;
  readonly outHeight: number;
  readonly outWidth: number;
  readonly strideY: number;
  readonly strideX: number;
  readonly top: number;
  readonly left: number;
  readonly bottom: number;
  readonly right: number;
  readonly dilationY: number;
  readonly dilationX: number;
  readonly groups: number;
  readonly input: Region<Memory>;
  readonly filter: Region<Memory>;
  readonly bias: Region<Memory> | undefined;
  readonly activation: Activation | undefined;
  readonly output: Region<Memory>;
}

const PADDED_EXTENTS = 2 ** 30;

const conv2dNames: readonly (keyof Conv2dArguments)[] = [
  ...([
    "inputShape",
    "filterShape",
    "outputShape",
    "input",
    "filter",
    "bias",
    "activation",
    "output",
  ] as const),
  ...(["stride", "padding", "dilation", "groups", "dtype"] as const),
];

export const conv2d: Operation<"conv2d"> = {
  name: "conv2d",
  names: conv2dNames,
  operands: ["input", "filter", "bias", "output"],
  asksForEpilogue: ({ activation }) => isActivation(activation),

  resolve(args, binder) {
    // Counted first, which costs next to nothing: see checkNames.
    let names = 0;
    if (args.inputShape !== undefined) names++;
    if (args.filterShape !== undefined) names++;
    if (args.input !== undefined) names++;
    if (args.filter !== undefined) names++;
    if (args.output !== undefined) names++;
    if (args.outputShape !== undefined) names++;
    if (args.bias !== undefined) names++;
    if (args.activation !== undefined) names++;
    if (args.stride !== undefined) names++;
    if (args.padding !== undefined) names++;
    if (args.dilation !== undefined) names++;
    if (args.groups !== undefined) names++;
    if (args.dtype !== undefined) names++;
    for (const _ in args) names--;
    if (names !== 0) checkNames("conv2d", args, conv2dNames);
    const checks = new Checks("conv2d");
    const dtype = checks.dtype(args.dtype);
    const inputShape = checks.counts("inputShape", args.inputShape, 4);
    const filterShape = checks.counts("filterShape", args.filterShape, 4);
    const [batch, inChannels, height, width] = inputShape as readonly [number, number, number, number];
    const [outChannels, groupChannels] = filterShape as readonly [number, number, number, number];
    const kernelHeight = checks.count("filterShape[2]", filterShape[2], 1);
    const kernelWidth = checks.count("filterShape[3]", filterShape[3], 1);
    const [strideY, strideX] = pair(checks.counts("stride", args.stride ?? [1, 1], 2, 1));
    const [dilationY, dilationX] = pair(checks.counts("dilation", args.dilation ?? [1, 1], 2, 1));
    const padding = checks.counts("padding", args.padding ?? [0, 0, 0, 0], 4);
    const [top, left, bottom, right] = padding as readonly [number, number, number, number];
    const groups = checks.count("groups", args.groups ?? 1, 1);
    const activation =
      args.activation === undefined ? undefined : checks.oneOf("activation", args.activation, activations);
    if (inChannels % groups !== 0 || outChannels % groups !== 0)
      checks.fail("groups", `is ${groups}; allowed: a divisor of ${inChannels} and ${outChannels} channels`);
    if (groupChannels !== inChannels / groups)
      checks.fail(
        "filterShape[1]",
        `is ${groupChannels}; allowed: ${inChannels / groups}, inChannels / groups`,
      );

    const along = (name: string, size: number, kernel: number, stride: number, dilation: number) => {
      if (size >= PADDED_EXTENTS)
        checks.fail("padding", `makes ${size} ${name} of the input; allowed: less than ${PADDED_EXTENTS}`);
      const reach = dilation * (kernel - 1) + 1;
      if (reach > size)
        checks.fail("filterShape", `reaches over ${reach} ${name}; allowed: at most the padded ${size}`);
      return Math.floor((size - reach) / stride) + 1;
    };
    const paddedHeight = height + top + bottom;
    const paddedWidth = width + left + right;
    const outHeight = along("rows", paddedHeight, kernelHeight, strideY, dilationY);
    const outWidth = along("columns", paddedWidth, kernelWidth, strideX, dilationX);
    const outputShape = [batch, outChannels, outHeight, outWidth];
    if (args.outputShape !== undefined) {
      const given = checks.counts("outputShape", args.outputShape, 4);
      if (given.some((extent, i) => extent !== outputShape[i]))
        checks.fail("outputShape", `is [${given.join(", ")}]; allowed: [${outputShape.join(", ")}]`);
    }

    const input = binder.region("input", args.input, checks.product("inputShape", inputShape), dtype);
    const filter = binder.region("filter", args.filter, checks.product("filterShape", filterShape), dtype);
    const bias = args.bias === undefined ? undefined : binder.region("bias", args.bias, outChannels, dtype);
    const output = binder.region("output", args.output, checks.product("outputShape", outputShape), dtype);
    for (const [argument, region] of Object.entries({ input, filter, bias }))
      if (region) checks.disjoint({ argument: "output", region: output }, { argument, region });
    if (output.byteLength === 0) return undefined;
    return {
      dtype,
      batch,
      inChannels,
      height,
      width,
      outChannels,
      kernelHeight,
      kernelWidth,
      outHeight,
      outWidth,
      strideY: Math.min(strideY, paddedHeight),
      strideX: Math.min(strideX, paddedWidth),
      top,
      left,
      bottom,
      right,
      dilationY: Math.min(dilationY, paddedHeight),
      dilationX: Math.min(dilationX, paddedWidth),
      groups,
      input,
      filter,
      bias,
      activation,
      output,
    };
  },

  flops(problem) {
    const { inChannels, groups, kernelHeight, kernelWidth, activation } = problem;
    const taps = (inChannels / groups) * kernelHeight * kernelWidth;
    return elements(problem.output, problem.dtype) * (2 * taps + (activation === undefined ? 0 : 1));
  },

  bytes(problem) {
    const { input, filter, bias, output } = problem;
    return input.byteLength + filter.byteLength + (bias?.byteLength ?? 0) + output.byteLength;
  },
};

function pair(values: readonly number[]): readonly [number, number] {
  return values as readonly [number, number];
}
