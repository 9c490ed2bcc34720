import type { GemmProblem } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { ProductTile } from "../tiles/index.js";
import { type GemmForm, tiledProgram } from "./gemm.wgsl.js";
import { kMajorProgram, packGroups } from "./kmajor.wgsl.js";
import type { GemmShape } from "./shape.js";
import { type StoredOperand, storedOperand } from "./stored.js";

type Problem = GemmProblem<DeviceMemory>;

/** The products of packed operands take k in multiples of this: two steps of their tiles. */
const WHOLE_DEPTH = 16;

/** `k` with the zeros after it. */
function packedDepth(k: number): number {
  return Math.ceil(k / WHOLE_DEPTH) * WHOLE_DEPTH;
}

/** Whether an operand can be taken as it is: f32, one stored row for each k, in whole, aligned runs of four. */
function isKMajor(shape: GemmShape, name: "a" | "b"): boolean {
  const { dtype, k, transA, transB, vectorA, vectorB } = shape;
  return dtype === "f32" && k % WHOLE_DEPTH === 0 && (name === "a" ? transA && vectorA : !transB && vectorB);
}

/** Returns the scratch for a copy of an operand in all matrices of a batch, in bytes; 0 if no copy is made. */
function packedBytes(shape: GemmShape, name: "a" | "b"): number {
  const lines = name === "a" ? shape.m : shape.n;
  return isKMajor(shape, name) ? 0 : 4 * shape.batch * packedDepth(shape.k) * packedPitch(lines);
}

/** Largest scratch of a product with packed operands, in bytes: as much as is kept for the next call by default. */
const MOST_PACKED = 2 ** 29;

/** Multiplications of a large product in a microsecond, on an NVIDIA H200. */
const MULTIPLICATIONS = 24.5e6;

/** Microseconds that a copy takes however small it is. */
const COPYING = 3;

/**
 * Returns the time of copies of the operands, relative to the product. Each number of A is used n times, and
 * copying it takes an NVIDIA H200 as long as 46 multiplications.
 */
function packingShare(shape: GemmShape): number {
  return (isKMajor(shape, "a") ? 0 : 46 / shape.n) + (isKMajor(shape, "b") ? 0 : 46 / shape.m);
}

/** Returns the microseconds for copies of the operands there, and for rounding the sums if they are f16. */
export function copyTime(shape: GemmShape): number {
  const { dtype, m, n, k, batch } = shape;
  const copies = (isKMajor(shape, "a") ? 0 : COPYING) + (isKMajor(shape, "b") ? 0 : COPYING);
  const share = packingShare(shape) + (dtype === "f16" ? 46 / k : 0);
  return copies + (share * batch * m * n * k) / MULTIPLICATIONS;
}

/** Whether there is room for copies, and for the sums if they have to be rounded to f16. */
function hasRoomForCopies(shape: GemmShape, { limits }: DeviceFeatures): boolean {
  const [a, b] = [packedBytes(shape, "a"), packedBytes(shape, "b")];
  const sums = 4 * shape.batch * shape.m * packedPitch(shape.n);
  return (
    a + b + (shape.dtype === "f16" ? sums : 0) <= MOST_PACKED &&
    Math.max(a, b, sums) <= limits.maxStorageBufferBindingSize
  );
}

/** Multiplications from which copies are worth the wait for further dispatches. */
const LARGE_PRODUCT = 1.5e9;

/** Whether quads are unpacked, turned or gathered on their way to workgroup memory, unless they are copied before. */
export function isAwkward({ dtype, transB, vectorA, vectorB }: GemmShape): boolean {
  return dtype === "f16" || transB || !vectorA || !vectorB;
}

/**
 * Whether a product is large enough to consider copies of its operands, and there is room for them. A
 * comparison with other tiles (`expectedTime`) shows whether they pay. Other tiles are fastest
 * if A is stored transposed, which that comparison does not know.
 */
export function allowsCopies(shape: GemmShape, features: DeviceFeatures): boolean {
  const { m, n, k, batch, transA } = shape;
  return (
    k >= 256 &&
    batch * m * n * k >= LARGE_PRODUCT &&
    packingShare(shape) <= (transA && !isAwkward(shape) ? 0 : 0.09) &&
    hasRoomForCopies(shape, features) &&
    !features.family?.isEmulated
  );
}

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

/** Returns the elements from one k to the next in a packed operand of this many lines; whole quads. */
export function packedPitch(lines: number): number {
  return 4 * Math.ceil(lines / 4);
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
