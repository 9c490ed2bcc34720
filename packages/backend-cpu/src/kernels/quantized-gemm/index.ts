import {
  dtypeBytes,
  type FloatType,
  floatTypes,
  type QuantizedBits,
  type QuantizedGemmProblem,
  quantizedBits,
} from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { gemm, planEpilogue } from "../gemm/index.js";
import {
  address,
  type CpuMemory,
  type CpuOperation,
  type Kernel,
  type Launch,
  type PlanContext,
} from "../kernel.js";
import type { FewRows } from "./dot.wasm.js";
import { type FewRowsTypes, fewRowsKernel } from "./few-rows.wasm.js";
import { chunkColumns } from "./finish.js";
import { type OneRowTypes, oneRowKernel } from "./one-row.wasm.js";
import { chunkRows, type DequantizeTypes, dequantizeKernel, padKernel } from "./prepare.wasm.js";
import { leastRounded, type Parts, splitBlocks, splitBytes, splitKernel } from "./split.wasm.js";
import { unitWeights } from "./weights.js";

type Problem = QuantizedGemmProblem<CpuMemory>;

/** More rows than these are worth dequantizing B for, which then is multiplied as gemm does it. */
export const mostFewRows = 16;

/** Bytes of B that are dequantized at a time. */
const partBytes = 1 << 24;

/** Nanoseconds of one multiply-add, and of one weight that is dequantized: in registers, and to memory. */
const productNanoseconds = 0.12;
const weightNanoseconds = { registers: 0.06, memory: 0.4 } as const;

/** Nanoseconds of one multiply-add of a part of a whole number, with the weight made ready, and of splitting a number into them. */
const partProductNanoseconds = 0.05;
const splitNanoseconds = 2;

type ByTypes<Made> = Readonly<
  Record<QuantizedBits, Readonly<Record<FloatType, Readonly<Record<FloatType, Made>>>>>
>;

/** By bits, element type and type of scales. */
function byTypes<Made>(
  make: (bits: QuantizedBits, dtype: FloatType, scaleType: FloatType) => Made,
): ByTypes<Made> {
  const of = (bits: QuantizedBits) =>
    byFloatType((dtype) => byFloatType((scale) => make(bits, dtype, scale)));
  return { 4: of(4), 8: of(8) };
}

const fewRowsKernels: Readonly<Record<FewRows, ByTypes<Kernel<FewRowsTypes>>>> = {
  2: byTypes((...types) => fewRowsKernel(2, ...types)),
  4: byTypes((...types) => fewRowsKernel(4, ...types)),
};
const oneRowKernels: Readonly<Record<Parts, ByTypes<Kernel<OneRowTypes>>>> = {
  1: byTypes((...types) => oneRowKernel(...types, 1)),
  2: byTypes((...types) => oneRowKernel(...types, 2)),
};
const splitKernels = { 1: splitKernel(1), 2: splitKernel(2) } as const;
const dequantizeKernels: ByTypes<Kernel<DequantizeTypes>> = byTypes(dequantizeKernel);
const padKernels = byFloatType(padKernel);

/**
 * C = activation(A dequantize(B)^T + beta C + bias). Few rows of A are multiplied by weights as they are dequantized in registers,
 * so that only the bytes of B come from memory. For more rows parts of B are dequantized first, and gemm multiplies them.
 */
export const quantizedGemm: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes, scaleType: floatTypes, bias: true, activation: true }],
  kernels: [
    ...gemm.kernels,
    ...Object.values(padKernels),
    ...Object.values(splitKernels),
    // Those of a group share the functions of the epilogue.
    ...quantizedBits.flatMap((bits) =>
      floatTypes.map((dtype) =>
        floatTypes.flatMap((scaleType) => [
          oneRowKernels[2][bits][dtype][scaleType],
          ...Object.values(fewRowsKernels).map((kernels) => kernels[bits][dtype][scaleType]),
          dequantizeKernels[bits][dtype][scaleType],
        ]),
      ),
    ),
    ...quantizedBits.flatMap((bits) =>
      floatTypes.map((dtype) => Object.values(oneRowKernels[1][bits][dtype])),
    ),
  ],
  plan(problem, context) {
    return problem.k === 0 || problem.m > mostFewRows
      ? planParts(problem, context)
      : planFewRows(problem, context);
  },
};

