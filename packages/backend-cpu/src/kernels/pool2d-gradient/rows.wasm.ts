import type { FloatType, Pool2dKind } from "@backplane/core";
import {
  type FunctionReference,
  f32,
  f32x4,
  i32,
  i32x4,
  type ModuleBuilder,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import {
  lineUnroll,
  type PanelName,
  panelRows,
  panelTypes,
  setWindow,
  storeLineFunction,
  type WindowName,
  windowAxes,
  windowLocals,
  windowTypes,
} from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/index.js";
import { forWindows, overLocals, setOver } from "./over.js";

export type RowsTypes = Readonly<
  Record<"outputGradient" | "indices" | "inputGradient" | WindowName | PanelName, "i32">
>;

const rowsTypes: RowsTypes = {
  outputGradient: "i32",
  /** Of a maximum only. */
  indices: "i32",
  inputGradient: "i32",
  ...windowTypes,
  /** Of rows of the input. */
  ...panelTypes,
};

/** Limits of `rowsKernel`: columns of a panel, columns that a window reaches over, and columns from window to window. */
export const rowsLimits = { columns: 2048, reach: 1024, stride: 16 } as const;

const { columns: mostColumns, reach: mostReach, stride: mostStride } = rowsLimits;

/** Vectors reach past the last column. */
const slack = 16;
/** Elements of the windows of a panel, and of all columns that these reach over, stride by stride. */
const windowElements = mostColumns + mostReach + 2 * mostStride + slack;
const spreadElements = mostColumns + 2 * mostReach + (3 + slack) * mostStride;
const lineElements = spreadElements;

/**
 * Planes one after the other, without channels between. Columns of the input that are a stride apart lie side by side in
 * scratch, so that each place of the windows adds its part of all gradients in a row as vectors; at the end these are
 * interleaved. Of means, the rows of gradients become one before. Chunk: `rowsPerChunk` rows of the input, or their part in one
 * panel.
 */
export function rowsKernel(kind: Pool2dKind, dtype: FloatType): Kernel<RowsTypes> {
  const isMean = kind === "mean";
  return defineKernel<RowsTypes>({
    name: `pool_gradient_${kind}_rows_${dtype}`,
    parameters: rowsTypes,
    scratchBytes: 4 * (spreadElements + lineElements + 2 * windowElements),
    emit(f, { parameters, chunk, scratch, module }) {
      const { outputGradient, indices, inputGradient, height, width } = parameters;
      const { outHeight, outWidth, kernelWidth, strideX, dilationX, left } = parameters;
      const { countPadding } = parameters;
      const { shift } = elementsOf(f, dtype);
      const { y: axisY, x: axisX } = windowAxes(parameters);
      const work = panelRows(f, parameters, chunk, height, width);
      const { x, columns, row, plane, y } = work;

      // The windows over the panel; the first of them begins at its first column or before it.
      const reach = f.let(i32.mul(i32.sub(kernelWidth, 1), dilationX));
      const padded = f.let(i32.add(x, left));
      const first = f.let(i32.divU(i32.maxS(i32.sub(padded, reach), 0), strideX));
      f.set(first, i32.minU(first, i32.sub(outWidth, 1)));
      const last = i32.minU(i32.sub(outWidth, 1), i32.divU(i32.sub(i32.add(padded, columns), 1), strideX));
      const windows = f.let(i32.add(i32.sub(last, first), 1));
      /** From the first place of that window to the first column. */
      const offset = f.let(i32.sub(padded, i32.mul(first, strideX)));
      /** Columns a stride apart. */
      const held = i32.maxU(
        i32.add(windows, i32.divU(reach, strideX)),
        i32.divU(i32.add(offset, columns), strideX),
      );
      const phase = f.let(i32.and(i32.add(held, 8), -4));
      const phaseBytes = f.let(i32.shl(phase, 2));
      const spread = scratch;
      const line = f.let(i32.add(scratch, 4 * spreadElements));
      const sums = f.let(i32.add(line, 4 * lineElements));
      f.if(i32.eq(strideX, 1), () => f.set(line, spread));
      const factors = f.let(i32.add(sums, 4 * windowElements));
      const [overY, windowY] = [overLocals(f), windowLocals(f)];
      if (isMean) {
        // One over the columns that each window is of.
        const windowX = windowLocals(f);
        f.forRange(0, windows, (i) => {
          setWindow(f, windowX, axisX, i32.add(first, i), countPadding);
          const factor = f32.div(f32.const(1), f32.convertI32S(windowX.counted));
          f.store(i32.add(factors, i32.shl(i, 2)), factor);
        });
      }

      const v = f.local("i32");
      const to = f.let(i32.add(inputGradient, i32.shl(i32.add(i32.mul(row, width), x), shift)));
      /** Calls `body` with the place of each element of windows: of its first column, if these are a stride apart. */
      const forTaps = (
        body: (at: ReturnType<typeof f.local<"i32">>, tap: ReturnType<typeof f.local<"i32">>) => void,
      ) => {
        f.forRange(0, kernelWidth, (i) => {
          const tap = f.let(i32.mul(i, dilationX));
          const step = f.let(i32.divU(tap, strideX));
          const remainder = i32.sub(tap, i32.mul(step, strideX));
          const at = f.let(i32.add(spread, i32.add(i32.mul(remainder, phaseBytes), i32.shl(step, 2))));
          body(at, tap);
        });
      };
      const fewTaps = i32.and(i32.geU(kernelWidth, 2), i32.leU(kernelWidth, 3));
      const arePairs = f.let(i32.and(fewTaps, i32.and(i32.eq(strideX, 2), i32.eq(dilationX, 1))));
      // Means of neighbouring rows that are in the same windows are the same.
      const [firstBefore, endBefore] = [f.let(i32.const(-1)), f.let(i32.const(-1))];
      work.forRows(() => {
        f.if(i32.eqz(y), () => f.set(firstBefore, -1));
        setOver(f, overY, axisY, outHeight, y, i32.const(1));
        const compute = (): void => {
          f.memoryFill(spread, 0, i32.mul(phaseBytes, strideX));
          if (isMean) {
            const adds = f.let(i32.const(0));
            forWindows(f, overY, axisY, y, v, () => {
              setWindow(f, windowY, axisY, v, countPadding);
              const share = f.let(f32.div(f32.const(1), f32.convertI32S(windowY.counted)));
              const from = f.let(fromOf());
              f.if(
                adds,
                () => f.call(joinFunction(module, dtype, true), sums, from, share, windows),
                () => f.call(joinFunction(module, dtype, false), sums, from, share, windows),
              );
              f.set(adds, 1);
            });
            f.if(adds, () => {
              f.call(shareFunction(module), sums, factors, windows);
              forTaps((at) => f.call(addFunction(module), at, sums, windows));
            });
          } else
            forWindows(f, overY, axisY, y, v, () => {
              const from = f.let(fromOf());
              const index = f.let(i32.add(indices, i32.shl(elementOf(), 2)));
              const place = f.let(placeOf());
              forTaps((at, tap) =>
                f.call(takeFunction(module, dtype), at, from, index, i32.add(place, tap), strideX, windows),
              );
            });
          f.call(interleaveFunction(module), line, spread, phaseBytes, strideX, i32.add(offset, columns));
          f.call(storeLineFunction(module, dtype), to, i32.add(line, i32.shl(offset, 2)), columns);
        };
        /** The place in the image of the first window's first column, which may be beside it. */
        const placeOf = () => i32.sub(i32.add(i32.mul(y, width), i32.mul(first, strideX)), left);
        /** Of maxima of two or three columns that are two apart: without scratch in between. */
        const computePairs = (): void => {
          const adds = f.let(i32.const(0));
          const span = i32.add(offset, columns);
          forWindows(f, overY, axisY, y, v, () => {
            const from = f.let(fromOf());
            const index = f.let(i32.add(indices, i32.shl(elementOf(), 2)));
            const call = (more: boolean) =>
              f.call(
                pairsFunction(module, dtype, more),
                ...[line, from, index, placeOf(), windows, kernelWidth, span],
              );
            f.if(
              adds,
              () => call(true),
              () => call(false),
            );
            f.set(adds, 1);
          });
          f.if(i32.eqz(adds), () => f.memoryFill(line, 0, i32.shl(span, 2)));
          f.call(storeLineFunction(module, dtype), to, i32.add(line, i32.shl(offset, 2)), columns);
        };
        const elementOf = () => i32.add(i32.mul(i32.add(i32.mul(plane, outHeight), v), outWidth), first);
        const fromOf = () => i32.add(outputGradient, i32.shl(elementOf(), shift));
        if (isMean) {
          const isSame = i32.and(i32.eq(overY.first, firstBefore), i32.eq(overY.end, endBefore));
          f.if(
            i32.and(isSame, i32.eq(parameters.dilationY, 1)),
            () => f.memoryCopy(to, i32.sub(to, i32.shl(width, shift)), i32.shl(columns, shift)),
            compute,
          );
          f.set(firstBefore, overY.first);
          f.set(endBefore, overY.end);
        } else f.if(arePairs, computePairs, compute);
        f.add(to, i32.shl(width, shift));
      });
    },
  });
}

/** to[i] = share from[i], and with `adds` also what is there. */
function joinFunction(module: ModuleBuilder, dtype: FloatType, adds: boolean): FunctionReference {
  return module.shared(`pool_gradient_join_${dtype}${adds ? "_more" : ""}`, (name) =>
    module.function(
      name,
      { to: "i32", from: "i32", share: "f32", count: "i32" },
      (f, { to, from, share, count }) => {
        const shares = f.let(f32x4.splat(share));
        const output = { at: to, elements: elementsOf(f, "f32") };
        const input = { at: from, elements: elementsOf(f, dtype) };
        mapVectors(f, {
          ...{ count, output, unroll: lineUnroll[dtype] },
          inputs: adds ? [input, output] : [input],
          compute: (x, sum) =>
            sum === undefined ? f32x4.mul(x!, shares) : f32x4.add(sum, f32x4.mul(x!, shares)),
        });
      },
    ),
  );
}

/** sums[i] = sums[i] factors[i] */
function shareFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("pool_gradient_share", (name) =>
    module.function(name, { sums: "i32", factors: "i32", count: "i32" }, (f, { sums, factors, count }) => {
      const elements = elementsOf(f, "f32");
      const output = { at: sums, elements };
      mapVectors(f, {
        ...{ count, output, unroll: 4 },
        inputs: [output, { at: factors, elements }],
        compute: (sum, factor) => f32x4.mul(sum!, factor!),
      });
    }),
  );
}

