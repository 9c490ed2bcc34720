import type { FloatType, Pool2dKind } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  f32,
  f32x4,
  i32,
  type Local,
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
  type WindowName,
  windowAxes,
  windowLocals,
  windowTypes,
} from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/index.js";
import { combinations } from "./combinations.js";
import { callPairs, pairedSizes, pairedWindows } from "./pairs.wasm.js";

export type RowsTypes = Readonly<Record<"input" | "output" | WindowName | PanelName, "i32">>;

const rowsTypes: RowsTypes = {
  input: "i32",
  output: "i32",
  ...windowTypes,
  /** Of rows of the output. */
  ...panelTypes,
};

/** Columns that the windows of a panel reach over: with their scratch they stay in the first-level cache. */
export const panelSpan = 4096;

/** Vectors are read past the last column. */
const slackBytes = 64;
const spanBytes = 4 * panelSpan + slackBytes;

/**
 * Planes one after the other, without channels between. For each row of the output the rows of the input that its windows
 * meet become one, from which windows of one row are then taken. Beside that row is what changes nothing, as far as windows
 * reach into the padding. Chunk: `rowsPerChunk` rows, or their part in one panel.
 */
export function rowsKernel(kind: Pool2dKind, dtype: FloatType): Kernel<RowsTypes> {
  return defineKernel<RowsTypes>({
    name: `pool_${kind}_rows_${dtype}`,
    parameters: rowsTypes,
    scratchBytes: 2 * spanBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const { input, output, height, width, outHeight, outWidth, countPadding } = parameters;
      const { kernelWidth, strideX, dilationX, left } = parameters;
      const { identity } = combinations[kind];
      const elements = elementsOf(f, dtype);
      const { shift } = elements;
      const work = panelRows(f, parameters, chunk, outHeight, outWidth);
      const { x, columns, row, rowEnd, plane, y } = work;

      // The columns that the panel's windows reach over, and those of them that are in the input.
      const start = f.let(i32.sub(i32.mul(x, strideX), left));
      const reach = i32.add(i32.mul(i32.sub(kernelWidth, 1), dilationX), 1);
      const span = f.let(i32.add(i32.mul(i32.sub(columns, 1), strideX), reach));
      const from = f.let(i32.maxS(start, 0));
      const count = f.let(i32.sub(i32.minS(width, i32.add(start, span)), from));
      const inner = f.let(i32.add(scratch, i32.shl(i32.sub(from, start), 2)));
      const nothing = f.let(identity);
      f.forRange(0, i32.add(span, 4), (i) => f.store(i32.add(scratch, i32.shl(i, 2)), nothing), { step: 4 });

      const { y: axisY, x: axisX } = windowAxes(parameters);
      // One over the columns that each window is of.
      const factors = f.let(i32.add(scratch, spanBytes));
      if (kind === "mean") {
        const window = windowLocals(f);
        f.forRange(0, columns, (i) => {
          setWindow(f, window, axisX, i32.add(x, i), countPadding);
          const factor = f32.div(f32.const(1), f32.convertI32S(window.counted));
          f.store(i32.add(factors, i32.shl(i, 2)), factor);
        });
      }

      const window = windowLocals(f);
      const rowBytes = f.let(i32.shl(width, shift));
      const tapBytes = f.let(i32.mul(parameters.dilationY, rowBytes));
      const to = f.let(i32.add(output, i32.shl(i32.add(i32.mul(row, outWidth), x), shift)));
      const toBytes = f.let(i32.shl(outWidth, shift));
      const atBytes = f.let(i32.mul(parameters.strideY, rowBytes));
      const reachY = f.let(i32.add(i32.mul(i32.sub(parameters.kernelHeight, 1), parameters.dilationY), 1));
      const scale = f.let(f32.const(1));
      const pairs = pairedWindows(f, { width, columns, start, kernelWidth, strideX, dilationX });
      const windows = windowsFunction(module, kind, dtype);
      const stepX = f.let(i32.shl(dilationX, 2));
      /** The rows, or with `paired` what `callPairs` leaves of them: rows without are 6% faster in a loop of their own. */
      const forRows = (paired: boolean) =>
        work.forRows(() => {
          setWindow(f, window, axisY, y, countPadding);
          const line = i32.add(window.start, i32.mul(window.first, parameters.dilationY));
          const place = i32.add(i32.mul(i32.add(i32.mul(plane, height), line), width), from);
          const at = f.let(i32.add(input, i32.shl(place, shift)));
          const left = f.let(i32.sub(window.end, window.first));
          if (kind === "mean") f.set(scale, f32.div(f32.const(1), f32.convertI32S(window.counted)));
          const join = { at, tapBytes, rows: left };
          if (paired) {
            const done = f.let(i32.const(0));
            // Rows that can be done together: all of whose windows are in the image, and are taken by pairs.
            const together = f.let(i32.const(1));
            f.if(i32.and(i32.eq(pairs, columns), i32.eq(left, parameters.kernelHeight)), () => {
              const room = i32.sub(i32.sub(height, window.start), reachY);
              f.set(together, i32.add(i32.divU(room, parameters.strideY), 1));
              f.set(together, i32.minU(together, i32.sub(outHeight, y)));
              f.set(together, i32.minU(together, i32.sub(rowEnd, row)));
            });
            for (const number of pairedSizes)
              f.if(i32.eq(left, number), () => {
                f.set(done, pairs);
                const first = f.let(i32.sub(at, i32.shl(i32.sub(from, start), shift)));
                for (const taps of pairedSizes)
                  f.if(i32.eq(kernelWidth, taps), () =>
                    callPairs(f, module, kind, dtype, [number, taps], {
                      ...{ to, at: first, start, tapBytes, count: pairs, factors, scale },
                      ...{ rows: together, toBytes, atBytes },
                    }),
                  );
                f.add(row, i32.sub(together, 1));
                f.add(y, i32.sub(together, 1));
                f.add(to, i32.mul(i32.sub(together, 1), toBytes));
              });
            f.if(i32.ltU(done, columns), () => {
              // Columns that only the windows before meet.
              const passed = f.let(i32.sub(i32.maxS(i32.add(start, i32.shl(done, 1)), from), from));
              f.add(at, i32.shl(passed, shift));
              const line = f.let(i32.add(inner, i32.shl(passed, 2)));
              joinRows(f, module, kind, dtype, { ...join, to: line, count: f.let(i32.sub(count, passed)) });
              f.call(
                windows,
                ...[i32.add(to, i32.shl(done, shift)), i32.add(scratch, i32.shl(done, 3))],
                ...[i32.sub(columns, done), kernelWidth, stepX, strideX],
                ...[i32.add(factors, i32.shl(done, 2)), scale],
              );
            });
          } else {
            joinRows(f, module, kind, dtype, { ...join, to: inner, count });
            f.call(windows, to, scratch, columns, kernelWidth, stepX, strideX, factors, scale);
          }
          f.add(to, toBytes);
        });
      f.if(
        pairs,
        () => forRows(true),
        () => forRows(false),
      );
    },
  });
}

