import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i32,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
import { epilogueFunction } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { emitTile, tileColumns } from "../tile/index.js";
import { mapVectors } from "../vector/index.js";

const parameterTypes = {
  input: "i32",
  /** f32, even if the data is f16. */
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
  kernelHeight: "i32",
  kernelWidth: "i32",
  outWidth: "i32",
  /** outHeight * outWidth */
  outPixels: "i32",
  strideY: "i32",
  strideX: "i32",
  top: "i32",
  left: "i32",
  dilationY: "i32",
  dilationX: "i32",
  groups: "i32",
  /** Of one group. */
  groupInChannels: "i32",
  groupOutChannels: "i32",
  /** Products in one output element: groupInChannels * kernelHeight * kernelWidth. */
  depth: "i32",
  /** A chunk's share: output channels of one group, output pixels of one image. */
  channelBlock: "i32",
  pixelBlock: "i32",
  /** Products between two additions to the output tile. */
  depthBlock: "i32",
  channelBlocks: "i32",
  pixelBlocks: "i32",
} as const;

export type Conv2dTypes = typeof parameterTypes;

/** f32 values in scratch: patches, `depthBlock` x `pixelBlock`, and sums, `channelBlock` x `pixelBlock`. */
export const patchElements: number = 1 << 14;
export const sumElements: number = 1 << 12;

/** Room for vectors that reach past the last row. */
const slackBytes = 64;

/**
 * Convolution as a matrix product, sums = filter (channels x depth) * patches (depth x pixels), of
 * which only a block of patches exists at a time: for `depthBlock` filter elements, the input values
 * that they meet at `pixelBlock` consecutive output pixels. Lanes run along the pixels. Summing in
 * blocks also keeps rounding errors small.
 */
