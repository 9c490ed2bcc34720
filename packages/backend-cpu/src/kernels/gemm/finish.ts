import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  f32,
  f32x4,
  i32,
  type Local,
  type ModuleBuilder,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
import { type EpilogueLocals, epilogueFunction, hasEpilogue } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";

interface FinishOperands
  extends Readonly<Record<"sums" | "sumsStride" | "m" | "n" | "c" | "stride", Local<"i32">>> {
  readonly alpha: Local<"f32">;
  readonly beta: Local<"f32">;
  readonly epilogue: EpilogueLocals;
}

/**
 * C = alpha * sums + beta * C for m x n elements, and the epilogue, rounded to their type at the very end.
 * `sums` are f32 and are overwritten; strides are bytes from row to row; rows of sums have room for whole
 * vectors. C is not read if beta is 0.
 */
export function finishRows(
  f: FunctionBuilder,
  module: ModuleBuilder,
  elements: Elements,
  operands: FinishOperands,
): void {
  const { m, n, sumsStride, stride, alpha, beta, epilogue } = operands;
  const sumsRow = f.let(operands.sums);
  const cRow = f.let(operands.c);
  const alphas = f.let(f32x4.splat(alpha));
  const betas = f.let(f32x4.splat(beta));
  const keepsOld = f.let(f32.ne(beta, 0));
  const vectorEnd = f.let(i32.and(n, -4));
  f.forRange(0, m, () => {
    const source = f.local("i32");
    const target = f.local("i32");
    const value = f.local("v128");
    const combine = (): void => {
      f.set(value, f32x4.mul(alphas, v128.load(source)));
      f.if(keepsOld, () => f.set(value, f32x4.add(value, f32x4.mul(betas, elements.load(target)))));
    };
    const eachVector = (end: Local<"i32">, body: () => void): void => {
      f.set(source, sumsRow);
      f.set(target, cRow);
      const step = (): void => {
        body();
        f.add(source, 16);
        f.add(target, 4 * elements.bytes);
      };
      f.forRange(0, end, step, { step: 4 });
    };
    const store = (compute: () => void): void => {
      eachVector(vectorEnd, () => {
        compute();
        elements.store(target, value);
      });
      f.if(i32.and(n, 3), () => {
        compute();
        elements.storeFirst(target, value, i32.and(n, 3));
      });
    };
    f.if(
      hasEpilogue(epilogue),
      () => {
        // Row by row, each in the first-level cache: first all in f32 in the place of the sums, then to C.
        eachVector(n, () => {
          combine();
          f.store(source, value);
        });
        const { bias, biasStep, activation } = epilogue;
        f.call(epilogueFunction(module), sumsRow, sumsStride, 1, n, bias, biasStep, activation);
        store(() => f.set(value, v128.load(source)));
      },
      () => store(combine),
    );
    f.add(sumsRow, sumsStride);
    f.add(cRow, stride);
  });
}

const finishTypes = {
  /** Sums in f32, bytes from row to row and from matrix to matrix. */
  sums: "i32",
  sumsStride: "i32",
  sumsBatch: "i32",
  m: "i32",
  n: "i32",
  c: "i32",
  stride: "i32",
  cBatch: "i32",
  alpha: "f32",
  beta: "f32",
  chunkRows: "i32",
  rowChunks: "i32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

export type FinishKernel = Kernel<typeof finishTypes>;

/**
 * C = alpha * sums + beta * C and the epilogue, rounded once. Undefined for types that are not rounded: their
 * products are added to C right away, and those of others first to sums in f32.
 */
export const finishKernels: Readonly<Record<FloatType, FinishKernel | undefined>> = {
  f32: undefined,
  f16: finishKernel("f16"),
};

function finishKernel(dtype: FloatType): FinishKernel {
  return defineKernel({
    name: `gemm_finish_${dtype}`,
    parameters: finishTypes,
    emit(f, { parameters, chunk, module }) {
      const { sums, sumsStride, sumsBatch, m, n, c, stride, cBatch, alpha, beta } = parameters;
      const { chunkRows, rowChunks } = parameters;
      const elements = elementsOf(f, dtype);
      const matrix = f.let(i32.divU(chunk, rowChunks));
      const row = f.let(i32.mul(i32.remU(chunk, rowChunks), chunkRows));
      finishRows(f, module, elements, {
        epilogue: parameters,
        sums: f.let(i32.add(sums, i32.add(i32.mul(matrix, sumsBatch), i32.mul(row, sumsStride)))),
        c: f.let(i32.add(c, i32.add(i32.mul(matrix, cBatch), i32.mul(row, stride)))),
        m: f.let(i32.minU(i32.sub(m, row), chunkRows)),
        sumsStride,
        n,
        stride,
        alpha,
        beta,
      });
    },
  });
}