/** to[i] = all of the rows from `at` on, `tapBytes` apart, up to three of them in one pass. */
function joinRows(
  f: FunctionBuilder,
  module: ModuleBuilder,
  kind: Pool2dKind,
  dtype: FloatType,
  {
    to,
    at,
    tapBytes,
    count,
    rows,
  }: Readonly<Record<"to" | "at" | "tapBytes" | "count" | "rows", Local<"i32">>>,
): void {
  const pass = (number: number, adds: boolean) => {
    f.call(joinFunction(module, kind, dtype, number, adds), to, at, tapBytes, count);
    f.add(at, i32.mul(tapBytes, number));
    f.add(rows, -number);
  };
  f.if(
    i32.geU(rows, 3),
    () => pass(3, false),
    () =>
      f.if(
        i32.eq(rows, 2),
        () => pass(2, false),
        () => pass(1, false),
      ),
  );
  f.while(i32.geU(rows, 2), () => pass(2, true));
  f.if(rows, () => pass(1, true));
}

/** to[i] = `number` rows put together, and with `adds` also what is there. */
function joinFunction(
  module: ModuleBuilder,
  kind: Pool2dKind,
  dtype: FloatType,
  number: number,
  adds: boolean,
): FunctionReference {
  const label = `pool_${kind}_join_${dtype}_${number}${adds ? "_more" : ""}`;
  return module.shared(label, (name) =>
    module.function(
      name,
      { to: "i32", at: "i32", tapBytes: "i32", count: "i32" },
      (f, { to, at, tapBytes, count }) => {
        const elements = elementsOf(f, dtype);
        const lanes = elementsOf(f, "f32");
        const { combine } = combinations[kind];
        const output = { at: to, elements: lanes };
        const rows = Array.from({ length: number }, (_, i) => ({
          at: f.let(i32.add(at, i32.mul(tapBytes, i))),
          elements,
        }));
        mapVectors(f, {
          count,
          inputs: adds ? [output, ...rows] : rows,
          output,
          compute: (...all) => all.reduce((a, b) => f.let(combine(f, a, b))),
          unroll: lineUnroll[dtype],
        });
      },
    ),
  );
}

