import type { FloatType, Resize2dKind } from "@backplane/core";
import {
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
  type ResizingName,
  resizedAxes,
  resizingTypes,
} from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/index.js";
import { resultsAlong } from "./results.js";

export type RowsTypes = Readonly<
  Record<"outputGradient" | "inputGradient" | "taps" | "start" | ResizingName | PanelName, "i32">
>;

const rowsTypes: RowsTypes = {
  outputGradient: "i32",
  inputGradient: "i32",
  ...resizingTypes,
  /** Results along a row that are made of one element, at most; of pairs an even number. */
  taps: "i32",
  /** Of pairs: the first result of column i is the one at 2 i + start, if there were results everywhere. */
  start: "i32",
  /** Of rows of the input; panels have a multiple of 4 columns. */
  ...panelTypes,
};

/** Limits of `rowsKernel`: columns of a panel, results that these are part of, results of one column, and factors of a panel. */
export const rowsLimits = { columns: 512, results: 2048, taps: 512, factors: 8192 } as const;

/**
 * `pairs`: from column to column there are two more results, as in images twice as wide, so that vectors have the results of
 * four columns. `any`: each is loaded by itself.
 */
export type Step = "pairs" | "any";

/** Vectors reach past the last result. */
const slack = 32;
const sumBytes = 4 * (slack + rowsLimits.results + rowsLimits.taps + slack);
/** Of four columns: where the first results of each are, in bytes, and their factors, tap by tap. */
const recordBytes = 16;
const recordsBytes = (rowsLimits.columns / 4) * recordBytes + 4 * rowsLimits.factors;

/**
 * Planes one after the other, without channels between. The rows of results that are made of a row of the input become one, in
 * f32, times their factors; each column of the input is then the sum of its results there. Chunk: `rowsPerChunk` rows of the
 * input, or their part in one panel.
 */
export function rowsKernel(kind: Resize2dKind, dtype: FloatType, step: Step): Kernel<RowsTypes> {
  return defineKernel<RowsTypes>({
    name: `resize_gradient_${kind}_rows_${dtype}_${step}`,
    parameters: rowsTypes,
    scratchBytes: sumBytes + recordsBytes,
    emit(f, { parameters: p, chunk, scratch, module }) {
      const { shift } = elementsOf(f, dtype);
      const work = panelRows(f, p, chunk, p.height, p.width);
      const { x, columns, row, plane, y } = work;
      const axes = resizedAxes(p);
      const [along, over] = [resultsAlong(f, kind, axes.x), resultsAlong(f, kind, axes.y)];

      // The results that the panel is part of. Those that there are not stay 0.
      const column = f.let(i32.sub(i32.add(x, columns), 1));
      along.set(column);
      const resultEnd = f.let(along.end);
      f.set(column, x);
      along.set(column);
      const firstResult = f.let(along.first);
      const results = f.let(i32.sub(resultEnd, firstResult));
      const origin = f.let(step === "pairs" ? i32.add(i32.shl(x, 1), p.start) : firstResult);
      const sums = f.let(i32.add(scratch, 4 * slack));
      const held = f.let(i32.add(sums, i32.shl(i32.sub(firstResult, origin), 2)));
      const records = f.let(i32.add(scratch, sumBytes));
      f.memoryFill(scratch, 0, sumBytes);
      writeRecords();

      const v = f.local("i32");
      const to = f.let(i32.add(p.inputGradient, i32.shl(i32.add(i32.mul(row, p.width), x), shift)));
      const lineBytes = f.let(i32.shl(p.outWidth, shift));
      const from = f.local("i32");
      work.forRows(() => {
        over.set(y);
        f.if(i32.gtS(results, 0), () => {
          f.set(v, over.first);
          const line = i32.mul(i32.add(i32.mul(plane, p.outHeight), v), p.outWidth);
          f.set(from, i32.add(p.outputGradient, i32.shl(i32.add(line, firstResult), shift)));
          // One row after the other: two at a time, which lie side by side in memory, take up to 1.5 times as long.
          const pass = (adds: boolean) => {
            const factor = over.factorOf(v, y);
            f.call(joinFunction(module, dtype, adds), held, from, factor, results);
            f.add(from, lineBytes);
            f.add(v, 1);
          };
          f.if(
            i32.ltS(v, over.end),
            () => pass(false),
            () => f.memoryFill(held, 0, i32.shl(results, 2)),
          );
          f.while(i32.ltS(v, over.end), () => pass(true));
        });
        f.call(gatherFunction(module, dtype, step), to, sums, records, p.taps, columns);
        f.add(to, i32.shl(p.width, shift));
      });

      function writeRecords(): void {
        const size = f.let(i32.add(recordBytes, i32.shl(p.taps, 4)));
        const whole = f.let(i32.and(i32.add(columns, 3), -4));
        f.forRange(0, whole, (i) => {
          const record = i32.add(records, i32.mul(i32.shrU(i, 2), size));
          const slot = f.let(i32.add(record, i32.shl(i32.and(i, 3), 2)));
          f.set(column, i32.add(x, i));
          // Columns behind the last have no results.
          f.if(
            i32.ltU(i, columns),
            () => along.set(column),
            () => f.set(along.end, along.first),
          );
          const start = step === "pairs" ? i32.add(i32.shl(column, 1), p.start) : along.first;
          const result = f.let(start);
          f.store(slot, i32.shl(i32.sub(result, origin), 2));
          f.forRange(0, p.taps, () => {
            f.add(slot, recordBytes);
            const factor = f.let(f32.const(0));
            const isThere = i32.and(i32.geS(result, along.first), i32.ltS(result, along.end));
            f.if(isThere, () => f.set(factor, along.factorOf(result, column)));
            f.store(slot, factor);
            f.add(result, 1);
          });
        });
      }
    },
  });
}

