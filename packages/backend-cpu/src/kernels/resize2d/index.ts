import {
  dtypeBytes,
  type FloatType,
  floatTypes,
  type Resize2dProblem,
  type ResizedAxis,
  resize2dTypes,
} from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { resizingParameters } from "../images/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { bilinearPixelsKernel } from "./blended-pixels.wasm.js";
import { nearestPixelsKernel } from "./pixels.wasm.js";
import {
  type BilinearReach,
  bilinearRowsKernel,
  nearestRowsKernel,
  panelColumns,
  type Reach,
  type RowsTypes,
} from "./rows.wasm.js";

type Problem = Resize2dProblem<CpuMemory>;
type ByReach = Readonly<Record<Reach, Kernel<RowsTypes>>>;

const bilinearRows = byFloatType(
  (dtype): Readonly<Record<BilinearReach, Kernel<RowsTypes>>> => ({
    near: bilinearRowsKernel(dtype, "near"),
    far: bilinearRowsKernel(dtype, "far"),
    doubled: bilinearRowsKernel(dtype, "doubled"),
  }),
);
const words: ByReach = { near: nearestRowsKernel(4, "near"), far: nearestRowsKernel(4, "far") };
/** A vector has more than four of these, and four are not worth it. */
const halves = nearestRowsKernel(2, "far");
const bytes = nearestRowsKernel(1, "far");
const nearestRows: Readonly<Record<1 | 2 | 4, ByReach>> = {
  1: { near: bytes, far: bytes },
  2: { near: halves, far: halves },
  4: words,
};

const bilinearPixels = byFloatType(bilinearPixelsKernel);
const nearestPixels = { 1: nearestPixelsKernel(1), 2: nearestPixelsKernel(2), 4: nearestPixelsKernel(4) };

/** The kernels for images without channels, of a kind and type: nearest ones move as many bytes. */
function rowsKernels({ kind, dtype, x }: Pick<Problem, "kind" | "dtype" | "x">): ByReach {
  if (kind === "nearest") return nearestRows[dtypeBytes[dtype] as 1 | 2 | 4];
  const { near, far, doubled } = bilinearRows[dtype as FloatType];
  return { near: isDoubled(x) ? doubled : near, far };
}

/** Whether there are twice as many places as elements, from 1/4 before the first one on. */
function isDoubled({ factor, shift, divisor }: ResizedAxis): boolean {
  return 2 * factor === divisor && 4 * shift === -divisor;
}

/** Elements of the output of one chunk, roughly. */
const chunkElements = 1 << 15;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.5;

/** How rows are divided up: a function of the shape alone. */
interface Panels {
  readonly panelWidth: number;
  readonly panels: number;
  readonly rowsPerChunk: number;
}

export interface Resize2dPlan extends Panels {
  readonly reach: Reach;
}

export function planRows({ x, outWidth }: Pick<Problem, "x" | "outWidth">): Resize2dPlan {
  const panels = Math.ceil(outWidth / panelColumns);
  const panelWidth = Math.ceil(outWidth / panels / 4) * 4;
  return {
    // The last of four places is less than three elements behind the first.
    reach: 3 * x.factor <= 2 * x.divisor ? "near" : "far",
    panelWidth,
    panels: Math.ceil(outWidth / panelWidth),
    rowsPerChunk: Math.max(1, Math.floor(chunkElements / panelWidth)),
  };
}

/** Chunks of many rows: the first and the last one often have no other to be made with. */
export function planBlendedPixels({ inner, outWidth }: Pick<Problem, "inner" | "outWidth">): Panels {
  const elements = 4 * chunkElements;
  const panelWidth = Math.min(outWidth, Math.max(2, Math.floor(elements / inner / 2)));
  return {
    panelWidth,
    panels: Math.ceil(outWidth / panelWidth),
    rowsPerChunk: Math.max(2, Math.floor(elements / inner / panelWidth)),
  };
}

function chunksOf(rows: number, { rowsPerChunk, panels }: Panels): number {
  return Math.ceil(rows / rowsPerChunk) * panels;
}

export const resize2d: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }, { dtype: resize2dTypes, kind: ["nearest"] }],
  kernels: [
    ...[...Object.values(bilinearRows), words].flatMap((byReach) => Object.values(byReach)),
    ...[halves, bytes],
    ...[...Object.values(bilinearPixels), ...Object.values(nearestPixels)],
  ],

  plan(problem) {
    const { planes, inner, outHeight, outWidth } = problem;
    const rows = planes * outHeight;
    const shared = {
      input: address(problem.input),
      output: address(problem.output),
      ...resizingParameters(problem),
    };
    const nanoseconds = nanosecondsPerElement * rows * outWidth * inner;
    if (inner === 1) {
      const { reach, ...panels } = planRows(problem);
      const parameters = { ...shared, rows, ...panels };
      return [rowsKernels(problem)[reach].launch(parameters, chunksOf(rows, panels), nanoseconds)];
    }
    if (problem.kind === "bilinear") {
      const panels = planBlendedPixels(problem);
      const kernel = bilinearPixels[problem.dtype as FloatType];
      const parameters = { ...shared, inner, rows, ...panels };
      return [kernel.launch(parameters, chunksOf(rows, panels), nanoseconds)];
    }
    const pixels = rows * outWidth;
    const pixelsPerChunk = Math.max(1, Math.floor(chunkElements / inner));
    const parameters = { ...shared, pixels, inner, pixelsPerChunk };
    const kernel = nearestPixels[dtypeBytes[problem.dtype] as 1 | 2 | 4];
    return [kernel.launch(parameters, Math.ceil(pixels / pixelsPerChunk), nanoseconds)];
  },
};