/** to[i] = to[i] + from[i] */
function addFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("pool_gradient_add", (name) =>
    module.function(name, { to: "i32", from: "i32", count: "i32" }, (f, { to, from, count }) => {
      const elements = elementsOf(f, "f32");
      const output = { at: to, elements };
      mapVectors(f, {
        ...{ count, output, unroll: 4 },
        inputs: [output, { at: from, elements }],
        compute: (sum, x) => f32x4.add(sum!, x!),
      });
    }),
  );
}

/** Vectors per round of taking gradients by their indices. */
const takeUnroll: Readonly<Record<FloatType, number>> = { f32: 2, f16: 1 };

/** to[i] = to[i] + from[i], if indices[i] = place + i stride */
function takeFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`pool_gradient_take_${dtype}`, (name) =>
    module.function(
      name,
      { to: "i32", from: "i32", indices: "i32", place: "i32", stride: "i32", count: "i32" },
      (f, { to, from, indices, place, stride, count }) => {
        const strides = i32x4.mul(i32x4.const(0, 1, 2, 3), i32x4.splat(stride));
        const here = f.let(i32x4.add(i32x4.splat(place), strides));
        const step = f.let(i32x4.splat(i32.shl(stride, 2)));
        const output = { at: to, elements: elementsOf(f, "f32") };
        mapVectors(f, {
          ...{ count, output, unroll: takeUnroll[dtype] },
          inputs: [
            output,
            { at: from, elements: elementsOf(f, dtype) },
            { at: indices, elements: elementsOf(f, "i32") },
          ],
          compute(sum, x, index) {
            const result = f.let(f32x4.add(sum!, v128.and(x!, i32x4.eq(index!, here))));
            f.set(here, i32x4.add(here, step));
            return result;
          },
        });
      },
    ),
  );
}

