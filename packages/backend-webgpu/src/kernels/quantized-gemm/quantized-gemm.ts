import { dtypeBytes, type QuantizedGemmProblem } from "@backplane/core";
import { memoized, WORKGROUP_SIZE } from "../../program/index.js";
import {
  type BufferRegion,
  type DeviceMemory,
  type KernelContext,
  WINDOW_ALIGNMENT,
} from "../../runtime/index.js";
import { runGemm } from "../gemm/index.js";
import { storeRounded } from "../halves.js";
import { isNarrow } from "../machine.js";
import { scratchBytes, sliceOf } from "../segments/index.js";
import { type DequantizeForm, dequantizeProgram, weightsEach } from "./dequantize.wgsl.js";
import { dequantizeTurnedProgram, turnedGroups, turnedRows } from "./dequantize-turned.wgsl.js";
import { type FewRowsForm, fewRowsProgram } from "./few-rows.wgsl.js";
import { fewRowsTile, fewRowsWorkgroups } from "./few-rows-tile.js";
import type { Finish } from "./finish.wgsl.js";
import { joinProgram } from "./join.wgsl.js";
import { quantizedMatrixProgram } from "./matrices.wgsl.js";
import { MATRIX_RUN, matrixParts, type QuantizedMatrixTile, quantizedMatrixTile } from "./matrix-tile.js";

/** A problem, or, after a division, a part of it whose rows of C are further apart than they are long. */
export interface Problem extends QuantizedGemmProblem<DeviceMemory> {
  /** Elements from one row of C to the next. Default: n. */
  readonly pitch?: number;
}

/** More rows of A than these are worth writing the weights of B to memory for. */
export const mostFewRows = 64;

/** Weights that are dequantized at a time take at most this many bytes. */
const LARGEST_PART = 2 ** 27;

const fewRows = memoized(fewRowsProgram);
const matrices = memoized(quantizedMatrixProgram);
const join = memoized(joinProgram);
const dequantize = memoized(dequantizeProgram);
const dequantizeTurned = memoized(dequantizeTurnedProgram);

/** C = activation(A dequantize(B)^T + beta C + bias) */
export function runQuantizedGemm(context: KernelContext, problem: Problem): void {
  const { dtype, m, n, c, pitch = n } = problem;
  if (m > mostFewRows || problem.k === 0) {
    runParts(context, problem);
    return;
  }
  const tile = quantizedMatrixTile(problem, context.features);
  const run = (results: Results) =>
    tile === undefined ? runFewRows(context, problem, results) : runMatrices(context, problem, tile, results);
  const store = storeRounded[dtype];
  // Two results share a word: rows that are made of whole words need no rounding of their own.
  const isWhole = pitch % 2 === 0 && n % 2 === 0 && c.byteOffset % 4 === 0;
  if (store === undefined || isWhole) {
    run({ region: c, pitch, target: store === undefined ? "single" : "pairs" });
    return;
  }
  const region = context.scratch(4 * m * n);
  run({ region, pitch: n, target: "single" });
  store(context, region, c, { batch: 1, rows: m, columns: n, rowStride: pitch });
}

/** Where the results of a kernel go. */
export interface Results {
  readonly region: BufferRegion;
  /** Elements from one row to the next. */
  readonly pitch: number;
  readonly target: Finish["target"];
}

/** B with its scales and zero points, as programs bind them. */
function weightRegions({ b, scales, zeroPoints }: Problem): Record<string, BufferRegion> {
  return zeroPoints === undefined ? { b, scales } : { b, scales, zero_points: zeroPoints };
}

/** Adds the regions that a form asks for. */
function withFinish(
  regions: Record<string, BufferRegion>,
  { c, bias }: Problem,
  { adds }: Finish,
  results: Results,
): Record<string, BufferRegion> {
  if (adds === "before") regions.before = c;
  if (bias !== undefined) regions.bias = bias;
  regions.c = results.region;
  return regions;
}

/** Results for scratch add what C has; those for C, what is at their place. */
function addsOf({ beta, c }: Problem, { region }: Results): Finish["adds"] {
  if (beta === 0) return undefined;
  return region === c ? "target" : "before";
}

/** Few rows of A, by weights that are dequantized in registers. */
export function runFewRows(context: KernelContext, problem: Problem, results: Results): void {
  const { dtype, bits, scaleType, block, m, n, k, blocks, a, b } = problem;
  const tile = fewRowsTile(problem, context.features);
  const form: FewRowsForm = {
    bits,
    scaleType,
    hasZeroPoints: problem.zeroPoints !== undefined,
    dtype,
    alignedB: b.byteOffset % 16 === 0,
    vectorA: k % 4 === 0 && a.byteOffset % (4 * dtypeBytes[dtype]) === 0,
    target: results.target,
    adds: addsOf(problem, results),
    bias: problem.bias !== undefined,
    activation: problem.activation,
  };
  const regions = weightRegions(problem);
  regions.a = a;
  context.dispatch(
    fewRows(tile, form),
    withFinish(regions, problem, form, results),
    {
      ...{ m, n, k, runs: (blocks * block) / tile.run, block_shift: Math.log2(block) },
      ...{ pitch: results.pitch, beta: problem.beta, before_pitch: problem.pitch ?? n },
    },
    fewRowsWorkgroups(tile, m, n),
  );
}

