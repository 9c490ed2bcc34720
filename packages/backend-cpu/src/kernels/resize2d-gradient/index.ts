import { floatTypes, type Resize2dGradientProblem, type Resize2dKind, resize2dKinds } from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { resizingParameters } from "../images/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { type PixelsTypes, pixelsKernel } from "./pixels.wasm.js";
import { type RowsTypes, rowsKernel, rowsLimits, type Step } from "./rows.wasm.js";

type Problem = Resize2dGradientProblem<CpuMemory>;

const kernels = (kind: Resize2dKind) =>
  byFloatType((dtype) => ({
    rows: { pairs: rowsKernel(kind, dtype, "pairs"), any: rowsKernel(kind, dtype, "any") } satisfies Record<
      Step,
      Kernel<RowsTypes>
    >,
    pixels: pixelsKernel(kind, dtype),
  }));

const kernelsOf = { nearest: kernels("nearest"), bilinear: kernels("bilinear") };

/** Elements of the results of one chunk, roughly. */
const chunkElements = 1 << 15;

/** Roughly, with one worker, for each result. */
const nanosecondsPerElement = 0.5;

/** How rows are divided up: a function of the shape alone. */
export interface RowsPlan {
  readonly step: Step;
  readonly taps: number;
  readonly start: number;
  readonly panelWidth: number;
  readonly panels: number;
  readonly rowsPerChunk: number;
}

/** Undefined if one column is part of too many results. */
export function planRows({
  kind,
  x,
  width,
  outWidth,
}: Pick<Problem, "kind" | "x" | "width" | "outWidth">): RowsPlan | undefined {
  const { factor, shift, divisor } = x;
  const step: Step = width > 1 && divisor === 2 * factor ? "pairs" : "any";
  // Of a stretch of results: those whose places are less than one element away, or in an element.
  const stretch = Math.ceil(((kind === "nearest" ? 1 : 2) * divisor) / factor);
  const taps = width === 1 ? outWidth : stretch;
  // Columns next to one another share results, and the ends of a panel may have some more.
  const fitting = Math.floor(((rowsLimits.results - taps - 2) * factor) / divisor);
  const most = Math.min(rowsLimits.columns, Math.floor(rowsLimits.factors / taps), fitting) & -4;
  if (taps > rowsLimits.taps || (width > 1 && most < 4)) return undefined;
  const panels = width === 1 ? 1 : Math.ceil(width / most);
  const panelWidth = Math.ceil(width / panels / 4) * 4;
  const before = kind === "nearest" ? Math.floor((-shift - 1) / factor) : Math.floor(-shift / factor) - 2;
  return {
    ...{ step, taps, start: before + 1, panelWidth },
    panels: Math.ceil(width / panelWidth),
    rowsPerChunk: Math.max(
      1,
      Math.floor(chunkElements / Math.max(panelWidth, (panelWidth * divisor) / factor)),
    ),
  };
}

export const resize2dGradient: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: resize2dKinds.flatMap((kind) =>
    Object.values(kernelsOf[kind]).flatMap(
      ({ rows, pixels }): readonly (Kernel<RowsTypes> | Kernel<PixelsTypes>)[] => [
        ...Object.values(rows),
        pixels,
      ],
    ),
  ),

  plan(problem) {
    const { dtype, kind, planes, height, width, inner, outHeight, outWidth } = problem;
    const shared = {
      outputGradient: address(problem.outputGradient),
      inputGradient: address(problem.inputGradient),
      ...resizingParameters(problem),
    };
    const rows = planes * height;
    const results = planes * outHeight * outWidth * inner;
    const nanoseconds = nanosecondsPerElement * (results + rows * width * inner);
    const kernels = kernelsOf[kind][dtype];
    const plan = inner === 1 ? planRows(problem) : undefined;
    if (plan !== undefined) {
      const { step, taps, start, panels, panelWidth, rowsPerChunk } = plan;
      const parameters = { ...shared, rows, taps, start, panels, panelWidth, rowsPerChunk };
      return [kernels.rows[step].launch(parameters, Math.ceil(rows / rowsPerChunk) * panels, nanoseconds)];
    }
    const pixels = rows * width;
    const perPixel = Math.max(inner, results / pixels);
    const pixelsPerChunk = Math.max(1, Math.floor(chunkElements / perPixel));
    const parameters = { ...shared, pixels, inner, pixelsPerChunk };
    return [kernels.pixels.launch(parameters, Math.ceil(pixels / pixelsPerChunk), nanoseconds)];
  },
};
