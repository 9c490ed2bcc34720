import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i8x16,
  i32,
  i32x4,
  type Local,
  type Value,
  v128,
} from "../../wasm/index.js";
import { epilogueFunction } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";

const depthwiseTypes = {
  input: "i32",
  filter: "i32",
  /** 0: none. */
  bias: "i32",
  /** A value of `activationCode`. */
  activation: "i32",
  output: "i32",
  inChannels: "i32",
  height: "i32",
  width: "i32",
  outChannels: "i32",
  outHeight: "i32",
  outWidth: "i32",
  top: "i32",
  left: "i32",
  groupOutChannels: "i32",
  /** Output planes, through the whole batch, and how many of them a chunk does its share of. */
  planes: "i32",
  planesPerChunk: "i32",
  /** Rows of a share, at least as many as a tile has. The last share also takes the rows that are left over. */
  rowBlock: "i32",
  rowBlocks: "i32",
  /** Address of a row of the input for worker 0, to be filled with zeros; bytes to the next worker's. */
  zeroRows: "i32",
  zeroRowBytes: "i32",
} as const;

export type DepthwiseTypes = typeof depthwiseTypes;

/** Extent of the kernel in both directions. */
export const depthwiseKernel = 3;
/** Output rows and columns of a tile. With the filter they take all but one or two of the registers. */
export const depthwiseRows = 4;
export const depthwiseColumns = 4;

/**
 * Convolution of single planes with 3x3 elements, without stride or dilation, from the input in place. The
 * filter stays in registers. A tile is one vector of four rows: each loaded vector of an input row serves up
 * to three of them. There are rows of zeros beyond the first and the last row of the input; the first and
 * last vectors of a row get their zeros when they are loaded. To be whole, the last tiles of rows and columns
 * overlap others and compute some results again.
 */
export const depthwiseKernelF32: Kernel<DepthwiseTypes> = defineKernel({
  name: "conv2d_depthwise_f32",
  parameters: depthwiseTypes,
  emit(f, { parameters, chunk, worker, module }) {
    const { inChannels, outChannels, height, width, outHeight, outWidth, top, left } = parameters;
    const { rowBlock, rowBlocks, bias, activation } = parameters;

    const share = f.let(i32.remU(chunk, rowBlocks));
    const plane = f.let(i32.mul(i32.divU(chunk, rowBlocks), parameters.planesPerChunk));
    const planesEnd = f.let(
      i32.add(plane, i32.minU(i32.sub(parameters.planes, plane), parameters.planesPerChunk)),
    );
    const firstRow = f.let(i32.mul(share, rowBlock));
    const rows = f.let(rowBlock);
    f.if(i32.eq(i32.add(share, 1), rowBlocks), () => f.set(rows, i32.sub(outHeight, firstRow)));
    const zeroRow = f.let(i32.add(parameters.zeroRows, i32.mul(worker, parameters.zeroRowBytes)));
    f.memoryFill(zeroRow, 0, parameters.zeroRowBytes);

    const rowBytes = f.let(i32.shl(width, 2));
    const outRowBytes = f.let(i32.shl(outWidth, 2));
    const leftBytes = f.let(i32.shl(left, 2));
    // The last place, in bytes from the start of a row, at which a tile ends within the row; and the last at
    // which it still reads only the input.
    const last = f.let(i32.sub(outRowBytes, 4 * depthwiseColumns));
    const met = i32.sub(i32.add(rowBytes, leftBytes), 4 * (depthwiseColumns + depthwiseKernel - 1));
    const lastInside = f.let(i32.minS(last, met));
    // Compute the values that depend on the place of the first and of the last tile once.
    const firstOrders = borderOrders(f, i32.sub(0, leftBytes), width);
    const lastOrders = borderOrders(f, i32.sub(last, leftBytes), width);
    const orders = firstOrders.map((order) => f.let(order));

    f.forLocal(plane, planesEnd, () => {
      const channel = f.let(i32.remU(plane, outChannels));
      const firstInput = i32.mul(i32.divU(plane, outChannels), inChannels);
      const inputPlane = i32.add(firstInput, i32.divU(channel, parameters.groupOutChannels));
      const source = f.let(i32.add(parameters.input, i32.mul(i32.mul(inputPlane, height), rowBytes)));
      const outputRow = i32.add(i32.mul(plane, outHeight), firstRow);
      const output = f.let(i32.add(parameters.output, i32.mul(outputRow, outRowBytes)));
      const filter = f.let(i32.add(parameters.filter, i32.mul(channel, 4 * depthwiseKernel ** 2)));
      const factors = Array.from({ length: depthwiseKernel ** 2 }, (_, i) =>
        f.let(v128.load32Splat(filter, 4 * i)),
      );
      f.forRange(
        0,
        rows,
        (next) => {
          const y = f.let(i32.minU(next, i32.sub(rows, depthwiseRows)));
          const inputY = f.let(i32.sub(i32.add(firstRow, y), top));
          const inputRows = Array.from({ length: depthwiseRows + depthwiseKernel - 1 }, (_, i) => {
            const row = f.let(zeroRow);
            const at = i32.add(inputY, i);
            f.if(i32.ltU(at, height), () => f.set(row, i32.add(source, i32.mul(at, rowBytes))));
            return row;
          });
          const to = f.let(i32.add(output, i32.mul(y, outRowBytes)));
          const tile = (x: Local<"i32">, load: TapLoad): void => {
            const sums = emitTile(f, factors, inputRows, load);
            const place = f.let(i32.add(to, x));
            for (const sum of sums) {
              f.store(place, sum);
              f.add(place, outRowBytes);
            }
          };
          const x = f.let(i32.const(0));
          f.loop((again) => {
            f.if(i32.and(i32.geS(x, leftBytes), i32.leS(x, lastInside)), () => {
              const from = f.let(i32.sub(x, leftBytes));
              f.loop((nextTile) => {
                tile(x, (row, j) => v128.load(i32.add(row, from), 4 * j));
                f.add(x, 4 * depthwiseColumns);
                f.add(from, 4 * depthwiseColumns);
                f.brIf(nextTile, i32.leS(x, lastInside));
              });
            });
            f.if(i32.ltS(x, outRowBytes), () => {
              f.set(x, i32.minS(x, last));
              const setOrders = (from: typeof firstOrders): void =>
                orders.forEach((order, j) => {
                  f.set(order, from[j]!);
                });
              f.if(
                x,
                () => setOrders(lastOrders),
                () => setOrders(firstOrders),
              );
              const from = f.let(i32.sub(x, leftBytes));
              const starts = orders.map((_, j) => f.let(i32.maxS(i32.add(from, 4 * j), 0)));
              tile(x, (row, j) => {
                const vector = v128.load(i32.add(row, starts[j]!));
                return f.relaxedSimd
                  ? i8x16.relaxedSwizzle(vector, orders[j]!)
                  : i8x16.swizzle(vector, orders[j]!);
              });
              f.add(x, 4 * depthwiseColumns);
            });
            f.brIf(again, i32.ltS(x, outRowBytes));
          });
        },
        { step: depthwiseRows },
      );
      f.if(i32.or(bias, activation), () => {
        const biasAt = f.let(bias);
        f.if(bias, () => f.add(biasAt, i32.shl(channel, 2)));
        const count = i32.mul(rows, outWidth);
        f.call(epilogueFunction(module), output, 0, 1, count, biasAt, 0, activation);
      });
    });
  },
});

