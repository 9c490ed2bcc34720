import { type FunctionBuilder, i32, type Local, select, type Value } from "../../wasm/index.js";
import type { ComputedType } from "../elements/index.js";
import { defineKernel, type Kernel, type ParameterLocals } from "../kernel.js";
import {
  addRecord,
  keyOf,
  type LineParameter,
  lineOf,
  lineTypes,
  recordBytes,
  sortRecords,
  sortScratchBytes,
  type WordTypes,
  writeResults,
} from "./records.wasm.js";

/** `work`: `workBytes` for each worker, or for each chunk if there are fewer (`byChunk`). */
export type WorkParameter = "work" | "workBytes" | "byChunk";

export const workParameters: readonly WorkParameter[] = ["work", "workBytes", "byChunk"];

/** Where a chunk's memory is. */
export function workOf(
  p: ParameterLocals<WordTypes<WorkParameter>>,
  chunk: Local<"i32">,
  worker: Local<"i32">,
): Value<"i32"> {
  return i32.add(p.work, i32.mul(select<"i32">(chunk, worker, p.byChunk), p.workBytes));
}

export type LinesTypes = WordTypes<LineParameter | WorkParameter | "lines" | "perChunk">;

const linesTypes: LinesTypes = lineTypes(...workParameters, "lines", "perChunk");

/** The bytes in which one line is sorted: its records, twice. */
export function lineWorkBytes(length: number): number {
  return 2 * recordBytes * length;
}

/** A chunk sorts some lines, each by itself. */
export function sortLinesKernel(dtype: ComputedType): Kernel<LinesTypes> {
  return defineKernel<LinesTypes>({
    name: `sort_lines_${dtype}`,
    parameters: linesTypes,
    scratchBytes: sortScratchBytes,
    emit(f, { parameters: p, chunk, scratch, worker, module }) {
      const from = f.let(workOf(p, chunk, worker));
      const to = f.let(i32.add(from, i32.mul(p.length, recordBytes)));
      forUnits(f, chunk, p.lines, p.perChunk, (number) => {
        const line = lineOf(f, dtype, p, number);
        const at = f.let(line.at);
        const end = f.let(from);
        f.forRange(0, p.length, (j) => {
          addRecord(f, end, keyOf(f, dtype, at, p), j);
          f.add(at, line.step);
        });
        const sorted = f.let(sortRecords(module, dtype, { from, to, count: p.length, scratch }));
        writeResults(f, dtype, p, line, sorted, i32.const(0), p.count);
      });
    },
  });
}

/** Does the units of a chunk. */
export function forUnits(
  f: FunctionBuilder,
  chunk: Local<"i32">,
  units: Local<"i32">,
  perChunk: Local<"i32">,
  body: (unit: Local<"i32">) => void,
): void {
  const unit = f.let(i32.mul(chunk, perChunk));
  const end = f.let(i32.add(unit, i32.minU(i32.sub(units, unit), perChunk)));
  f.forLocal(unit, end, () => body(unit));
}
