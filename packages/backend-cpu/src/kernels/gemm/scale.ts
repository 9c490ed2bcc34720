import { dtypeBytes, type FloatType, type GemmProblem } from "@backplane/core";
import { f32, f32x4, i32 } from "../../wasm/index.js";
import { byFloatType, elementsOf } from "../elements/index.js";
import { address, type CpuMemory, defineKernel, type Kernel, type Launch } from "../kernel.js";

const scaleTypes = {
  m: "i32",
  n: "i32",
  c: "i32",
  stride: "i32",
  cBatch: "i32",
  beta: "f32",
  chunkRows: "i32",
  rowChunks: "i32",
} as const;

/** C = beta * C, if there is nothing to add. If beta is 0, writes zeros without reading C. */
export const scaleKernels: Readonly<Record<FloatType, Kernel<typeof scaleTypes>>> = byFloatType(scaleKernel);

function scaleKernel(dtype: FloatType): Kernel<typeof scaleTypes> {
  return defineKernel({
    name: `gemm_scale_${dtype}`,
    parameters: scaleTypes,
    emit(f, { parameters, chunk }) {
      const { m, n, c, stride, cBatch, beta, chunkRows, rowChunks } = parameters;
      const elements = elementsOf(f, dtype);
      const matrix = f.let(i32.divU(chunk, rowChunks));
      const row = f.let(i32.mul(i32.remU(chunk, rowChunks), chunkRows));
      const cRow = f.let(i32.add(c, i32.add(i32.mul(matrix, cBatch), i32.mul(row, stride))));
      const betas = f.let(f32x4.splat(beta));
      const keepsOld = f.let(f32.ne(beta, 0));
      const vectorEnd = f.let(i32.and(n, -4));
      const value = f.local("v128");
      const zero = f.let(f32x4.const(0));
      f.forRange(0, i32.minU(i32.sub(m, row), chunkRows), () => {
        const target = f.let(cRow);
        const compute = (): void => {
          f.set(value, zero);
          f.if(keepsOld, () => f.set(value, f32x4.mul(betas, elements.load(target))));
        };
        f.forRange(
          0,
          vectorEnd,
          () => {
            compute();
            elements.store(target, value);
            f.add(target, 4 * elements.bytes);
          },
          { step: 4 },
        );
        f.if(i32.and(n, 3), () => {
          compute();
          elements.storeFirst(target, value, i32.and(n, 3));
        });
        f.add(cRow, stride);
      });
    },
  });
}

export function planScale(problem: GemmProblem<CpuMemory>): Launch {
  const { dtype, m, n, batch } = problem;
  const chunkRows = Math.max(1, Math.ceil((1 << 14) / n));
  const rowChunks = Math.ceil(m / chunkRows);
  const bytes = dtypeBytes[dtype];
  const parameters = {
    m,
    n,
    c: address(problem.c),
    stride: problem.ldc * bytes,
    cBatch: problem.strideC * bytes,
    beta: problem.beta,
    chunkRows,
    rowChunks,
  };
  return scaleKernels[dtype].launch(parameters, rowChunks * batch);
}