function planFewRows(problem: Problem, context: PlanContext): readonly Launch[] {
  const { dtype, scaleType, bits, block, m, n, k, blocks, a, b, scales, zeroPoints, c } = problem;
  const padded = blocks * block;
  const { parameters: epilogue, launches: prepare } = planEpilogue(problem, context);
  const launches = [...prepare];
  let rows = address(a);
  if (k < padded || dtype !== "f32") {
    rows = context.workspace(4 * m * padded);
    const pad = { input: address(a), output: rows, k, padded };
    launches.push(padKernels[dtype].launch(pad, m, m * k * productNanoseconds));
  }
  for (let row = 0; row < m; ) {
    const count = m - row >= 4 ? 4 : m - row >= 2 ? 2 : 1;
    const own = rows + 4 * row * padded;
    const parameters = {
      ...{ a: own, b: address(b), scales: address(scales) },
      zeroPoints: zeroPoints === undefined ? 0 : address(zeroPoints),
      ...{ blocks, units: block / unitWeights },
      ...{ c: address(c) + row * n * dtypeBytes[dtype], n, beta: problem.beta },
      ...epilogue,
    };
    const chunks = Math.ceil(n / chunkColumns);
    if (count === 1) {
      const parts = problem.mayRoundA ? 1 : 2;
      const split = context.workspace(splitBytes(blocks, block, parts));
      launches.push(
        splitKernels[parts].launch(
          {
            ...{ input: own, output: split, blocks, units: block / unitWeights },
            ...{ middle: 2 ** (bits - 1), least: leastRounded(k) },
          },
          Math.ceil(blocks / splitBlocks),
          padded * splitNanoseconds,
        ),
        oneRowKernels[parts][bits][dtype][scaleType].launch(
          { ...parameters, split },
          chunks,
          n * padded * parts * partProductNanoseconds,
        ),
      );
    } else {
      const nanoseconds = n * padded * (count * productNanoseconds + weightNanoseconds.registers);
      launches.push(fewRowsKernels[count][bits][dtype][scaleType].launch(parameters, chunks, nanoseconds));
    }
    row += count;
  }
  return launches;
}

/** By parts of the columns of C, each with its rows of B dequantized. */
function planParts(problem: Problem, context: PlanContext): readonly Launch[] {
  const { dtype, scaleType, bits, block, m, n, k, blocks, a, c, beta, bias, activation } = problem;
  const bytes = dtypeBytes[dtype];
  const padded = blocks * block;
  const rowBytes = Math.max(padded * bytes, 1);
  const partRows = Math.min(n, Math.max(Math.floor(partBytes / rowBytes / chunkRows) * chunkRows, chunkRows));
  const weights = context.workspace(partRows * rowBytes);
  const b = {
    memory: { byteOffset: weights, byteLength: partRows * rowBytes },
    ...{ byteOffset: 0, byteLength: partRows * padded * bytes },
  };
  const launches: Launch[] = [];
  for (let first = 0; first < n; first += partRows) {
    const rows = Math.min(partRows, n - first);
    if (k > 0)
      launches.push(
        dequantizeKernels[bits][dtype][scaleType].launch(
          {
            b: address(problem.b) + (first * padded * bits) / 8,
            scales: address(problem.scales) + first * blocks * dtypeBytes[scaleType],
            zeroPoints: problem.zeroPoints === undefined ? 0 : address(problem.zeroPoints) + first * blocks,
            output: weights,
            rows,
            blocks,
            units: block / unitWeights,
          },
          Math.ceil(rows / chunkRows),
          rows * padded * weightNanoseconds.memory,
        ),
      );
    const product = {
      ...{ dtype, m, n: rows, k, alpha: 1, beta, transA: false, transB: true },
      ...{ lda: k, ldb: padded, ldc: n, batch: 1, strideA: m * k, strideB: 0, strideC: m * n },
      ...{ a, b, activation },
      c: { ...c, byteOffset: c.byteOffset + first * bytes, byteLength: ((m - 1) * n + rows) * bytes },
      bias: bias && { ...bias, byteOffset: bias.byteOffset + first * bytes, byteLength: rows * bytes },
    };
    launches.push(...gemm.plan(product, context));
  }
  return launches;
}
