import { type Conv2dFilterGradientProblem, type Region, stridedMove } from "@backplane/core";
import { copy } from "../copy/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { planFill } from "../memory/index.js";

type Problem = Conv2dFilterGradientProblem<CpuMemory>;

/**
 * The input with its padding, as f32: [image][channel][phase][row][column]. There is a phase for each remainder of row and
 * column by the stride, so that the elements that a tap meets at neighbouring pixels of the output are neighbours.
 */
export interface Planes {
  readonly address: number;
  readonly launches: readonly Launch[];
  /** Elements from row to row, phase to phase and channel to channel. */
  readonly pitch: number;
  readonly phase: number;
  readonly plane: number;
}

/** Elements of a plane beyond what the input has, at most: padding may be huge. */
const mostPadding = 1 << 14;

/** Rows (or columns) of a phase that taps meet, and how many of the phases. */
function along(outputs: number, kernel: number, stride: number, dilation: number) {
  const reach = (kernel - 1) * dilation;
  return { extent: outputs + Math.floor(reach / stride), phases: Math.min(stride, reach + 1) };
}

/** Undefined if planes would be mostly padding. The input is used in place if it has the form already. */
export function planPlanes(problem: Problem, context: PlanContext): Planes | undefined {
  const { dtype, layout, batch, inChannels, height, width, top, left, input } = problem;
  const { strideY, strideX } = problem;
  const y = along(problem.outHeight, problem.kernelHeight, strideY, problem.dilationY);
  const x = along(problem.outWidth, problem.kernelWidth, strideX, problem.dilationX);
  const isPlain = layout === "NCHW" && dtype === "f32" && strideY * strideX === 1 && top + left === 0;
  if (isPlain && y.extent <= height && x.extent <= width) {
    const plane = height * width;
    return { address: address(input), launches: [], pitch: width, phase: plane, plane };
  }
  const [pitch, phase] = [x.extent, y.extent * x.extent];
  const plane = strideX * y.phases * phase;
  if (plane > 4 * height * width + mostPadding) return undefined;
  const byteLength = 4 * batch * inChannels * plane;
  const planes: Region<CpuMemory> = {
    ...{ memory: { byteOffset: context.workspace(byteLength), byteLength }, byteOffset: 0, byteLength },
  };
  const launches: Launch[] = [planFill(planes, 0)];
  const pixel = layout === "NCHW" ? 1 : inChannels;
  const channel = layout === "NCHW" ? height * width : 1;
  for (let phaseY = 0; phaseY < y.phases; phaseY++)
    for (let phaseX = 0; phaseX < x.phases; phaseX++) {
      // Row e of the phase is the input row e * stride + phase - padding.
      const rows = inside(y.extent, height, strideY, phaseY - top);
      const columns = inside(x.extent, width, strideX, phaseX - left);
      if (rows.count <= 0 || columns.count <= 0) continue;
      const row = rows.first * strideY + phaseY - top;
      const column = columns.first * strideX + phaseX - left;
      const move = stridedMove(
        dtype,
        [
          { extent: batch, input: inChannels * height * width, output: inChannels * plane },
          { extent: inChannels, input: channel, output: plane },
          { extent: rows.count, input: strideY * width * pixel, output: pitch },
          { extent: columns.count, input: strideX * pixel, output: 1 },
        ],
        { region: input, first: (row * width + column) * pixel },
        { region: planes, first: (phaseY * strideX + phaseX) * phase + rows.first * pitch + columns.first },
        "f32",
      );
      launches.push(...copy.plan(move, context));
    }
  return { address: planes.memory.byteOffset, launches, pitch, phase, plane };
}

/** The elements e of a phase of `extent` for which e * stride + shift lies in [0, size). */
function inside(extent: number, size: number, stride: number, shift: number) {
  const first = Math.max(0, Math.ceil(-shift / stride));
  const end = Math.min(extent, Math.floor((size - 1 - shift) / stride) + 1);
  return { first, count: end - first };
}