/**
 * to[2 i + j] = from[i] if indices[i] = place + 2 i + j, for j < taps, which is 2 or 3; of `count` windows and `span` columns, and
 * some more. With `adds`, also what is there. This takes a third of the instructions of taking each place of the windows by itself.
 */
function pairsFunction(module: ModuleBuilder, dtype: FloatType, adds: boolean): FunctionReference {
  return module.shared(`pool_gradient_pairs_${dtype}${adds ? "_more" : ""}`, (name) =>
    module.function(
      name,
      { to: "i32", from: "i32", indices: "i32", place: "i32", count: "i32", taps: "i32", span: "i32" },
      (f, { to, from, indices, place, count, taps, span }) => {
        const elements = elementsOf(f, dtype);
        const end = f.let(i32.add(to, i32.shl(span, 2)));
        const places = f.let(i32x4.add(i32x4.splat(place), i32x4.const(0, 2, 4, 6)));
        const [none, one, two] = [0, 1, 2].map((tap) => f.let(i32x4.splat(i32.const(tap))));
        const step = f.let(i32x4.splat(i32.const(8)));
        const lanes = f.let(i32x4.const(0, 1, 2, 3));
        const hasThree = f.let(i32x4.splat(i32.sub(0, i32.eq(taps, 3))));
        const before = f.let(f32x4.const(0));
        const gradient = f.local("v128");
        f.while(i32.ltU(to, end), () => {
          f.set(gradient, elements.load(from));
          // What lies behind the last window belongs to others.
          f.if(i32.ltS(count, 4), () =>
            f.set(gradient, v128.and(gradient, i32x4.gtS(i32x4.splat(count), lanes))),
          );
          const tap = f.let(i32x4.sub(v128.load(indices), places));
          const third = f.let(v128.and(v128.and(gradient, i32x4.eq(tap, two!)), hasThree));
          const first = v128.and(gradient, i32x4.eq(tap, none!));
          const even = f.let(f32x4.add(first, shuffle32([3, 4, 5, 6], before, third)));
          const odd = f.let(v128.and(gradient, i32x4.eq(tap, one!)));
          f.set(before, third);
          const put = (values: Value<"v128">, offset: number) =>
            f.store(to, adds ? f32x4.add(v128.load(to, offset), values) : values, offset);
          put(shuffle32([0, 4, 1, 5], even, odd), 0);
          put(shuffle32([2, 6, 3, 7], even, odd), 16);
          f.set(places, i32x4.add(places, step));
          f.add(from, 4 * elements.bytes);
          f.add(indices, 16);
          f.add(to, 32);
          f.add(count, -4);
        });
      },
    ),
  );
}

