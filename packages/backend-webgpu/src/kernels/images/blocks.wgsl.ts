import type { FloatType } from "@backplane/core";
import { floatLayouts, lines, WORKGROUP_SIZE, wgsl } from "../../program/index.js";

/** log2 of the invocations of a workgroup. */
const GROUP_SHIFT = Math.log2(WORKGROUP_SIZE);

/**
 * How a workgroup lies in planes of rows of strips: 2^shift invocations beside one another, and as many rows of one plane as
 * that leaves. So where an invocation is takes divisions of the workgroup's number only, which is the same for all of them.
 */
export const spotFunction: string = wgsl`
struct Spot { plane: u32, row: u32, strip: u32 }

fn spot_of(group: u32, lane: u32, shift: u32, rows: u32, strips: u32) -> Spot {
  let high = ${WORKGROUP_SIZE}u >> shift;
  let column_blocks = (strips + (1u << shift) - 1u) >> shift;
  let row_blocks = (rows + high - 1u) >> (${GROUP_SHIFT}u - shift);
  let block = group / column_blocks;
  let plane = block / row_blocks;
  return Spot(
    plane,
    (block - plane * row_blocks) * high + (lane >> shift),
    ((group - block * column_blocks) << shift) + (lane & ((1u << shift) - 1u)));
}
`;

/** Elements of a strip, all in one row, and channels that an invocation does together. */
export const STRIP = 4;

/** Elements of a strip of f16 without other channels: 16 bytes. */
export const WIDE_STRIP = 8;

/** Invocations for a row of an image: a strip of `width` elements of the only channel, or of four. */
export function stripsOf(columns: number, inner: number, width: number = STRIP): number {
  return (columns / width) * Math.ceil(inner / STRIP);
}

/**
 * Stores `value_0` and so on, the strip at `spot`: four numbers, eight of f16, or four channels from `channel` on of
 * `strip`.
 */
export function storeStrip(
  dtype: FloatType,
  hasChannels: boolean,
  width: typeof STRIP | typeof WIDE_STRIP = STRIP,
): string {
  const { packed } = floatLayouts[dtype];
  if (hasChannels)
    return wgsl`
  let place_of_strip = (spot.plane * parameters.rows + spot.row) * parameters.strips + strip * parameters.inner;
  let at = parameters.output_offset + ${STRIP}u * place_of_strip + channel;
${lines(STRIP, (j) => `  output[at + ${j}u * parameters.inner] = ${packed(`value_${j}`)};`)}`;
  const quads = Array.from({ length: width / 4 }, (_, k) => `values_${k}`);
  const stored = quads.map(packed);
  return wgsl`
  let at = parameters.output_offset + (spot.plane * parameters.rows + spot.row) * parameters.strips + spot.strip;
${quads
  .map((name, k) => {
    const own = Array.from({ length: 4 }, (_, j) => `value_${4 * k + j}`);
    return `  let ${name} = vec4f(${own.join(", ")});`;
  })
  .join("\n")}
  output[at] = ${width === WIDE_STRIP ? `vec4u(${stored.join(", ")})` : stored.join()};`;
}

export interface Blocks {
  readonly shift: number;
  readonly workgroups: number;
}

/** Fewer invocations beside one another would each begin a line of memory anew. */
const LEAST_SHIFT = 3;

/** Chooses the most invocations side by side of which the fewest have nothing to do. */
export function blocksFor(planes: number, rows: number, strips: number): Blocks {
  let best = blocksOf(GROUP_SHIFT, planes, rows, strips);
  for (let shift = GROUP_SHIFT - 1; shift >= LEAST_SHIFT; shift--) {
    const next = blocksOf(shift, planes, rows, strips);
    if (next.workgroups < best.workgroups) best = next;
  }
  return best;
}

function blocksOf(shift: number, planes: number, rows: number, strips: number): Blocks {
  const columnBlocks = Math.ceil(strips / 2 ** shift);
  const rowBlocks = Math.ceil(rows / 2 ** (GROUP_SHIFT - shift));
  return { shift, workgroups: planes * rowBlocks * columnBlocks };
}
