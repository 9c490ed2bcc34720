import { type FunctionBuilder, i32, type Local, type Value } from "../../wasm/index.js";

/** Parameters of the kernels that sum products of windows and the output's gradient. */
export const sumsTypes = {
  /** f32: [image][channel][phase][row][column]; see `planes.ts`. */
  planes: "i32",
  /** The output's gradient, in f32. */
  gradient: "i32",
  sums: "i32",
  kernelHeight: "i32",
  kernelWidth: "i32",
  strideY: "i32",
  strideX: "i32",
  dilationY: "i32",
  dilationX: "i32",
  outHeight: "i32",
  outWidth: "i32",
  groups: "i32",
  groupOutputs: "i32",
  groupInputs: "i32",
  inChannels: "i32",
  /** Places of the filter of one output channel, and how many sums there are room for: whole tiles. */
  taps: "i32",
  paddedTaps: "i32",
  /** Bytes from row to row, phase to phase and channel to channel of the planes. */
  pitchBytes: "i32",
  phaseBytes: "i32",
  planeBytes: "i32",
  /** A chunk's share of the results: panels of output channels (or output channels) of one group, and taps. */
  panels: "i32",
  panelBlock: "i32",
  panelBlocks: "i32",
  tapBlock: "i32",
  tapBlocks: "i32",
  /** Blocks of rows of the output, in all images; a part of the sum has `unitsPerPart` of them. */
  rowBlock: "i32",
  rowBlocks: "i32",
  units: "i32",
  unitsPerPart: "i32",
} as const;

export type SumsTypes = typeof sumsTypes;
export type SumsParameters = { readonly [Name in keyof SumsTypes]: Local<"i32"> };

/** The most taps of a chunk: entries of its table of distances. */
export const mostTaps = 576;

/** The work of one chunk. */
export interface SumsChunk {
  readonly tap: Local<"i32">;
  /** Whole tiles; those past the end repeat the last tap. */
  readonly taps: Local<"i32">;
  readonly panel: Local<"i32">;
  readonly panelEnd: Local<"i32">;
  readonly group: Local<"i32">;
  readonly part: Local<"i32">;
}

export function chunkOf(f: FunctionBuilder, parameters: SumsParameters, chunk: Local<"i32">): SumsChunk {
  const rest = f.let(chunk);
  const next = (extent: Local<"i32">): Local<"i32"> => {
    const index = f.let(i32.remU(rest, extent));
    f.set(rest, i32.divU(rest, extent));
    return index;
  };
  const tap = f.let(i32.mul(next(parameters.tapBlocks), parameters.tapBlock));
  const panel = f.let(i32.mul(next(parameters.panelBlocks), parameters.panelBlock));
  const group = next(parameters.groups);
  return {
    ...{ tap, panel, group, part: rest },
    taps: f.let(i32.minU(i32.sub(parameters.paddedTaps, tap), parameters.tapBlock)),
    panelEnd: f.let(i32.minU(parameters.panels, i32.add(panel, parameters.panelBlock))),
  };
}

/** Writes how far each tap of the chunk lies from the first place of the group's first channel, in bytes. */
export function emitDistances(
  f: FunctionBuilder,
  parameters: SumsParameters,
  { tap, taps }: SumsChunk,
  distances: Local<"i32">,
): void {
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = parameters;
  const { pitchBytes, phaseBytes, planeBytes } = parameters;
  const to = f.let(distances);
  const last = f.let(i32.sub(parameters.taps, 1));
  f.forRange(0, taps, (number) => {
    const place = f.let(i32.minU(i32.add(tap, number), last));
    const row = f.let(i32.divU(place, kernelWidth));
    const below = f.let(i32.mul(i32.remU(row, kernelHeight), dilationY));
    const beside = f.let(i32.mul(i32.remU(place, kernelWidth), dilationX));
    const phase = i32.add(i32.mul(i32.remU(below, strideY), strideX), i32.remU(beside, strideX));
    const inPhase = i32.add(
      i32.mul(i32.divU(below, strideY), pitchBytes),
      i32.shl(i32.divU(beside, strideX), 2),
    );
    const plane = i32.mul(i32.divU(row, kernelHeight), planeBytes);
    f.store(to, i32.add(i32.add(plane, i32.mul(phase, phaseBytes)), inPhase));
    f.add(to, 4);
  });
}

/** One block of rows of the output of one image. */
export interface Unit {
  readonly image: Local<"i32">;
  readonly y: Local<"i32">;
  readonly rows: Local<"i32">;
  /** Address of the planes of the group's first channel, at row y. */
  readonly planes: Local<"i32">;
  /** Whether it is the first of its part (0: yes). */
  readonly later: Value<"i32">;
}

export function forEachUnit(
  f: FunctionBuilder,
  parameters: SumsParameters,
  { group, part }: SumsChunk,
  body: (unit: Unit) => void,
): void {
  const { rowBlock, rowBlocks, units, unitsPerPart, planeBytes, groupInputs, inChannels } = parameters;
  const begin = f.let(i32.mul(part, unitsPerPart));
  const end = f.let(i32.minU(units, i32.add(begin, unitsPerPart)));
  const unit = f.let(begin);
  f.forLocal(unit, end, () => {
    const image = f.let(i32.divU(unit, rowBlocks));
    const y = f.let(i32.mul(i32.remU(unit, rowBlocks), rowBlock));
    const channel = i32.add(i32.mul(image, inChannels), i32.mul(group, groupInputs));
    const first = i32.add(parameters.planes, i32.mul(channel, planeBytes));
    body({
      ...{ image, y },
      rows: f.let(i32.minU(i32.sub(parameters.outHeight, y), rowBlock)),
      planes: f.let(i32.add(first, i32.mul(y, parameters.pitchBytes))),
      later: i32.ne(unit, begin),
    });
  });
}
