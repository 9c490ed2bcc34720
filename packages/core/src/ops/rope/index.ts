import { dtypeBytes, type FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { Reader } from "../reader.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** Which elements of a row are the pair i. Models were trained with one of them; the other gives other results. */
  kind: {
    role: "kind",
    kinds: {
      neighbours: "2i and 2i + 1",
      halves: "i and i + rotated / 2",
    },
  },
  batch: { role: "extent", default: 1 },
  heads: { role: "extent", default: 1 },
  /** Places in a sequence. */
  rows: { role: "extent" },
  /** Elements of a row, which is one head at one place. */
  size: { role: "extent" },
  /** Elements at the start of each row that rotate: an even number, at least 2. The others are copied. */
  rotated: { role: "extent", otherwise: "size" },
  input: { role: "reads", shape: "[batch, heads, rows, size], at inputStrides" },
  /** Elements from one batch entry, head and row to the next; at least 0. The elements of a row follow one another. */
  inputStrides: { role: "strides", otherwise: "contiguous" },
  /**
   * May be exactly `input`, with the same strides. Otherwise its bytes, from the first to the last, may not meet those
   * of any input.
   */
  output: { role: "writes", shape: "[batch, heads, rows, size], at outputStrides" },
  /** As for the input. No two elements may have one place. Elements between rows are left as they are. */
  outputStrides: { role: "strides", otherwise: "contiguous" },
  /** Positions that the tables have. */
  length: { role: "extent", least: 1 },
  /** The cosine of the angle by which pair i turns at each position. */
  cos: { role: "reads", shape: "[length, rotated / 2]; f32" },
  /** The sines. */
  sin: { role: "reads", shape: "[length, rotated / 2]; f32" },
  /** The position of each row. Where it is not in the tables, cosine and sine are 0. */
  positions: {
    role: "reads",
    shape: "[rows], or [batch, rows] at positionStride; i32",
    otherwise: "start + the place of the row",
  },
  /** Elements from the positions of one batch entry to those of the next. 0: all entries have the same. */
  positionStride: { role: "stride", default: 0 },
  /** The position of the first row, if there are no `positions`. */
  start: { role: "extent", default: 0 },
  /** Turns back, by the same angles: sines change their sign. The gradient of a rotation is this. */
  inverse: { role: "flag", default: false },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * Rotary position embedding: pair i of a row, (x, y), becomes (x cos - y sin, x sin + y cos) with the cosine and the
 * sine of pair i at the position of the row.
 *
 * f16 is computed in f32 and rounded once; the tables are f32 for both types. Source: J. Su et al., "RoFormer: Enhanced
 * transformer with rotary position embedding", 2021 (arXiv 2104.09864), section 3.2.2: `neighbours`, angle
 * position / 10000^(2i / rotated).
 */
export interface RopeArguments extends ArgumentsOf<typeof table> {}

export type RopeKind = RopeArguments["kind"];

export const ropeKinds: readonly RopeKind[] = Object.keys(table.kind.kinds) as RopeKind[];

/** Elements from one batch entry, head and row to the next. */
export type RowStrides = readonly [batch: number, head: number, row: number];

/**
 * All extents are at least 1, and `rotated` at least 2. Strides along axes of extent 1 are 0. The output is exactly the
 * input, with the same strides, or disjoint from it.
 */
export interface RopeProblem<Memory> {
  readonly dtype: FloatType;
  readonly kind: RopeKind;
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly size: number;
  readonly rotated: number;
  readonly inverse: boolean;
  /** From the first to the last element. */
  readonly input: Region<Memory>;
  readonly inputStrides: RowStrides;
  readonly output: Region<Memory>;
  readonly outputStrides: RowStrides;
  readonly length: number;
  readonly cos: Region<Memory>;
  readonly sin: Region<Memory>;
  readonly positions: Region<Memory> | undefined;
  readonly positionStride: number;
  /** At most `length`. */
  readonly start: number;
}

export const rope: Operation<RopeArguments, RopeProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "rope",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, ropeKinds);
    const batch = read.extent("batch", args.batch, table.batch.default);
    const heads = read.extent("heads", args.heads, table.heads.default);
    const rows = read.extent("rows", args.rows);
    const size = read.extent("size", args.size);
    const rotated = read.extent("rotated", args.rotated, size);
    if (rotated > size || rotated % 2 !== 0 || (rotated === 0 && size > 0))
      read.fail("rotated", `is ${rotated}; allowed: even numbers from 2 to the size, ${size}`);
    const length = read.extent("length", args.length, undefined, table.length.least);
    const inverse = read.flag("inverse", args.inverse, false);
    const start = read.extent("start", args.start, table.start.default);
    const positionStride = read.extent("positionStride", args.positionStride, 0);
    const extents = [batch, heads, rows];
    const count = read.product("input", [...extents, size]);
    const inputStrides = stridesOf(read, "inputStrides", args.inputStrides, extents, size);
    const outputStrides = stridesOf(read, "outputStrides", args.outputStrides, extents, size);
    if (count > 0) {
      const axes: { readonly extent: number; readonly output: number }[] = [];
      for (let i = 0; i < extents.length; i++)
        if (extents[i]! > 1) axes.push({ extent: extents[i]!, output: outputStrides[i]! });
      axes.sort((a, b) => b.output - a.output);
      axes.push({ extent: size, output: 1 });
      read.apart("outputStrides", axes, args.outputStrides ?? outputStrides);
    }
    const reach = (strides: RowStrides) =>
      count === 0 ? 0 : extents.reduce((sum, extent, i) => sum + (extent - 1) * strides[i]!, size);
    const input = read.region(binder, "input", args.input, reach(inputStrides), dtype);
    const output = read.region(binder, "output", args.output, reach(outputStrides), dtype);
    const entries = read.product("cos", [length, rotated / 2]);
    const cos = read.region(binder, "cos", args.cos, entries, "f32");
    const sin = read.region(binder, "sin", args.sin, entries, "f32");
    const positionCount = count === 0 ? 0 : (batch - 1) * positionStride + rows;
    const positions = read.optionalRegion(binder, "positions", args.positions, positionCount, "i32");
    if (positions === undefined ? positionStride > 0 : start > 0)
      read.fail(
        positions === undefined ? "positionStride" : "start",
        `is ${positions === undefined ? positionStride : start}; allowed ${positions === undefined ? "without" : "beside"} positions: 0`,
      );
    const isSame = inputStrides.every((stride, i) => stride === outputStrides[i]);
    const place = { argument: "output", region: output };
    if (isSame) read.disjointOrSame(place, { argument: "input", region: input });
    else read.disjoint(place, { argument: "input", region: input });
    read.disjoint(place, { argument: "cos", region: cos });
    read.disjoint(place, { argument: "sin", region: sin });
    if (positions !== undefined) read.disjoint(place, { argument: "positions", region: positions });
    if (count === 0) return undefined;
    return {
      // One plain literal: spreads and entries of objects took two thirds of the time of a small call.
      dtype,
      kind,
      batch,
      heads,
      rows,
      size,
      rotated,
      inverse,
      input,
      inputStrides,
      output,
      outputStrides,
      length,
      cos,
      sin,
      positions,
      positionStride: batch > 1 ? positionStride : 0,
      start: Math.min(start, length),
    };
  },

  /** Two products and a sum for each element that rotates. */
  flops: ({ batch, heads, rows, rotated }) => 3 * batch * heads * rows * rotated,

  /** Of the tables, the rows that are used, if each position is used once. */
  bytes({ dtype, batch, heads, rows, size, rotated, length, positions, positionStride }) {
    const elements = batch * heads * rows * size;
    const used = Math.min(length, rows * (positionStride > 0 ? batch : 1));
    return 2 * elements * dtypeBytes[dtype] + 4 * used * rotated + (positions?.byteLength ?? 0);
  },
});

function stridesOf(
  read: Reader<typeof table>,
  argument: "inputStrides" | "outputStrides",
  value: readonly number[] | undefined,
  extents: readonly number[],
  size: number,
): RowStrides {
  const strides = read.strides(argument, value, extents);
  const strideOf = (axis: 0 | 1 | 2): number => {
    const stride = value === undefined ? strides[axis]! * size : strides[axis]!;
    if (stride < 0) read.fail(`${argument}[${axis}]`, `is ${stride}; allowed: whole numbers from 0`);
    return extents[axis]! > 1 ? stride : 0;
  };
  return [strideOf(0), strideOf(1), strideOf(2)];
}
