import type { MapElementType, MapStep } from "@backplane/core";
import {
  type FunctionBuilder,
  f32,
  f32x4,
  i32,
  i32x4,
  type Local,
  type ModuleBuilder,
  v128,
} from "../../wasm/index.js";
import { binaryFunctions } from "../binary/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
import { lateExport } from "../instance.js";
import { unaryFunctions } from "../unary/index.js";
import { mapToVectors, Odometer, rowsOfChunk, type Stream } from "../vector/index.js";
import { expression } from "./expression.wasm.js";

/** The properties of one generated kernel; everything else is a parameter. */
export interface MapTile {
  readonly steps: readonly MapStep[];
  readonly inputs: readonly {
    readonly dtype: MapElementType;
    /** Whether the innermost axis repeats one element. */
    readonly repeats: boolean;
  }[];
  readonly outputs: readonly { readonly dtype: MapElementType; readonly result: number }[];
  /** The type of each parameter. */
  readonly parameters: readonly ("f32" | "i32" | "u32")[];
  /** Axes, of which the last is the innermost one. */
  readonly axes: number;
  /** The first word of the block is the address of the words, for there are more than a block holds. */
  readonly indirect: boolean;
}

/** Words in front of those of inputs, outputs, parameters, and of the axes but the innermost one, see `mapWords`. */
export const headWords = 5;

/** How long the expression takes for one element, roughly, in nanoseconds on one worker. */
export function nanosecondsOf(steps: readonly MapStep[]): number {
  return steps.reduce((sum, step) => sum + (isLong(step) ? 0.9 : 0.05), 0.1);
}

function isLong(step: MapStep): boolean {
  if (step.step === "unary") return unaryFunctions[step.kind][step.of]!.unroll === 1;
  return step.step === "binary" && binaryFunctions[step.kind][step.of]!.unroll === 1;
}

/** Vectors per round: several of short expressions, as in `mapVectors`. */
function unrollOf({ steps, inputs, outputs }: MapTile): number {
  const isConverted = [...inputs, ...outputs].some(({ dtype }) => dtype === "f16" || dtype === "u8");
  if (isConverted || steps.some(isLong)) return 1;
  const work = steps.filter(({ step }) => step === "unary" || step === "binary" || step === "select").length;
  return work <= 8 ? 4 : work <= 16 ? 2 : 1;
}

/** Numbers that follow one another, as if they were elements of a byte each: an address is the first number. */
function countedElements(f: FunctionBuilder): Elements {
  const lanes = f.let(i32x4.const(0, 1, 2, 3));
  const missing = (): never => {
    throw new Error("places along an axis are only read");
  };
  return {
    ...{ bytes: 1, shift: 0, converted: false, lanes: "i32" },
    load: (place, offset = 0) => {
      const first =
        typeof place === "number" ? place + offset : offset === 0 ? place : i32.add(place, offset);
      return i32x4.add(i32x4.splat(first), lanes);
    },
    loadSplat: (place) => i32x4.splat(place),
    ...{ store: missing, storeFirst: missing },
  };
}

/**
 * Emits outputs[j] = results[j] of the expression: the outer axes are walked along with a byte step for each input;
 * along the innermost axis an input follows the outputs element by element, or repeats one element.
 */
export function emitMap(module: ModuleBuilder, tile: MapTile): void {
  const types = { block: "i32", chunk: "i32", scratch: "i32", worker: "i32" } as const;
  module.function(
    lateExport,
    types,
    (f, { block, chunk, scratch }) => {
      const base = tile.indirect ? f.let(i32.load(block)) : block;
      let words = 0;
      const word = (): Local<"i32"> => f.let(i32.load(base, 4 * words++));
      const head = {
        ...{ inner: word(), rows: word() },
        ...{ rowsPerChunk: word(), chunkElements: word(), chunksPerRow: word() },
      };
      const from = tile.inputs.map(word);
      const to = tile.outputs.map(word);
      const parameters = tile.parameters.map((type) =>
        f.let(
          type === "f32" ? f32x4.splat(f32.load(base, 4 * words++)) : v128.load32Splat(base, 4 * words++),
        ),
      );
      const axes = Array.from({ length: tile.axes - 1 }, () => ({
        extent: word(),
        steps: tile.inputs.map(word),
      }));
      const memoized = new Map<MapElementType, Elements>();
      const elements = (dtype: MapElementType): Elements => {
        const known = memoized.get(dtype) ?? elementsOf(f, dtype);
        memoized.set(dtype, known);
        return known;
      };
      for (const { dtype } of [...tile.inputs, ...tile.outputs]) elements(dtype);
      const counted = tile.steps.flatMap((step) => (step.step === "index" ? [step.axis] : []));
      const counts = counted.includes(tile.axes - 1) ? countedElements(f) : undefined;
      /** The place along each outer axis, the same for a row. */
      const along = axes.map((_, axis) => (counted.includes(axis) ? f.local("v128") : undefined));
      const compute = expression(
        f,
        tile.steps,
        tile.outputs.map(({ result }) => result),
        { scratch, parameters, along: (axis) => along[axis] },
      );

      const { row, rowEnd, begin, count } = rowsOfChunk(f, head, chunk);
      const odometer = new Odometer(f, axes, tile.inputs.length);
      odometer.seek(f.let(row));

      f.forLocal(row, rowEnd, () => {
        for (const [axis, place] of along.entries())
          if (place !== undefined) f.set(place, i32x4.splat(odometer.counters[axis]!));
        const inputs = tile.inputs.map(({ dtype, repeats }, i) => {
          const own = elements(dtype);
          const start = i32.add(from[i]!, odometer.offsets[i]!);
          if (repeats) return f.let(own.loadSplat(start));
          return { at: f.let(i32.add(start, i32.shl(begin, own.shift))), elements: own };
        });
        const first = f.let(i32.add(i32.mul(row, head.inner), begin));
        const outputs = tile.outputs.map(({ dtype }, j): Stream => {
          const own = elements(dtype);
          return { at: f.let(i32.add(to[j]!, i32.shl(first, own.shift))), elements: own };
        });
        const place: readonly Stream[] = counts === undefined ? [] : [{ at: f.let(begin), elements: counts }];
        mapToVectors(f, {
          ...{ count, outputs, inputs: [...inputs, ...place] },
          compute: (...values) => compute(values, values[inputs.length]),
          unroll: unrollOf(tile),
          parts: inputs.length + outputs.length <= 4 ? 2 : 1,
        });
        odometer.next();
      });
    },
    { export: true },
  );
}