export function conv2dKernel(dtype: FloatType): Kernel<Conv2dTypes> {
  return defineKernel({
    name: `conv2d_${dtype}`,
    parameters: parameterTypes,
    scratchBytes: 4 * (patchElements + sumElements) + 2 * slackBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const { groups, groupInChannels, groupOutChannels, depth, pixelBlocks, channelBlocks } = parameters;
      const elements = elementsOf(f, dtype);

      const pixel = f.let(i32.mul(i32.remU(chunk, pixelBlocks), parameters.pixelBlock));
      const rest = f.let(i32.divU(chunk, pixelBlocks));
      const channel = f.let(i32.mul(i32.remU(rest, channelBlocks), parameters.channelBlock));
      const image = f.let(i32.divU(rest, channelBlocks)); // batch * groups + group
      const group = f.let(i32.remU(image, groups));
      const batch = f.let(i32.divU(image, groups));
      const channels = f.let(i32.minU(i32.sub(groupOutChannels, channel), parameters.channelBlock));
      const pixels = f.let(i32.minU(i32.sub(parameters.outPixels, pixel), parameters.pixelBlock));
      const outChannel = f.let(i32.add(i32.mul(group, groupOutChannels), channel));

      const patches = scratch;
      const sums = f.let(i32.add(scratch, 4 * patchElements + slackBytes));
      const rowBytes = f.let(i32.shl(parameters.pixelBlock, 2));
      const columnBytes = f.let(i32.shl(i32.and(i32.add(pixels, tileColumns - 1), -tileColumns), 2));
      const filterBytes = f.let(i32.shl(depth, 2));
      const filter = f.let(i32.add(parameters.filter, i32.mul(outChannel, filterBytes)));
      f.memoryFill(sums, 0, i32.mul(channels, rowBytes));

      const packer = patchPacker(f, elements, {
        ...{ parameters, patches, pixel, pixels, rowBytes },
        firstChannel: i32.add(i32.mul(batch, parameters.inChannels), i32.mul(group, groupInChannels)),
      });
      f.forRange(
        0,
        depth,
        (first) => {
          const count = f.let(i32.minU(i32.sub(depth, first), parameters.depthBlock));
          packer.pack(count);
          const rowFilter = f.let(i32.add(filter, i32.shl(first, 2)));
          const rowSums = f.let(sums);
          const done = f.let(i32.const(0));
          const multiply = (rows: number): void => {
            f.forRange(
              0,
              columnBytes,
              (column) => {
                const tile = emitTile(f, {
                  rows: Array.from({ length: rows }, (_, r) =>
                    f.let(i32.add(rowFilter, i32.mul(filterBytes, r))),
                  ),
                  rowStep: 4,
                  columns: f.let(i32.add(patches, column)),
                  columnStep: rowBytes,
                  depth: count,
                });
                const to = f.let(i32.add(rowSums, column));
                for (const parts of tile) {
                  for (const [c, part] of parts.entries())
                    f.store(to, f32x4.add(v128.load(to, 16 * c), part), 16 * c);
                  f.add(to, rowBytes);
                }
              },
              { step: 4 * tileColumns },
            );
            f.add(rowFilter, i32.mul(filterBytes, rows));
            f.add(rowSums, i32.mul(rowBytes, rows));
            f.add(done, rows);
          };
          f.while(i32.leU(i32.add(done, 4), channels), () => multiply(4));
          f.while(i32.ltU(done, channels), () => multiply(1));
        },
        { step: parameters.depthBlock },
      );

      const plane = i32.add(i32.mul(batch, parameters.outChannels), outChannel);
      const firstOutput = i32.add(i32.mul(plane, parameters.outPixels), pixel);
      const output = f.let(i32.add(parameters.output, i32.shl(firstOutput, elements.shift)));
      const outputRow = f.let(i32.shl(parameters.outPixels, elements.shift));
      const bias = f.let(i32.add(parameters.bias, i32.shl(outChannel, elements.shift)));
      // x + -0 is x, also for x = -0.
      const nothing = f.let(f32x4.const(-0));
      const biases = f.let(nothing);
      const float32 = elementsOf(f, "f32");
      const { activation } = parameters;
      const added = f.let(scratch); // in place of the patches
      f.forRange(0, channels, () => {
        f.if(parameters.bias, () => f.set(biases, elements.loadSplat(bias)));
        f.if(activation, () => {
          // Compute all in f32 in the place of the sums, then write the output without adding anything.
          f.store(added, biases);
          f.call(epilogueFunction(module), sums, 0, 1, pixels, added, 0, activation);
          f.set(biases, nothing);
        });
        mapVectors(f, {
          count: pixels,
          inputs: [{ at: f.let(sums), elements: float32 }, biases],
          output: { at: f.let(output), elements },
          compute: (sum, addend) => f32x4.add(sum!, addend!),
          unroll: 1,
        });
        f.add(sums, rowBytes);
        f.add(output, outputRow);
        f.add(bias, elements.bytes);
      });
    },
  });
}

interface PatchBlock {
  readonly parameters: { readonly [Name in keyof Conv2dTypes]: Local<"i32"> };
  readonly patches: Local<"i32">;
  /** The first output pixel, counted row by row, and how many. */
  readonly pixel: Local<"i32">;
  readonly pixels: Local<"i32">;
  readonly rowBytes: Local<"i32">;
  /** The first input channel, counted through the whole batch. */
  readonly firstChannel: Value<"i32">;
}

/**
 * Writes rows of patches, starting where the last call ended. Row (c, i, j) holds, for each output pixel (y,
 * x), input[c, y strideY + i dilationY - top, x strideX + j dilationX - left], and zero outside the input.
 */
