import type { DType, GemmProblem } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i32,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../convert/elements.js";
import type { EpilogueParameters } from "../epilogue.js";
import {
  address,
  type CpuMemory,
  defineKernel,
  type Kernel,
  type Launch,
  type PlanContext,
} from "../kernel.js";
import { finishRows } from "./finish.js";
import { linesOfA, linesOfB } from "./lines.js";
import { elementBytes, skinnyProductNanoseconds } from "./variants.js";

/**
 * gemm with few rows, down to a vector times a matrix. Packing would read and write all of B in order
 * to use it once or twice; here B is read where it lies, once, straight ahead.
 *
 * A chunk computes some columns of C. Sums are kept in f32 in the scratch.
 */

/** More rows than these are worth packing for. B in f16 would be widened again for each row. */
const mostRows: Readonly<Record<DType, number>> = { f32: 8, f16: 1 };
/** Fewer columns than this are not worth it: the vectors would be mostly empty. */
const fewestColumns = 16;
/** Columns of a chunk, at most: with four rows of B they stay in the first-level cache. */
const mostColumns = 1024;
const leastColumns = 64;
const sumsStride = 4 * mostColumns;

const skinnyTypes = {
  m: "i32",
  n: "i32",
  k: "i32",
  /** Bytes from row to row, along k, and from matrix to matrix. */
  a: "i32",
  aRow: "i32",
  aK: "i32",
  aBatch: "i32",
  /** Bytes from one stored row to the next. */
  b: "i32",
  bStride: "i32",
  bBatch: "i32",
  c: "i32",
  stride: "i32",
  cBatch: "i32",
  alpha: "f32",
  beta: "f32",
  chunkColumns: "i32",
  columnChunks: "i32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

type SkinnyKernel = Kernel<typeof skinnyTypes>;

/** By element type, and by whether B is stored transposed (n x k) or not (k x n). */
export const skinnyKernels: Readonly<Record<DType, Readonly<Record<"stored" | "transposed", SkinnyKernel>>>> =
  {
    f32: { stored: skinnyKernel("f32", "stored"), transposed: skinnyKernel("f32", "transposed") },
    f16: { stored: skinnyKernel("f16", "stored"), transposed: skinnyKernel("f16", "transposed") },
  };

type I32 = Local<"i32">;
type Multiply = (a: Value<"v128">, b: Value<"v128">, sum: Value<"v128">) => Value<"v128">;

interface Sums
  extends Readonly<Record<"m" | "k" | "columns" | "a" | "aRow" | "aK" | "b" | "bStride" | "sums", I32>> {
  readonly elements: Elements;
  readonly multiplyAdd: Multiply;
}

function skinnyKernel(dtype: DType, b: "stored" | "transposed"): SkinnyKernel {
  return defineKernel({
    name: `gemm_skinny_${dtype}_${b}`,
    parameters: skinnyTypes,
    scratchBytes: mostRows[dtype] * sumsStride,
    emit(f, { parameters, chunk, scratch, features, module }) {
      const elements = elementsOf(f, dtype);
      const { m, n, k, aRow, aK, bStride, alpha, beta, chunkColumns, columnChunks } = parameters;
      const matrix = f.let(i32.divU(chunk, columnChunks));
      const first = f.let(i32.mul(i32.remU(chunk, columnChunks), chunkColumns));
      const columns = f.let(i32.minU(i32.sub(n, first), chunkColumns));
      const columnStep = b === "stored" ? i32.const(elements.bytes) : bStride;
      const at = (base: I32, batch: I32, offset: Value<"i32">): I32 =>
        f.let(i32.add(base, i32.add(i32.mul(matrix, batch), offset)));
      const sums: Sums = {
        a: at(parameters.a, parameters.aBatch, i32.const(0)),
        b: at(parameters.b, parameters.bBatch, i32.mul(first, columnStep)),
        multiplyAdd: features.relaxedSimd
          ? f32x4.relaxedMadd
          : (x, y, sum) => f32x4.add(sum, f32x4.mul(x, y)),
        m,
        k,
        columns,
        aRow,
        aK,
        bStride,
        sums: scratch,
        elements,
      };
      if (b === "stored") addRows(f, sums);
      else multiplyColumns(f, sums);
      const { bias, biasStep, activation } = parameters;
      f.if(bias, () => f.add(bias, i32.mul(first, biasStep)));
      finishRows(f, module, elements, {
        epilogue: { bias, biasStep, activation },
        sums: scratch,
        sumsStride: f.let(i32.const(sumsStride)),
        m,
        n: columns,
        c: at(parameters.c, parameters.cBatch, i32.shl(first, elements.shift)),
        stride: parameters.stride,
        alpha,
        beta,
      });
    },
  });
}

/** sums[i] = sum over p of a[i, p] * (row p of B), four rows at a time. */
function addRows(
  f: FunctionBuilder,
  { m, k, columns, a, aRow, aK, b, bStride, sums, elements, multiplyAdd }: Sums,
): void {
  f.forRange(0, m, (i) => f.memoryFill(i32.add(sums, i32.mul(i, sumsStride)), 0, sumsStride));
  const vectorBytes = 4 * elements.bytes;
  const addSome = (rows: number): void => {
    const row = f.let(sums);
    const factorAddress = f.let(a);
    f.forRange(0, m, () => {
      const factorAt = f.let(factorAddress);
      const factors = Array.from({ length: rows }, () => {
        const factor = f.let(elements.loadSplat(factorAt));
        f.add(factorAt, aK);
        return factor;
      });
      const rowAddresses = Array.from({ length: rows }, (_, p) => f.let(i32.add(b, i32.mul(bStride, p))));
      const target = f.let(row);
      f.forRange(
        0,
        columns,
        () => {
          const sum = f.let(v128.load(target));
          for (const [p, factor] of factors.entries()) {
            const from = rowAddresses[p]!;
            f.set(sum, multiplyAdd(factor, elements.load(from), sum));
            f.add(from, vectorBytes);
          }
          f.store(target, sum);
          f.add(target, 16);
        },
        { step: 4 },
      );
      f.add(row, sumsStride);
      f.add(factorAddress, aRow);
    });
    f.add(a, i32.mul(aK, rows));
    f.add(b, i32.mul(bStride, rows));
  };
  const p = f.local("i32");
  f.forLocal(p, i32.and(k, -4), () => addSome(4), { step: 4 });
  f.forLocal(p, k, () => addSome(1));
}

/** sums[i, j] = (row i of A) . (column j of B), four columns at a time; both lie along k. */
function multiplyColumns(f: FunctionBuilder, operands: Sums): void {
  const { m, k, columns, a, aRow, b, bStride, sums, elements, multiplyAdd } = operands;
  const last = f.let(i32.sub(columns, 1));
  const vectorEnd = f.let(i32.and(k, -4));
  const firstLane = f.let(i32x4.const(-1, 0, 0, 0));
  const vectorBytes = 4 * elements.bytes;
  f.forRange(
    0,
    columns,
    (j) => {
      const starts = [0, 1, 2, 3].map((column) =>
        f.let(i32.add(b, i32.mul(bStride, i32.minU(last, i32.add(j, column))))),
      );
      const row = f.let(a);
      const target = f.let(i32.add(sums, i32.shl(j, 2)));
      f.forRange(0, m, () => {
        const from = f.let(row);
        const columnAddresses = starts.map((start) => f.let(start));
        const dots = starts.map(() => f.let(f32x4.const(0)));
        const p = f.let(i32.const(0));
        const step = (take: (address: I32) => Value<"v128">, bytes: number): void => {
          const factor = f.let(take(from));
          for (const [column, dot] of dots.entries()) {
            f.set(dot, multiplyAdd(factor, take(columnAddresses[column]!), dot));
            f.add(columnAddresses[column]!, bytes);
          }
          f.add(from, bytes);
        };
        f.forLocal(p, vectorEnd, () => step((at) => elements.load(at), vectorBytes), { step: 4 });
        // One by one, in the first lane; the others add 0 * 0.
        f.forLocal(p, k, () => step((at) => v128.and(elements.loadSplat(at), firstLane), elements.bytes));
        f.store(target, sumOfLanes(f, dots));
        f.add(target, sumsStride);
        f.add(row, aRow);
      });
    },
    { step: 4 },
  );
}

/** Lane i of the result is the sum of the lanes of vector i. */
function sumOfLanes(f: FunctionBuilder, vectors: readonly Local<"v128">[]): Value<"v128"> {
  const [v0, v1, v2, v3] = vectors as readonly [Local<"v128">, Local<"v128">, Local<"v128">, Local<"v128">];
  const halves = (x: Local<"v128">, y: Local<"v128">): Local<"v128"> =>
    f.let(f32x4.add(shuffle32([0, 4, 1, 5], x, y), shuffle32([2, 6, 3, 7], x, y)));
  const low = halves(v0, v1);
  const high = halves(v2, v3);
  return f32x4.add(shuffle32([0, 1, 4, 5], low, high), shuffle32([2, 3, 6, 7], low, high));
}

/** The plan for a problem with few rows, or undefined where it is better packed. */
export function planSkinny(
  problem: GemmProblem<CpuMemory>,
  { workers }: PlanContext,
  epilogue: EpilogueParameters,
): Launch | undefined {
  const { dtype, m, n, k, batch, transB } = problem;
  if (m > mostRows[dtype] || n < fewestColumns) return undefined;
  const bytes = elementBytes[dtype];
  const a = linesOfA(problem);
  const b = linesOfB(problem);
  // Products along k want both factors along k.
  if (transB && a.kStep !== bytes) return undefined;
  const share = Math.ceil((n * batch) / (4 * workers));
  const chunkColumns = Math.min(mostColumns, Math.max(leastColumns, Math.ceil(share / 16) * 16));
  const columnChunks = Math.ceil(n / chunkColumns);
  const parameters = {
    m,
    n,
    k,
    a: a.address,
    aRow: a.lineStep,
    aK: a.kStep,
    aBatch: a.batch,
    b: b.address,
    bStride: b.stride,
    bBatch: b.batch,
    c: address(problem.c),
    stride: problem.ldc * bytes,
    cBatch: problem.strideC * bytes,
    alpha: problem.alpha,
    beta: problem.beta,
    chunkColumns,
    columnChunks,
    // One plain literal: for small calls an object spread would show.
    bias: epilogue.bias,
    biasStep: epilogue.biasStep,
    activation: epilogue.activation,
  };
  const kernels = skinnyKernels[dtype];
  return (transB ? kernels.transposed : kernels.stored).launch(
    parameters,
    columnChunks * batch,
    m * n * k * batch * skinnyProductNanoseconds,
  );
}