/** Few rows of A, on matrix units. */
function runMatrices(
  context: KernelContext,
  problem: Problem,
  tile: QuantizedMatrixTile,
  results: Results,
): void {
  const { bits, scaleType, block, m, n, k, blocks, a } = problem;
  const { parts, depth } = matrixParts(tile, n, k);
  const sums = context.scratch(4 * parts * m * n);
  const regions = weightRegions(problem);
  regions.a = a;
  regions.sums = sums;
  context.dispatch(
    matrices(tile, { bits, scaleType, hasZeroPoints: problem.zeroPoints !== undefined }),
    regions,
    {
      ...{ m, n, k, runs: (blocks * block) / MATRIX_RUN, block_shift: Math.log2(block) },
      ...{ parts, part_depth: depth },
    },
    Math.ceil(n / tile.columns) * parts,
  );
  joinParts(context, problem, sums, parts, results);
}

/** Results are the sums of parts (parts x m x n, f32), finished. */
export function joinParts(
  context: KernelContext,
  problem: Problem,
  sums: BufferRegion,
  parts: number,
  results: Results,
): void {
  const { dtype, m, n, beta, bias, activation } = problem;
  const form: Finish = {
    dtype,
    target: results.target,
    adds: addsOf(problem, results),
    bias: bias !== undefined,
    activation,
  };
  context.dispatch(
    join(form),
    withFinish({ sums }, problem, form, results),
    { m, n, parts, pitch: results.pitch, beta, before_pitch: problem.pitch ?? n },
    Math.ceil((m * n) / WORKGROUP_SIZE),
  );
}

/** Rows of B whose weights are in scratch at a time. */
export function partRows(context: KernelContext, { dtype, n, blocks, block }: Problem): number {
  const most = Math.min(LARGEST_PART, scratchBytes(context.features) - WINDOW_ALIGNMENT);
  const rows = Math.floor(most / (blocks * block * dtypeBytes[dtype]));
  return Math.min(n, Math.max(rows > 64 ? rows - (rows % 64) : rows, 1));
}

/**
 * Writes the weights of parts of B to scratch, for gemm: B^T if each part has whole units of rows, since gemm reads that faster. On
 * an emulated GPU that takes longer to compile than it saves.
 */
function runParts(context: KernelContext, problem: Problem): void {
  const { dtype, m, n, k, blocks, block, a, c, beta, bias, activation, pitch = n } = problem;
  const padded = blocks * block;
  const rows = k === 0 ? n : partRows(context, problem);
  const weights = context.scratch(Math.max(rows * padded * dtypeBytes[dtype], 16));
  const turns = !isNarrow(context.features) && n % turnedRows === 0 && rows % turnedRows === 0;
  for (let first = 0; first < n; first += rows) {
    const count = Math.min(rows, n - first);
    const part = rows === n ? problem : columnsOf(problem, first, count);
    const used = sliceOf(weights, dtype, 0, count * padded);
    if (k > 0) writeWeights(context, part, used, turns);
    runGemm(context, {
      dtype,
      m,
      n: count,
      k,
      alpha: 1,
      beta,
      transA: false,
      transB: !turns,
      lda: Math.max(k, 1),
      ldb: Math.max(turns ? count : padded, 1),
      ldc: pitch,
      batch: 1,
      strideA: m * k,
      strideB: count * padded,
      strideC: m * pitch,
      a,
      b: used,
      c: rows === n ? c : part.c,
      bias: rows === n ? bias : part.bias,
      activation,
    });
  }
}

/** weights = B, dequantized, or B^T if it `turns`. */
function writeWeights(context: KernelContext, problem: Problem, weights: BufferRegion, turns: boolean): void {
  const { dtype, scaleType, bits, block, n, blocks } = problem;
  const form: DequantizeForm = { bits, scaleType, hasZeroPoints: problem.zeroPoints !== undefined, dtype };
  const regions = weightRegions(problem);
  regions.weights = weights;
  const block_shift = Math.log2(block);
  const runs = (blocks * block) / weightsEach;
  if (turns) {
    const units = n / turnedRows;
    context.dispatch(
      dequantizeTurned(form),
      regions,
      { units, runs, block_shift },
      turnedGroups(units, runs),
    );
  } else {
    const count = n * runs;
    context.dispatch(dequantize(form), regions, { count, block_shift }, Math.ceil(count / WORKGROUP_SIZE));
  }
}

/** Some columns of C, which are rows of B. */
export function columnsOf(problem: Problem, first: number, count: number): Problem {
  const { dtype, scaleType, bits, block, m, n, blocks, b, scales, zeroPoints, bias, c, pitch = n } = problem;
  const rowBytes = (blocks * block * bits) / 8;
  const ofBlocks = first * blocks;
  return {
    ...problem,
    n: count,
    pitch,
    b: sliceOf(b, "u8", first * rowBytes, count * rowBytes),
    scales: sliceOf(scales, scaleType, ofBlocks, count * blocks),
    zeroPoints: zeroPoints && sliceOf(zeroPoints, "u8", ofBlocks, count * blocks),
    bias: bias && sliceOf(bias, dtype, first, count),
    c: sliceOf(c, dtype, first, (m - 1) * pitch + count),
  };
}