function patchPacker(
  f: FunctionBuilder,
  elements: Elements,
  block: PatchBlock,
): { pack(count: Local<"i32">): void } {
  const { patches, pixel, pixels, rowBytes } = block;
  const { height, width, outWidth, strideX, strideY, left, top } = block.parameters;
  const { kernelHeight, kernelWidth, dilationX, dilationY } = block.parameters;
  const zero = f.let(f32x4.const(0));
  const firstY = f.let(i32.divU(pixel, outWidth));
  const firstX = f.let(i32.remU(pixel, outWidth));
  const widthBytes = f.let(i32.shl(width, elements.shift));
  const planeBytes = f.let(i32.mul(height, widthBytes));
  const plane = f.let(i32.add(block.parameters.input, i32.mul(block.firstChannel, planeBytes)));
  const i = f.let(i32.const(0));
  const j = f.let(i32.const(0));

  /** The place of the next value. Vectors may reach 12 bytes past the end; the next values overwrite that. */
  const to = f.local("i32");
  const zeros = (count: Value<"i32">): void => {
    const end = f.let(i32.add(to, i32.shl(count, 2)));
    f.forLocal(to, end, () => f.store(to, zero), { step: 16 });
    f.set(to, end);
  };
  const from = f.local("i32");
  const copy = (count: Value<"i32">): void => {
    const end = f.let(i32.add(to, i32.shl(count, 2)));
    const vectors = (vector: () => Value<"v128">, step: number): void =>
      f.forLocal(
        to,
        end,
        () => {
          f.store(to, vector());
          f.add(from, step * elements.bytes);
        },
        { step: 16 },
      );
    f.if(
      i32.eq(strideX, 1),
      () => vectors(() => elements.load(from), 4),
      () =>
        f.if(
          i32.eq(strideX, 2),
          () =>
            vectors(() => {
              const low = f.let(elements.load(from));
              const high = f.let(elements.load(from, 4 * elements.bytes));
              return shuffle32([0, 2, 4, 6], low, high);
            }, 8),
          () => {
            const step = f.let(i32.shl(strideX, elements.shift));
            f.forLocal(
              to,
              end,
              () => {
                f.storeLane(32, 0, to, elements.loadSplat(from));
                f.add(from, step);
              },
              { step: 4 },
            );
          },
        ),
    );
    f.set(to, end);
  };

  const packRow = (row: Local<"i32">): void => {
    f.set(to, row);
    // The input column at output column x is x * strideX + shift: inside for x in [inside, outside).
    const shift = f.let(i32.sub(i32.mul(j, dilationX), left));
    const missing = i32.maxS(i32.sub(0, shift), 0);
    const inside = f.let(i32.divS(i32.add(missing, i32.sub(strideX, 1)), strideX));
    const last = f.let(i32.sub(i32.sub(width, 1), shift));
    const outside = f.let(i32.const(0));
    f.if(i32.geS(last, 0), () => f.set(outside, i32.add(i32.divS(last, strideX), 1)));

    const x = f.let(firstX);
    const remaining = f.let(pixels);
    const inputY = f.let(i32.sub(i32.add(i32.mul(firstY, strideY), i32.mul(i, dilationY)), top));
    f.loop((again) => {
      const run = f.let(i32.minU(i32.sub(outWidth, x), remaining));
      f.if(
        i32.geU(inputY, height),
        () => zeros(run),
        () => {
          const clampToRun = (value: Value<"i32">, least: Value<"i32">): Local<"i32"> =>
            f.let(i32.minS(i32.maxS(i32.sub(value, x), least), run));
          const before = clampToRun(inside, i32.const(0));
          const until = clampToRun(outside, before);
          f.if(before, () => zeros(before));
          f.if(i32.gtS(until, before), () => {
            const inputX = i32.add(i32.mul(i32.add(x, before), strideX), shift);
            const offset = i32.add(i32.mul(inputY, widthBytes), i32.shl(inputX, elements.shift));
            f.set(from, i32.add(plane, offset));
            copy(i32.sub(until, before));
          });
          f.if(i32.gtS(run, until), () => zeros(i32.sub(run, until)));
        },
      );
      f.set(x, 0);
      f.add(inputY, strideY);
      f.set(remaining, i32.sub(remaining, run));
      f.brIf(again, remaining);
    });
  };

  return {
    pack(count) {
      const row = f.let(patches);
      f.forRange(0, count, () => {
        packRow(row);
        f.add(row, rowBytes);
        f.add(j, 1);
        f.if(i32.eq(j, kernelWidth), () => {
          f.set(j, 0);
          f.add(i, 1);
          f.if(i32.eq(i, kernelHeight), () => {
            f.set(i, 0);
            f.add(plane, planeBytes);
          });
        });
      });
    },
  };
}
