import type { GemmProblem } from "@backplane/core";
import { type FunctionReference, i32, type ModuleBuilder } from "../../wasm/index.js";
import { elementBytes } from "./variants.js";

/** Rows of B, stored k x n, that are called from memory together. */
export const rowsCalled = 16;
/** Bytes of B from which on it is taken to come from memory: calls to what the cache holds cost up to a tenth. */
const bytesInMemory = 1 << 24;
/** Fewer rows leave so little to do in between that some processors, which read ahead by themselves, lose by calls. */
const fewestRows = 8;
const lineBytes = 64;

/** Whether a product of a few rows calls B in advance. The few in f16 do not wait for memory, but for widening. */
export function worthCalling({
  dtype,
  m,
  n,
  k,
  batch,
  transB,
}: Pick<GemmProblem<unknown>, "dtype" | "m" | "n" | "k" | "batch" | "transB">): boolean {
  return dtype === "f32" && m >= fewestRows && !transB && k * n * batch * elementBytes.f32 >= bytesInMemory;
}

/**
 * call(b, stride, columns, spare) loads something of each cache line of `rowsCalled` rows of B in f32, so that many
 * lines are on their way from memory at once. Products have few loads under way, as those of a line wait
 * behind the multiply-adds of the line before it: on AMD EPYC (Zen 4) 8 to 16 rows are 10 to 12% slower
 * without, 32 rows 2%; on a server processor of another kind 8 rows are not, 16 rows 3% and 32 rows 7%.
 * What is loaded ends in `spare` (4 bytes), lest an engine leave it out.
 */
export function callRows(module: ModuleBuilder): FunctionReference {
  return module.shared("gemm_call_rows", (label) =>
    module.function(
      label,
      { b: "i32", stride: "i32", columns: "i32", spare: "i32" },
      (f, { b, stride, columns, spare }) => {
        const all = f.let(i32.const(0));
        const callLines = (): void => {
          const at = f.let(b);
          for (let row = 0; row < rowsCalled; row++) {
            f.set(all, i32.or(all, i32.load(at)));
            f.add(at, stride);
          }
          f.add(b, lineBytes);
        };
        f.forRange(0, columns, callLines, { step: lineBytes / elementBytes.f32 });
        f.store(spare, all);
      },
    ),
  );
}
