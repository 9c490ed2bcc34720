import type { Activation, BatchedGemmArguments, ComputeBackend, FloatType } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import {
  dataSeed,
  distribution,
  extent,
  extra,
  fixedPlacement,
  placement,
} from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, exactLimit } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import { exact, productSum } from "../../tolerance.js";
import { collect, type Expected, execute, type Placement } from "../../workspace.js";
import { measureActivated } from "../epilogue.js";
import { type GemmShape, gemm, roundings } from "./formula.js";

/** How the A or B matrices of a batch follow one another. */
export type InputStep = "tight" | "gap" | "broadcast" | "overlap";
/** How the C matrices of a batch follow one another. */
export type OutputStep = "tight" | "gap" | "side by side";

/** One call of gemm or batchedGemm, its memory layout and its data. */
export interface GemmCase {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly transA: boolean;
  readonly transB: boolean;
  /** By how much the leading dimensions exceed the columns. */
  readonly padA: number;
  readonly padB: number;
  readonly padC: number;
  readonly alpha: number;
  readonly beta: number;
  readonly batch: number;
  readonly stepA: InputStep;
  readonly stepB: InputStep;
  readonly stepC: OutputStep;
  /** Default: no bias, no activation. */
  readonly bias?: boolean;
  readonly activation?: Activation;
  readonly placement: Placement;
  readonly data: Distribution;
  readonly seed: number;
}

/** Multiply-adds that one random case may cost. */
const work = 2 ** 19;

export interface GemmCaseOptions {
  readonly alphas?: readonly number[];
  readonly betas?: readonly number[];
  readonly pad?: Arbitrary<number>;
  readonly placement?: Arbitrary<Placement>;
  readonly largest?: number;
  readonly k?: Arbitrary<number>;
  readonly data?: Arbitrary<Distribution>;
  readonly stepA?: readonly InputStep[];
  readonly stepB?: readonly InputStep[];
  readonly stepC?: readonly OutputStep[];
}

/** Numbers that f32 holds exactly. */
const someAlphas: readonly number[] = [1, -1, 0.5, Math.fround(0.7), 2];
const someBetas: readonly number[] = [0, 1, -1, 0.5, Math.fround(1.3)];

/** Random calls of gemm (batch 1). */
export function gemmCases(options: GemmCaseOptions = {}): Arbitrary<GemmCase> {
  return cases(fc.constant(1), { stepA: ["tight"], stepB: ["tight"], stepC: ["tight"], ...options });
}

/** Random calls of batchedGemm. */
export function batchedGemmCases(options: GemmCaseOptions = {}): Arbitrary<GemmCase> {
  return cases(fc.constantFrom(1, 2, 3, 5, 8), {
    stepA: ["tight", "gap", "broadcast", "overlap"],
    stepB: ["tight", "gap", "broadcast", "overlap"],
    stepC: ["tight", "gap", "side by side"],
    largest: 65,
    ...options,
  });
}

/** Extents that are made equal: a confusion between them, or of a matrix with its transpose, keeps its shape. */
const tie = fc.constantFrom("none", "none", "none", "n = k", "m = k", "all");

function tied(value: GemmCase, tie: string): GemmCase {
  const { k } = value;
  // Not for laws that fix k at 0.
  if (k === 0 || tie === "none") return value;
  return { ...value, ...(tie === "n = k" ? {} : { m: k }), ...(tie === "m = k" ? {} : { n: k }) };
}

/** Makes rows, columns and leading dimensions whole vectors, for kernels that load vectors if they can. */
function inVectors(value: GemmCase): GemmCase {
  const whole = (extent: number) => Math.ceil(extent / 4) * 4;
  const { m, n, k, padA, padB, padC } = value;
  return {
    ...value,
    ...{ m: whole(m), n: whole(n), k: whole(k) },
    ...{ padA: whole(padA), padB: whole(padB), padC: whole(padC) },
  };
}

function cases(batch: Arbitrary<number>, options: GemmCaseOptions): Arbitrary<GemmCase> {
  const pad = options.pad ?? extra;
  return fc
    .record({
      tie,
      vectors: fc.constantFrom(false, false, true),
      m: extent(options.largest),
      n: extent(options.largest),
      k: options.k ?? extent(options.largest),
      transA: fc.boolean(),
      transB: fc.boolean(),
      padA: pad,
      padB: pad,
      padC: pad,
      alpha: fc.constantFrom(...(options.alphas ?? someAlphas)),
      beta: fc.constantFrom(...(options.betas ?? someBetas)),
      batch,
      stepA: fc.constantFrom(...(options.stepA ?? ["tight" as const])),
      stepB: fc.constantFrom(...(options.stepB ?? ["tight" as const])),
      stepC: fc.constantFrom(...(options.stepC ?? ["tight" as const])),
      placement: options.placement ?? placement,
      data: options.data ?? distribution,
      seed: dataSeed,
    })
    .map(({ tie, vectors, ...value }): GemmCase => tied(vectors ? inVectors(value) : value, tie))
    .filter((value) => value.batch * value.m * value.n * value.k <= work);
}