/** Lanes of the columns from `at` on, `stride` apart. */
type LoadLanes = (at: Value<"i32">) => Value<"v128">;

/**
 * to[i] = the columns of window i in the row from `at` on, put together, and times its factor. The most frequent strides and
 * windows have loops of their own.
 */
function windowsFunction(module: ModuleBuilder, kind: Pool2dKind, dtype: FloatType): FunctionReference {
  return module.shared(`pool_${kind}_windows_${dtype}`, (name) =>
    module.function(
      name,
      {
        ...{ to: "i32", at: "i32", count: "i32", taps: "i32", tapBytes: "i32", stride: "i32" },
        ...{ factors: "i32", scale: "f32" },
      } as const,
      (f, { to, at, count, taps, tapBytes, stride, factors, scale }) => {
        const elements = elementsOf(f, dtype);
        const { combine } = combinations[kind];
        const result = f.local("v128");
        const remaining = f.let(count);
        const laneBytes = f.let(i32.shl(stride, 2));

        const scales = f.let(f32x4.splat(scale));
        const put = (sum: Value<"v128">): void =>
          f.set(result, kind === "max" ? sum : f32x4.mul(f32x4.mul(sum, v128.load(factors)), scales));
        const known = (load: LoadLanes, number: number): void => {
          let sum = f.let(load(at));
          const place = f.let(at);
          for (let tap = 1; tap < number; tap++) {
            f.add(place, tapBytes);
            sum = f.let(combine(f, sum, load(place)));
          }
          put(sum);
        };
        const any = (load: LoadLanes): void => {
          const sum = f.let(load(at));
          const place = f.let(i32.add(at, tapBytes));
          const end = f.let(i32.add(at, i32.mul(tapBytes, taps)));
          f.forLocal(place, end, () => f.set(sum, combine(f, sum, load(place))), { step: tapBytes });
          put(sum);
        };
        /** `bytes`: from four results to the next in the row. */
        const loop = (load: LoadLanes, emit: (load: LoadLanes) => void, bytes: Value<"i32">): void => {
          f.while(i32.gtS(remaining, 0), () => {
            emit(load);
            f.if(
              i32.geS(remaining, 4),
              () => elements.store(to, result),
              () => elements.storeFirst(to, result, remaining),
            );
            f.add(to, 4 * elements.bytes);
            f.add(factors, 16);
            f.add(at, bytes);
            f.add(remaining, -4);
          });
        };
        const bySize = (load: LoadLanes, bytes: Value<"i32">): void => {
          f.if(i32.eq(taps, 2), () => loop(load, (from) => known(from, 2), bytes));
          f.if(i32.eq(taps, 3), () => loop(load, (from) => known(from, 3), bytes));
          loop(load, any, bytes);
        };
        f.if(i32.eq(stride, 1), () => bySize((from) => v128.load(from), i32.const(16)));
        f.if(i32.eq(stride, 2), () =>
          bySize((from) => shuffle32([0, 2, 4, 6], v128.load(from), v128.load(from, 16)), i32.const(32)),
        );
        // Others: the last results one by one, so that nothing far behind the row is read.
        const lanes: LoadLanes = (from) => {
          const place = f.let(from);
          const vector = f.let(v128.load32Zero(place));
          for (const lane of [1, 2, 3]) {
            f.add(place, laneBytes);
            f.set(vector, v128.load32Lane(lane, place, vector));
          }
          return vector;
        };
        f.while(i32.geS(remaining, 4), () => {
          any(lanes);
          elements.store(to, result);
          f.add(to, 4 * elements.bytes);
          f.add(factors, 16);
          f.add(at, i32.shl(laneBytes, 2));
          f.add(remaining, -4);
        });
        f.while(i32.gtS(remaining, 0), () => {
          any((from) => v128.load32Splat(from));
          elements.storeFirst(to, result, i32.const(1));
          f.add(to, elements.bytes);
          f.add(factors, 4);
          f.add(at, laneBytes);
          f.add(remaining, -1);
        });
      },
    ),
  );
}