/** to[i] = element i / stride of the phase i % stride, for `count` elements and a few more. */
function interleaveFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("pool_gradient_interleave", (name) =>
    module.function(
      name,
      { to: "i32", from: "i32", phaseBytes: "i32", stride: "i32", count: "i32" },
      (f, { to, from, phaseBytes, stride, count }) => {
        const end = f.let(i32.add(to, i32.shl(count, 2)));
        // They lie there as they are.
        f.if(i32.eq(stride, 1), () => f.return());
        f.if(i32.eq(stride, 2), () => {
          f.while(i32.ltU(to, end), () => {
            const even = f.let(v128.load(from));
            const odd = f.let(v128.load(f.let(i32.add(from, phaseBytes))));
            f.store(to, shuffle32([0, 4, 1, 5], even, odd));
            f.store(to, shuffle32([2, 6, 3, 7], even, odd), 16);
            f.add(to, 32);
            f.add(from, 16);
          });
          f.return();
        });
        const strideBytes = f.let(i32.shl(stride, 2));
        f.forRange(0, stride, () => {
          const at = f.let(from);
          const place = f.let(to);
          f.while(i32.ltU(place, end), () => {
            f.store(place, f32.load(at));
            f.add(place, strideBytes);
            f.add(at, 4);
          });
          f.add(to, 4);
          f.add(from, phaseBytes);
        });
      },
    ),
  );
}