/** Returns a fixed call; `parts` says only what matters. */
export function gemmCase(parts: Partial<GemmCase> & Pick<GemmCase, "m" | "n" | "k">): GemmCase {
  return {
    ...{ transA: false, transB: false, padA: 0, padB: 0, padC: 0, alpha: 1, beta: 0, batch: 1 },
    ...{ stepA: "tight", stepB: "tight", stepC: "tight", data: "normal", seed: 1 },
    placement: fixedPlacement,
    ...parts,
  };
}

/** Returns the elements between the matrices of a batch; whole vectors if everything else is. */
function gapOf({ m, n, k, padA, padB, padC }: GemmCase): number {
  return [m, n, k, padA, padB, padC].every((extent) => extent % 4 === 0) ? 4 : 3;
}

/** The layout that the case describes, worked out here and not by the code under test. */
export function shapeOf(value: GemmCase): GemmShape {
  const { m, n, k, transA, transB, alpha, beta, batch } = value;
  const [rowsA, columnsA] = transA ? [k, m] : [m, k];
  const [rowsB, columnsB] = transB ? [n, k] : [k, n];
  const lda = columnsA + value.padA;
  const ldb = columnsB + value.padB;
  const gap = gapOf(value);
  const input = (step: InputStep, rows: number, ld: number) =>
    ({ tight: rows * ld, gap: rows * ld + gap, broadcast: 0, overlap: ld })[step];
  const sideBySide = value.stepC === "side by side";
  const ldc = sideBySide ? Math.max(batch, 1) * (n + gap) + value.padC : n + value.padC;
  const strideC = { tight: m * ldc, gap: m * ldc + gap, "side by side": n + gap }[value.stepC];
  return {
    ...{ m, n, k: alpha === 0 ? 0 : k, alpha, beta, transA, transB, lda, ldb, ldc, batch, strideC },
    strideA: input(value.stepA, rowsA, lda),
    strideB: input(value.stepB, rowsB, ldb),
  };
}

/** Returns the arguments of the call, without those at their default. */
export function argumentsOf(value: GemmCase, dtype: FloatType): Omit<BatchedGemmArguments, "a" | "b" | "c"> {
  const { m, n, k, transA, transB, alpha, beta, batch } = value;
  const shape = shapeOf(value);
  return {
    ...{ m, n, k, batch },
    ...(alpha === 1 ? {} : { alpha }),
    ...(beta === 0 ? {} : { beta }),
    ...(transA ? { transA } : {}),
    ...(transB ? { transB } : {}),
    ...(value.padA === 0 ? {} : { lda: shape.lda }),
    ...(value.padB === 0 ? {} : { ldb: shape.ldb }),
    ...(value.padC === 0 && value.stepC !== "side by side" ? {} : { ldc: shape.ldc }),
    ...(value.stepA === "tight" ? {} : { strideA: shape.strideA }),
    ...(value.stepB === "tight" ? {} : { strideB: shape.strideB }),
    ...(value.stepC === "tight" ? {} : { strideC: shape.strideC }),
    ...(value.activation === undefined ? {} : { activation: value.activation }),
    ...given(dtype),
  };
}

/** The stored operands of a case; NaN wherever nothing may be read. */
export interface GemmOperands {
  readonly a: Float64Array;
  readonly b: Float64Array;
  readonly c: Float64Array;
  readonly bias?: Float64Array;
}

type Draw = (count: number, seed: number) => Float64Array;

/** Data from the distribution of the case. */
export function floatOperands(value: GemmCase, dtype: FloatType): GemmOperands {
  return operandsOf(value, (count, seed) => draw(value.data, count, seed, dtype));
}

/** Whole numbers small enough for sums without rounding. */
export function integerOperands(value: GemmCase, dtype: FloatType): GemmOperands {
  const factor = Math.abs(value.alpha) + Math.abs(value.beta) + (value.bias ? 1 : 0);
  const limit = exactLimit(value.k + 1, factor, dtype);
  return operandsOf(value, (count, seed) => drawIntegers(limit, count, seed));
}

function operandsOf(value: GemmCase, drawSome: Draw): GemmOperands {
  const shape = shapeOf(value);
  const [rowsA, columnsA] = value.transA ? [shape.k, shape.m] : [shape.m, shape.k];
  const [rowsB, columnsB] = value.transB ? [shape.n, shape.k] : [shape.k, shape.n];
  const { batch, m, n } = shape;
  return {
    a: stored(batch, shape.strideA, rowsA, columnsA, shape.lda, (count) => drawSome(count, value.seed)),
    b: stored(batch, shape.strideB, rowsB, columnsB, shape.ldb, (count) => drawSome(count, value.seed + 1)),
    c: stored(batch, shape.strideC, m, n, shape.ldc, (count) =>
      value.beta === 0 ? new Float64Array(count).fill(Number.NaN) : drawSome(count, value.seed + 2),
    ),
    ...(value.bias ? { bias: drawSome(n, value.seed + 3) } : {}),
  };
}

