import { mapped, skipping, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

/** Defects of batchedGemm. */
export const batchedGemmMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "ignores transA for a batch of square matrices",
    operation: "batchedGemm",
    defect: "indexing",
    description: "One of the four forms of a kernel that only batches use.",
    killedBy: ["batchedGemm f32: is exact on whole numbers", "batchedGemm f32: stays within the error bound"],
    create: () => tampered("batchedGemm", (p) => ({ ...p, transA: p.transA && p.m !== p.k })),
  },
  {
    name: "begins again with the first A in the second group of a batch",
    operation: "batchedGemm",
    defect: "indexing",
    description: "As many matrices at a time as have room to be packed, 4 of them where B is large.",
    killedBy: [
      "batchedGemm f32: stays within the error bound on larger shapes",
      "batchedGemm f16: stays within the error bound on larger shapes",
    ],
    create: () =>
      replaced("batchedGemm", (p, run) => {
        if (p.batch <= 4 || p.b.byteLength < 2 ** 22) return run(p);
        run({ ...p, batch: 4 });
        const [b, c] = [skipping(p.b, p.dtype, 4 * p.strideB), skipping(p.c, p.dtype, 4 * p.strideC)];
        run({ ...p, batch: p.batch - 4, b, c });
      }),
  },
  {
    name: "takes a batch for one tall matrix",
    operation: "batchedGemm",
    defect: "stride",
    description: "A fast path for a shared B, also where there are gaps between the matrices of A or C.",
    killedBy: ["batchedGemm f32: is exact on whole numbers", "batchedGemm f32: stays within the error bound"],
    create: () =>
      tampered("batchedGemm", (p) =>
        p.strideB === 0 && !p.transA ? { ...p, strideA: p.m * p.lda, strideC: p.m * p.ldc } : p,
      ),
  },
  {
    name: "leaves out what lies beyond a grid",
    operation: "batchedGemm",
    defect: "edge",
    description: "The third dimension of a grid of workgroups ends at 65,535.",
    killedBy: [
      "batchedGemm f32: stays within the error bound on larger shapes",
      "batchedGemm f16: stays within the error bound on larger shapes",
    ],
    create: () => tampered("batchedGemm", (p) => ({ ...p, batch: Math.min(p.batch, 65_535) })),
  },
  {
    name: "rounds f32 inputs of batches to TF32",
    operation: "batchedGemm",
    defect: "numerics",
    description: "A library call whose default is not that of the single product.",
    killedBy: [
      "batchedGemm f32: stays within the error bound",
      "batchedGemm f32: stays within the error bound on larger shapes",
    ],
    create: () =>
      tampered("batchedGemm", (p) => {
        const short = (value: number) => truncate(value, 10);
        return p.dtype === "f32" ? { ...p, a: mapped(p.a, p.dtype, short) } : p;
      }),
  },
  {
    name: "ignores the batch stride of B",
    operation: "batchedGemm",
    defect: "stride",
    description: "Steps from one B to the next by their tight size, broadcast or not.",
    killedBy: [
      "batchedGemm f32: is exact on whole numbers",
      "batchedGemm f32: uses one A or B for the whole batch where its stride is 0",
      "batchedGemm f32: agrees with a loop of gemm",
    ],
    create: () => tampered("batchedGemm", (p) => ({ ...p, strideB: p.ldb * (p.transB ? p.n : p.k) })),
  },
  {
    name: "leaves out every batch but the first few",
    operation: "batchedGemm",
    defect: "edge",
    description: "A limit on the third dimension of a grid.",
    killedBy: ["batchedGemm f32: stays within the error bound on larger shapes"],
    create: () => tampered("batchedGemm", (p) => ({ ...p, batch: Math.min(p.batch, 64) })),
  },
];