/** Returns the inputs of the filter elements of column j in one row of the input. */
type TapLoad = (row: Local<"i32">, j: number) => Value<"v128">;

/** Computes the sums of a tile, each in the order of the filter. */
function emitTile(
  f: FunctionBuilder,
  factors: readonly Value<"v128">[],
  inputRows: readonly Local<"i32">[],
  load: TapLoad,
): readonly Local<"v128">[] {
  const sums = Array.from({ length: depthwiseRows }, () => f.local("v128"));
  for (const [r, row] of inputRows.entries())
    for (let j = 0; j < depthwiseKernel; j++) {
      const vector = f.let(load(row, j));
      for (const [y, sum] of sums.entries()) {
        const i = r - y;
        if (i < 0 || i >= depthwiseKernel) continue;
        const before = i + j === 0 ? f32x4.const(0) : sum;
        f.set(sum, f.multiplyAdd(factors[depthwiseKernel * i + j]!, vector, before));
      }
    }
  return sums;
}

/**
 * For the elements of each filter column: which bytes of the vector at max(from + 4 j, 0) from the start of a
 * row are those at from + 4 j. Numbers out of range give zeros, left and right of the input.
 */
function borderOrders(f: FunctionBuilder, from: Value<"i32">, width: Local<"i32">): readonly Local<"v128">[] {
  const lanes = f.let(i32x4.const(0, 1, 2, 3));
  const bytes = f.let(i32x4.const(0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c));
  return Array.from({ length: depthwiseKernel }, (_, j) => {
    const wanted = f.let(i32.add(from, 4 * j));
    // The loaded vector starts this many bytes, a multiple of 4, right of the wanted one.
    const moved = i32x4.splat(i32.mul(i32.sub(i32.maxS(wanted, 0), wanted), 0x01010101));
    const columns = i32x4.add(lanes, i32x4.splat(i32.shrS(wanted, 2)));
    const outside = i32x4.geU(columns, i32x4.splat(width));
    return f.let(v128.or(i32x4.sub(bytes, moved), outside));
  });
}

/** By element type. Undefined: there is none, and planes are copied as f32 first. */
export const depthwiseKernels: Readonly<Record<FloatType, Kernel<DepthwiseTypes> | undefined>> = {
  f32: depthwiseKernelF32,
  f16: undefined,
};
