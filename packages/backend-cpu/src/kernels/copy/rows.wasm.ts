import type { DType } from "@backplane/core";
import {
  type FunctionBuilder,
  i8x16,
  i32,
  type Local,
  type Value,
  type VectorFunction,
  v128,
} from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { emitMove, moveOne } from "../memory/index.js";
import { Odometer } from "../vector/index.js";
import { conversion, type Packed, packedElements } from "./convert.js";

/** Axes outside of a row. */
export const outerAxes: number = 7;

type AxisKeys = `${"extent" | "from" | "to"}${number}`;

export type RowTypes = Readonly<
  Record<
    | "input"
    | "output"
    | "length"
    | "from"
    | "to"
    | "rows"
    | "rowsPerChunk"
    | "elementsPerChunk"
    | "chunksPerRow"
    | AxisKeys,
    "i32"
  >
>;

const parameterTypes = {
  /** Addresses of the first elements. */
  ...{ input: "i32", output: "i32" },
  /** Elements of a row, and the bytes from each to the next, which may be negative. */
  ...{ length: "i32", from: "i32", to: "i32" },
  /** Product of the other extents. */
  rows: "i32",
  /** A chunk has this part of each of these rows. */
  ...{ rowsPerChunk: "i32", elementsPerChunk: "i32", chunksPerRow: "i32" },
  /** The other axes, the fastest last, with the bytes of a step. */
  ...(Object.fromEntries(
    Array.from({ length: outerAxes }, (_, axis) => [
      [`extent${axis}`, "i32"],
      [`from${axis}`, "i32"],
      [`to${axis}`, "i32"],
    ]).flat(),
  ) as Record<AxisKeys, "i32">),
} as const as RowTypes;

/** One row, or a part of it. The locals are used up. */
interface Row {
  readonly at: Local<"i32">;
  readonly out: Local<"i32">;
  readonly count: Local<"i32">;
  readonly from: Local<"i32">;
  readonly to: Local<"i32">;
}

function rowsKernel(name: string, emitRow: (f: FunctionBuilder) => (row: Row) => void): Kernel<RowTypes> {
  return defineKernel<RowTypes>({
    name,
    parameters: parameterTypes,
    emit(f, { parameters, chunk }) {
      const { length, rows, rowsPerChunk, elementsPerChunk, chunksPerRow, from, to } = parameters;
      const emit = emitRow(f);
      const row = f.let(i32.mul(i32.divU(chunk, chunksPerRow), rowsPerChunk));
      const rowEnd = f.let(i32.add(row, i32.minU(i32.sub(rows, row), rowsPerChunk)));
      const begin = f.let(i32.mul(i32.remU(chunk, chunksPerRow), elementsPerChunk));
      const input = f.let(i32.add(parameters.input, i32.mul(begin, from)));
      const output = f.let(i32.add(parameters.output, i32.mul(begin, to)));
      const count = f.let(i32.minU(i32.sub(length, begin), elementsPerChunk));
      const odometer = new Odometer(
        f,
        Array.from({ length: outerAxes }, (_, axis) => ({
          extent: parameters[`extent${axis}`]!,
          steps: [parameters[`from${axis}`]!, parameters[`to${axis}`]!],
        })),
        2,
      );
      odometer.seek(f.let(row));
      const [offset, outputOffset] = odometer.offsets as [Local<"i32">, Local<"i32">];
      const [at, out, left] = [f.local("i32"), f.local("i32"), f.local("i32")];
      f.forLocal(row, rowEnd, () => {
        f.set(at, i32.add(input, offset));
        f.set(out, i32.add(output, outputOffset));
        f.set(left, count);
        emit({ at, out, count: left, from, to });
        odometer.next();
      });
    },
  });
}

/** Rows of elements of one size, whose bits stay as they are. */
export function movingKernel(bytes: 1 | 2 | 4): Kernel<RowTypes> {
  const lanes = 16 / bytes;
  const reversed = Array.from({ length: lanes }, (_, lane) =>
    Array.from({ length: bytes }, (_, byte) => bytes * (lanes - 1 - lane) + byte),
  ).flat();
  const splats = { 1: v128.load8Splat, 2: v128.load16Splat, 4: v128.load32Splat } as const;
  return rowsKernel(`copy_rows_${bytes}`, (f) => ({ at, out, count, from, to }) => {
    const follows = (step: Value<"i32">) => i32.eq(step, bytes);
    const vectors = (load: () => Value<"v128">, step: number) =>
      f.while(i32.geU(count, lanes), () => {
        f.store(out, load());
        f.add(at, step);
        f.add(out, 16);
        f.set(count, i32.sub(count, lanes));
      });
    f.if(follows(to), () => {
      f.if(follows(from), () => {
        emitMove(f, at, out, f.let(i32.mul(count, bytes)));
        f.set(count, 0);
      });
      f.if(i32.eq(from, -bytes), () =>
        vectors(() => {
          const vector = f.let(v128.load(i32.sub(at, 16 - bytes)));
          return i8x16.shuffle(reversed, vector, vector);
        }, -16),
      );
      f.if(i32.eqz(from), () => {
        const vector = f.let(splats[bytes](at));
        vectors(() => vector, 0);
      });
    });
    const single = () => {
      moveOne(f, bytes, out, at);
      f.add(at, from);
      f.add(out, to);
    };
    f.while(i32.geU(count, 4), () => {
      for (let i = 0; i < 4; i++) single();
      f.set(count, i32.sub(count, 4));
    });
    f.while(count, () => {
      single();
      f.set(count, i32.sub(count, 1));
    });
  });
}

/** Rows of one element type that become another. */
export function convertingKernel(from: DType, to: DType): Kernel<RowTypes> {
  const source = packedElements(from);
  const target = packedElements(to);
  return rowsKernel(`copy_rows_${from}_${to}`, (f) => {
    const convert = conversion(f, from, to);
    return (row) => {
      const { at, out, count } = row;
      const isPlain = i32.and(i32.eq(row.from, source.bytes), i32.eq(row.to, target.bytes));
      f.if(isPlain, () => {
        for (const vectors of [4, 1])
          f.while(i32.geU(count, 4 * vectors), () => {
            for (let i = 0; i < vectors; i++)
              target.store(f, out, convert(source.load(at, 4 * i * source.bytes)), 4 * i * target.bytes);
            f.add(at, 4 * vectors * source.bytes);
            f.add(out, 4 * vectors * target.bytes);
            f.set(count, i32.sub(count, 4 * vectors));
          });
      });
      emitGathered(f, row, source, target, convert);
    };
  });
}

/** Converts elements that lie anywhere, four at a time and then one by one. */
function emitGathered(
  f: FunctionBuilder,
  { at, out, count, from, to }: Row,
  source: Packed,
  target: Packed,
  convert: VectorFunction,
): void {
  const gathered = f.local("v128");
  const round = (elements: 4 | 1) => {
    for (let lane = 0; lane < elements; lane++) {
      f.set(gathered, source.loadLane(lane, at, gathered));
      f.add(at, from);
    }
    const result = f.let(convert(gathered));
    for (let lane = 0; lane < elements; lane++) {
      f.storeLane((8 * target.bytes) as 8 | 16 | 32, lane, out, result);
      f.add(out, to);
    }
    f.set(count, i32.sub(count, elements));
  };
  f.while(i32.geU(count, 4), () => round(4));
  f.while(count, () => round(1));
}