/** Matrices in storage, with NaN in the gaps between rows and between matrices. */
function stored(
  batch: number,
  stride: number,
  rows: number,
  columns: number,
  ld: number,
  drawSome: (count: number) => Float64Array,
): Float64Array {
  if (batch === 0 || rows === 0 || columns === 0) return new Float64Array(0);
  const values = new Float64Array((batch - 1) * stride + (rows - 1) * ld + columns).fill(Number.NaN);
  const data = drawSome(batch * rows * columns);
  let next = 0;
  for (let i = 0; i < batch; i++)
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) values[i * stride + row * ld + column] = data[next++]!;
  return values;
}

export interface GemmOutcome {
  /** C as stored. */
  readonly got: Float64Array;
  /** Before the activation, if there is one. */
  readonly expected: Expected;
}

/** Runs a case and computes the expected result. */
export async function runGemm(
  backend: ComputeBackend,
  dtype: FloatType,
  operation: "gemm" | "batchedGemm",
  value: GemmCase,
  operands: GemmOperands,
): Promise<GemmOutcome> {
  const { a, b, c, bias } = operands;
  const expected = collect((emit) => gemm(shapeOf(value), a, b, c, emit, bias));
  const { batch, ...single } = argumentsOf(value, dtype);
  const got = await execute({
    backend,
    dtype,
    placement: value.placement,
    operands: { a, b, c, ...(bias === undefined ? {} : { bias }) } as Required<GemmOperands>,
    output: "c",
    written: expected.places,
    call: (slices) => {
      if (operation === "gemm") backend.gemm({ ...single, ...slices });
      else backend.batchedGemm({ ...single, batch, ...slices });
    },
  });
  return { got, expected };
}

/** For `shapeAxes`. */
export function extentsOf(operation: "gemm" | "batchedGemm", value: GemmCase): readonly number[] {
  const { m, n, k, batch } = value;
  return operation === "gemm" ? [m, n, k] : [m, n, k, batch];
}

/** The law behind most laws: every element of C within its error bound. */
export async function checkWithinBound(
  context: LawContext,
  dtype: FloatType,
  operation: "gemm" | "batchedGemm",
  value: GemmCase,
): Promise<void> {
  const { backend } = context;
  const { got, expected } = await runGemm(backend, dtype, operation, value, floatOperands(value, dtype));
  const bound = (type: FloatType) =>
    productSum(roundings(value.k, value.bias), type, context.numerics, value.alpha);
  measureActivated(context, dtype, extentsOf(operation, value), got, expected, value.activation, bound);
}

/** Checks whole numbers, for which every order of summing gives the same bits. Needs whole alphas and betas. */
export async function checkExact(
  context: LawContext,
  dtype: FloatType,
  operation: "gemm" | "batchedGemm",
  value: GemmCase,
): Promise<void> {
  const operands = integerOperands(value, dtype);
  const { got, expected } = await runGemm(context.backend, dtype, operation, value, operands);
  const { activation } = value;
  measureActivated(context, dtype, extentsOf(operation, value), got, expected, activation, exact);
}

/**
 * Returns the cases with long sums and whole alphas and betas: there the error bound of thousands of
 * roundings would hide that a term is missing.
 */
export function longest(cases: readonly GemmCase[]): readonly GemmCase[] {
  return cases
    .filter(({ k }) => k >= 500)
    .map((value) => ({ ...value, alpha: Math.ceil(value.alpha), beta: Math.ceil(value.beta) }));
}

/** A and B are all poison; C comes out as beta C + bias, or zero. For cases with alpha or k 0. */
export async function checkUnread(
  context: LawContext,
  dtype: FloatType,
  operation: "gemm" | "batchedGemm",
  value: GemmCase,
): Promise<void> {
  const { backend } = context;
  const { c, bias } = floatOperands(value, dtype);
  const a = new Float64Array(value.m * Math.max(value.k, 1)).fill(Number.NaN);
  const b = new Float64Array(value.n * Math.max(value.k, 1)).fill(Number.NaN);
  const operands = { a, b, c, ...(bias === undefined ? {} : { bias }) };
  const { got, expected } = await runGemm(backend, dtype, operation, value, operands);
  const bound = (type: FloatType) => productSum(value.bias ? 2 : 1, type, context.numerics);
  measureActivated(context, dtype, extentsOf(operation, value), got, expected, value.activation, bound);
}

/** Some extent is 0. */
export async function checkEmpty(
  context: LawContext,
  dtype: FloatType,
  operation: "gemm" | "batchedGemm",
  value: GemmCase,
): Promise<void> {
  const { got } = await runGemm(context.backend, dtype, operation, value, floatOperands(value, dtype));
  if (got.length > 0) throw new Error(`there is nothing to write, but C has ${got.length} elements`);
}
