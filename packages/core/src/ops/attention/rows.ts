import { type DType, dtypeBytes } from "../../dtype.js";
import type { Region } from "../../region.js";
import type { Checks } from "../checks.js";
import { type CopyProblem, moveProblem } from "../copy/index.js";

/** Rows of elements that follow one another, of each head of each batch. */
export interface Rows {
  readonly extents: readonly [batch: number, heads: number, rows: number];
  /** Elements of a row. */
  readonly size: number;
  /** Elements from each batch, head and row to the next. Those of extent 1 are as in contiguous rows. */
  readonly strides: readonly [batch: number, head: number, row: number];
}

/** Checks strides. Default: contiguous. */
export function rowsOf(
  checks: Checks,
  argument: string,
  given: readonly number[] | undefined,
  extents: Rows["extents"],
  size: number,
): Rows {
  const [, heads, rows] = extents;
  const plain = [heads * rows * size, rows * size, size] as const;
  if (given === undefined) return { extents, size, strides: plain };
  const strideOf = (axis: 0 | 1 | 2) => {
    const stride = given[axis]!;
    if (stride < 0) checks.fail(`${argument}[${axis}]`, `is ${stride}; allowed: whole numbers of at least 0`);
    return extents[axis] > 1 ? stride : plain[axis];
  };
  return { extents, size, strides: [strideOf(0), strideOf(1), strideOf(2)] };
}

/** Fails if two rows of an output may overlap. The message shows the strides that were `given`. */
export function checkApart(
  checks: Checks,
  argument: string,
  { extents, size, strides }: Rows,
  given: readonly number[] = strides,
): void {
  if (extents.includes(0)) return;
  const axes = [0, 1, 2].filter((axis) => extents[axis]! > 1).sort((a, b) => strides[a]! - strides[b]!);
  let reach = size;
  for (const axis of axes) {
    if (strides[axis]! < reach)
      checks.fail(
        argument,
        `is [${given.join(", ")}], which may put two rows into one place: a stride of ${strides[axis]} where others ` +
          `reach ${reach} elements far; allowed: strides at least as long as the smaller ones reach together`,
      );
    reach += (extents[axis]! - 1) * strides[axis]!;
  }
}

/** Elements from the first to the last of all rows. */
export function reachOf({ extents, size, strides }: Rows): number {
  if (size === 0 || extents.includes(0)) return 0;
  return extents.reduce((reach, extent, i) => reach + (extent - 1) * strides[i]!, size);
}

/**
 * If rows follow one another and heads are the same number of rows apart, also across batches, that number. It may be larger
 * than there are rows.
 */
export function pitchOf({ extents, size, strides }: Rows): number | undefined {
  const [batch, heads, rows] = extents;
  const pitch = heads > 1 ? strides[1] / size : batch > 1 ? strides[0] / size : rows;
  const fits =
    Number.isInteger(pitch) &&
    pitch >= rows &&
    (rows === 1 || strides[2] === size) &&
    (batch === 1 || strides[0] === heads * pitch * size);
  return fits ? pitch : undefined;
}

/** The copy of rows to contiguous ones, or back. */
export function moveRows<Memory>(
  dtype: DType,
  { extents, size, strides }: Rows,
  direction: "gather" | "scatter",
  input: Region<Memory>,
  output: Region<Memory>,
): CopyProblem<Memory> {
  const [, heads, rows] = extents;
  const apart = [...strides, 1];
  const plain = [heads * rows * size, rows * size, size, 1];
  const [from, to] = direction === "gather" ? [apart, plain] : [plain, apart];
  return moveProblem(dtype, [...extents, size], from, to, input, output);
}

/** Bytes of rows that follow one another. */
export function bytesOf(dtype: DType, { extents, size }: Rows): number {
  return extents.reduce((product, extent) => product * extent, size) * dtypeBytes[dtype];
}
