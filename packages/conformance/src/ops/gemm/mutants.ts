import { dtypeBytes } from "@backplane/core";
import { load, storeInto } from "../../elements.js";
import { mapped, remembering, skipping, throughEnd, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { gemm } from "./formula.js";

const products = ["gemm", "batchedGemm"] as const;

/** Defects of gemm, most of them of batchedGemm too. */
export const gemmMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "ignores lda",
    operation: "gemm",
    defect: "stride",
    description: "Reads A as if its rows were tightly packed.",
    killedBy: ["gemm f32: is exact on whole numbers", "batchedGemm f16: stays within the error bound"],
    create: () => tampered(products, (p) => ({ ...p, lda: p.transA ? p.m : p.k })),
  },
  {
    name: "ignores ldc",
    operation: "gemm",
    defect: "stride",
    description: "Writes C as if its rows were tightly packed, over what lies between them.",
    killedBy: [
      "gemm f32: touches nothing but the elements of C",
      "batchedGemm f32: touches nothing but the elements of C, not even between the matrices",
    ],
    create: () => tampered(products, (p) => ({ ...p, ldc: p.n })),
  },
  {
    name: "ignores transB for square B",
    operation: "gemm",
    defect: "indexing",
    description: "A transpose that is only noticed where it changes the shape.",
    killedBy: ["gemm f32: stays within the error bound", "gemm f32: gives (A B)^T = B^T A^T"],
    create: () => tampered(products, (p) => ({ ...p, transB: p.transB && p.n !== p.k })),
  },
  {
    name: "drops the last k",
    operation: "gemm",
    defect: "edge",
    description: "Leaves out the rest of k after whole vectors of four.",
    killedBy: ["gemm f32: is exact on whole numbers", "gemm f32: stays within the error bound"],
    create: () => tampered(products, (p) => ({ ...p, k: p.k > 4 ? p.k - (p.k % 4) : p.k })),
  },
  {
    name: "forgets k beyond 2048",
    operation: "gemm",
    defect: "edge",
    description: "One block of k too few; only long sums show it.",
    killedBy: ["gemm f32: stays within the error bound on larger shapes"],
    create: () => tampered(products, (p) => ({ ...p, k: Math.min(p.k, 2048) })),
  },
  {
    name: "writes one element past the end",
    operation: "gemm",
    defect: "edge",
    description: "The last store of a row of vectors is one element too wide.",
    killedBy: ["gemm f32: touches nothing but the elements of C"],
    create: () =>
      replaced("gemm", (p, run) => {
        run(p);
        const last = p.c.byteLength / dtypeBytes[p.dtype];
        storeInto(throughEnd(p.c, p.dtype), p.dtype)(last, 0);
      }),
  },
  {
    name: "reads C where beta is 0",
    operation: "gemm",
    defect: "numerics",
    description: "Multiplies C by 0 instead of leaving it unread; NaN times 0 is NaN.",
    killedBy: ["gemm f32: is exact on whole numbers", "gemm f32: touches nothing but the elements of C"],
    create: () =>
      replaced(products, (p, run) => {
        const before = load(p.c, p.dtype);
        run(p);
        const store = storeInto(p.c, p.dtype);
        if (p.beta === 0)
          gemm(p, load(p.a, p.dtype), load(p.b, p.dtype), before, (i, y) => store(i, y + 0 * before[i]!));
      }),
  },
  {
    name: "applies alpha to C as well",
    operation: "gemm",
    defect: "numerics",
    description: "alpha (A B + beta C).",
    killedBy: ["gemm f32: is exact on whole numbers"],
    create: () => tampered(products, (p) => ({ ...p, beta: p.alpha * p.beta })),
  },
  {
    name: "rounds f32 inputs to TF32",
    operation: "gemm",
    defect: "numerics",
    description: "What tensor cores do with f32 by default; hidden by honest bounds at large k.",
    killedBy: ["gemm f32: does not round its inputs or partial sums to fewer bits"],
    create: () =>
      replaced(products, (p, run) => {
        if (p.dtype !== "f32") return run(p);
        const short = (value: number) => truncate(value, 10);
        run({ ...p, a: mapped(p.a, p.dtype, short), b: mapped(p.b, p.dtype, short) });
      }),
  },
  {
    name: "accumulates f16 products in f16",
    operation: "gemm",
    defect: "numerics",
    description: "The natural thing with f16 arithmetic; the contract wants f32 sums.",
    killedBy: [
      "gemm f16: does not round its inputs or partial sums to fewer bits",
      "gemm f16: stays within the error bound on larger shapes",
    ],
    create: () =>
      replaced(products, (p, run) => {
        if (p.dtype !== "f16" || p.beta !== 0 || p.k === 0) return run(p);
        // One term at a time, each sum rounded when it is stored.
        const { k } = p;
        const zero = mapped(p.c, p.dtype, () => 0);
        const [a, b] = [load(p.a, p.dtype), load(p.b, p.dtype)];
        const [stepA, stepB] = [p.transA ? p.lda : 1, p.transB ? 1 : p.ldb];
        const store = storeInto(zero, p.dtype);
        for (let i = 0; i < k; i++)
          gemm(
            { ...p, k: 1, beta: 1 },
            a.subarray(i * stepA),
            b.subarray(i * stepB),
            load(zero, p.dtype),
            store,
          );
        const sums = load(zero, p.dtype);
        const result = storeInto(p.c, p.dtype);
        gemm({ ...p, k: 0 }, a, b, sums, (i) => result(i, sums[i]!));
      }),
  },
  {
    name: "drops the last k where k % 8 is 1",
    operation: "gemm",
    defect: "edge",
    description: "The remainder of an unrolled loop, in one of its eight cases.",
    killedBy: ["gemm f32: stays within the error bound", "gemm f32: is exact on whole numbers in long sums"],
    create: () => tampered(products, (p) => ({ ...p, k: p.k > 1 && p.k % 8 === 1 ? p.k - 1 : p.k })),
  },
  {
    name: "stops a row short where tiles of six fit exactly",
    operation: "gemm",
    defect: "edge",
    description: "Right for every number of rows but the multiples of a tile that is no power of two.",
    killedBy: ["gemm f32: is exact on whole numbers", "gemm f32: stays within the error bound"],
    create: () => tampered(products, (p) => ({ ...p, m: p.m > 6 && p.m % 6 === 0 ? p.m - 1 : p.m })),
  },
  {
    name: "applies beta again to every part of a long sum",
    operation: "gemm",
    defect: "numerics",
    description: "Parts of 256 of k are added to C one after the other, all with the beta of the call.",
    killedBy: [
      "gemm f32: is exact on whole numbers in long sums",
      "gemm f32: is exact on whole numbers on larger shapes",
    ],
    create: () =>
      replaced(products, (p, run) => {
        if (p.dtype !== "f32" || p.beta === 0 || p.k <= 256) return run(p);
        for (let first = 0; first < p.k; first += 256)
          run({
            ...{ ...p, k: Math.min(256, p.k - first) },
            a: skipping(p.a, p.dtype, first * (p.transA ? p.lda : 1)),
            b: skipping(p.b, p.dtype, first * (p.transB ? 1 : p.ldb)),
          });
      }),
  },
  {
    name: "does nothing, and says so to nobody, where C is large",
    operation: "gemm",
    defect: "errors",
    description: "Seen in a WebGPU library: it goes on with old numbers after validation has failed.",
    killedBy: [
      "gemm f32: stays within the error bound on larger shapes",
      "gemm f16: stays within the error bound on larger shapes",
    ],
    create: () =>
      replaced(products, (p, run) => {
        if (p.m * p.n <= 2 ** 15) run(p);
      }),
  },
  {
    name: "reads the first block of B again for the next",
    operation: "gemm",
    defect: "indexing",
    description: "C is taken in blocks of 2048 columns, of which few shapes have two.",
    killedBy: [
      "gemm f32: stays within the error bound on larger shapes",
      "gemm f16: stays within the error bound on larger shapes",
    ],
    create: () =>
      replaced(products, (p, run) => {
        run({ ...p, n: Math.min(p.n, 2048) });
        if (p.n > 2048) run({ ...p, n: p.n - 2048, c: skipping(p.c, p.dtype, 2048) });
      }),
  },
  {
    name: "keeps the packed B of an earlier call",
    operation: "gemm",
    defect: "lifecycle",
    description: "Weights are prepared once for each place in memory, whatever is written there later.",
    killedBy: [
      "ordering: gemm: uses its operands as they are at the call",
      "ordering: batchedGemm: uses its operands as they are at the call",
    ],
    create: () => {
      const remember = remembering();
      return tampered(products, (p) => ({ ...p, b: remember(p.b) }));
    },
  },
  {
    name: "packs operands that begin at one place once",
    operation: "gemm",
    defect: "indexing",
    description: "Takes B for A where both have the same address.",
    killedBy: [
      "slices: gemm: inputs may share their elements",
      "slices: batchedGemm: inputs may share their elements",
    ],
    create: () =>
      tampered(products, (p) =>
        p.a.memory === p.b.memory && p.a.byteOffset === p.b.byteOffset
          ? { ...p, b: p.a, transB: p.transA, ldb: p.lda }
          : p,
      ),
  },
];
