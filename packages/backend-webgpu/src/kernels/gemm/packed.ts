import type { GemmProblem } from "@backplane/core";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { ProductTile } from "../tiles/index.js";
import { isKMajor, packedDepth, packedPitch } from "./copies.js";
import { type GemmForm, tiledProgram } from "./gemm.wgsl.js";
import { kMajorProgram, packGroups } from "./kmajor.wgsl.js";
import type { GemmShape } from "./shape.js";
import { type StoredOperand, storedOperand } from "./stored.js";

type Problem = GemmProblem<DeviceMemory>;

/** Returns an operand as `isKMajor` requires, k padded with zeros: the operand itself or a copy in scratch. */
function inKMajor(
  context: KernelContext,
  problem: Problem,
  name: "a" | "b",
  shape: GemmShape,
): StoredOperand {
  const stored = storedOperand(problem, name);
  if (isKMajor(shape, name)) return stored;
  const { dtype, m, n, k, transA, transB } = problem;
  const { region, ld, step } = stored;
  const lines = name === "a" ? m : n;
  const matrices = step === 0 ? 1 : problem.batch;
  const [rows, pitch] = [packedDepth(k), packedPitch(lines)];
  const form = {
    dtype,
    contiguousDepth: name === "a" ? !transA : transB,
    vector: name === "a" ? shape.vectorA : shape.vectorB,
  };
  const packed = context.scratch(4 * matrices * rows * pitch);
  context.dispatch(
    kMajorProgram(form),
    { source: region, packed },
    { lines, k, packed_k: rows, pitch: ld, step, matrices },
    packGroups(form, lines, rows, matrices),
  );
  return { region: packed, rows, columns: pitch, ld: pitch, step: step === 0 ? 0 : rows * pitch };
}

/** One text for all: another program does everything that follows a sum. */
const form: GemmForm = {
  ...{ dtype: "f32", target: "matrix", readsC: false, vectorC: true, sumsOnly: true },
  ...{ transA: true, transB: false, vectorA: true, vectorB: true },
};

/**
 * sums[i] = op(A[i]) * op(B[i]) in f32, rows `pitch` and matrices `step` elements apart, both multiples of four;
 * rows are written to the end of their last quad.
 */
export function enqueuePacked(
  context: KernelContext,
  problem: Problem,
  shape: GemmShape,
  tile: ProductTile,
  sums: BufferRegion,
  pitch: number,
  step: number,
): void {
  const { m, n, batch } = problem;
  const k = packedDepth(problem.k);
  const a = inKMajor(context, problem, "a", shape);
  const b = inKMajor(context, problem, "b", shape);
  context.dispatch(
    tiledProgram(tile, form),
    { a: a.region, b: b.region, c: sums },
    {
      ...{ m, n, k, batch, part_depth: k, alpha: 1, beta: 0, c_pitch: pitch, c_step: step },
      ...{ a_pitch: a.ld, a_step: a.step, b_pitch: b.ld, b_step: b.step },
    },
    batch * Math.ceil(m / tile.rows) * Math.ceil(n / tile.columns),
  );
}