/** to[i] = factor from[i], and with `adds` also what is there. */
function joinFunction(module: ModuleBuilder, dtype: FloatType, adds: boolean): FunctionReference {
  return module.shared(`resize_gradient_join_${dtype}${adds ? "_more" : ""}`, (name) =>
    module.function(
      name,
      { to: "i32", from: "i32", factor: "f32", count: "i32" },
      (f, { to, from, factor, count }) => {
        const factors = f.let(f32x4.splat(factor));
        const output = { at: to, elements: elementsOf(f, "f32") };
        const input = { at: from, elements: elementsOf(f, dtype) };
        mapVectors(f, {
          ...{ count, output, unroll: lineUnroll[dtype] },
          inputs: adds ? [input, output] : [input],
          compute: (x, sum) => (sum === undefined ? f32x4.mul(x!, factors) : f.multiplyAdd(x!, factors, sum)),
        });
      },
    ),
  );
}

/** Lanes of the results of four columns. */
type LoadTap = (bytes: Local<"i32">) => Value<"v128">;

/** to[i] = the sum of the results of column i, times their factors. What has no factor has no effect, whatever it is. */
function gatherFunction(module: ModuleBuilder, dtype: FloatType, step: Step): FunctionReference {
  return module.shared(`resize_gradient_gather_${dtype}_${step}`, (name) =>
    module.function(
      name,
      { to: "i32", sums: "i32", records: "i32", taps: "i32", count: "i32" },
      (f, { to, sums, records, taps, count }) => {
        const elements = elementsOf(f, dtype);
        const none = f.let(f32x4.const(0));
        const factorBytes = f.let(i32.shl(taps, 4));
        const [sum, end] = [f.local("v128"), f.local("i32")];
        const remaining = f.let(count);
        const places = [0, 1, 2, 3].map(() => f.local("i32"));
        const add = (values: Value<"v128">, offset = 0): void => {
          const factor = f.let(v128.load(records, offset));
          const counts = f32x4.ne(factor, none);
          f.set(sum, f32x4.add(sum, v128.and(f32x4.mul(values, factor), counts)));
        };
        const lanes: LoadTap = (tap) => {
          const vector = f.let(v128.load32Zero(i32.add(places[0]!, tap)));
          for (const lane of [1, 2, 3])
            f.set(vector, v128.load32Lane(lane, i32.add(places[lane]!, tap), vector));
          return vector;
        };
        const tap = f.local("i32");
        f.while(i32.gtS(remaining, 0), () => {
          for (const [lane, place] of places.entries())
            if (lane === 0 || step === "any") f.set(place, i32.add(sums, i32.load(records, 4 * lane)));
          f.add(records, recordBytes);
          f.set(end, i32.add(records, factorBytes));
          f.set(sum, none);
          f.set(tap, 0);
          f.while(i32.ltU(records, end), () => {
            if (step === "any") {
              add(lanes(tap));
              f.add(tap, 4);
              f.add(records, recordBytes);
            } else {
              const first = f.let(v128.load(places[0]!));
              const second = f.let(v128.load(places[0]!, 16));
              add(shuffle32([0, 2, 4, 6], first, second));
              add(shuffle32([1, 3, 5, 7], first, second), recordBytes);
              f.add(places[0]!, 8);
              f.add(records, 2 * recordBytes);
            }
          });
          f.if(
            i32.geS(remaining, 4),
            () => elements.store(to, sum),
            () => elements.storeFirst(to, sum, remaining),
          );
          f.add(to, 4 * elements.bytes);
          f.add(remaining, -4);
        });
      },
    ),
  );
}
