import { load, storeInto } from "../../elements.js";
import { picked, skipping } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { gemm } from "./formula.js";

/** The length of the parts into which some mutants cut a long sum. */
const part = 256;

const products = ["gemm", "batchedGemm"] as const;

/** Defects of the bias and the activation of gemm and batchedGemm. */
export const epilogueMutants = ({ tampered, replaced, altered }: Builder): readonly Mutant[] => [
  {
    name: "ignores the bias of a product",
    operation: "gemm",
    defect: "numerics",
    description: "An argument that is taken, and never looked at again.",
    killedBy: [
      "gemm f32: epilogue: is exact on whole numbers",
      "batchedGemm f16: epilogue: stays within the error bound",
    ],
    create: () => tampered(products, (p) => ({ ...p, bias: undefined })),
  },
  {
    name: "adds the bias by rows",
    operation: "gemm",
    defect: "indexing",
    description: "One element for each row of C, as some libraries have it, and not for each column.",
    killedBy: [
      "gemm f32: epilogue: is exact on whole numbers",
      "gemm f16: epilogue: stays within the error bound",
    ],
    create: () =>
      replaced(products, (p, run) => {
        const { bias, m, n, dtype } = p;
        if (bias === undefined) return run(p);
        for (let row = 0; row < m; row++)
          run({
            ...{ ...p, m: 1 },
            a: skipping(p.a, dtype, row * (p.transA ? 1 : p.lda)),
            c: skipping(p.c, dtype, row * p.ldc),
            bias: picked(bias, dtype, new Array<number>(n).fill(row % n)),
          });
      }),
  },
  {
    name: "begins the bias anew in every block of columns",
    operation: "gemm",
    defect: "stride",
    description: "C is taken in blocks of 32 columns, all with the bias of the first.",
    killedBy: [
      "gemm f32: epilogue: stays within the error bound on larger shapes",
      "batchedGemm f32: epilogue: stays within the error bound on larger shapes",
    ],
    create: () =>
      tampered(products, (p) => {
        const places = Array.from({ length: p.n }, (_, column) => column % 32);
        return { ...p, bias: p.bias && picked(p.bias, p.dtype, places) };
      }),
  },
  {
    name: "activates before it adds the bias",
    operation: "gemm",
    defect: "numerics",
    description: "activation(A B) + bias.",
    killedBy: [
      "gemm f32: epilogue: is exact on whole numbers",
      "batchedGemm f32: epilogue: stays within the error bound",
    ],
    create: () =>
      replaced(products, (p, run) => {
        const { bias, c, dtype } = p;
        run({ ...p, bias: undefined });
        if (bias === undefined) return;
        const nothing = new Float64Array(0);
        const sums = load(c, dtype);
        gemm({ ...p, k: 0, beta: 1 }, nothing, nothing, sums, storeInto(c, dtype), load(bias, dtype));
      }),
  },
  {
    name: "activates every part of a long sum",
    operation: "gemm",
    defect: "numerics",
    description: "Parts of 256 of k are added to C one after the other, each of which ends like the last.",
    killedBy: [
      "gemm f32: epilogue: is exact on whole numbers",
      "gemm f32: epilogue: stays within the error bound on larger shapes",
    ],
    create: () =>
      replaced(products, (p, run) => {
        if (p.dtype !== "f32" || p.k <= part) return run(p);
        for (let first = 0; first < p.k; first += part)
          run({
            ...{ ...p, k: Math.min(part, p.k - first), beta: first === 0 ? p.beta : 1 },
            a: skipping(p.a, p.dtype, first * (p.transA ? p.lda : 1)),
            b: skipping(p.b, p.dtype, first * (p.transB ? 1 : p.ldb)),
            bias: first + part < p.k ? undefined : p.bias,
          });
      }),
  },
  {
    name: "activates long sums twice",
    operation: "gemm",
    defect: "numerics",
    description:
      "What adds the parts up activates, and so does what stores the result; relu does not show it.",
    killedBy: ["gemm f32: epilogue: stays within the error bound on larger shapes"],
    create: () =>
      replaced(products, (p, run) => {
        run(p);
        if (p.k > part) run({ ...p, k: 0, beta: 1, bias: undefined });
      }),
  },
  {
    name: "leaves out the epilogue where there is nothing to sum",
    operation: "gemm",
    defect: "edge",
    description: "A short cut for k = 0 and alpha = 0, older than the epilogue.",
    killedBy: [
      "gemm f32: epilogue: applies where alpha or k is 0, with A and B unread",
      "batchedGemm f16: epilogue: applies where alpha or k is 0, with A and B unread",
    ],
    create: () =>
      tampered(products, (p) => (p.k === 0 ? { ...p, bias: undefined, activation: undefined } : p)),
  },
  {
    name: "takes one approximation of gelu for the other",
    operation: "gemm",
    defect: "numerics",
    description: "They differ by up to 5e-4.",
    killedBy: ["gemm f32: epilogue: stays within the error bound"],
    create: () =>
      tampered(products, (p) => ({ ...p, activation: p.activation === "gelu" ? "geluTanh" : p.activation })),
  },
  {
    name: "cuts nothing off at 6",
    operation: "gemm",
    defect: "numerics",
    description: "relu6 computed as relu.",
    killedBy: ["gemm f32: epilogue: is exact on whole numbers"],
    create: () =>
      tampered(products, (p) => ({ ...p, activation: p.activation === "relu6" ? "relu" : p.activation })),
  },
  {
    name: "drops an epilogue that it does not declare",
    operation: "gemm",
    defect: "errors",
    description: "Written before there was one, it never looks at the new arguments.",
    killedBy: ["supports: gemm in f32: declared calls work, undeclared ones throw UNSUPPORTED"],
    create: () =>
      altered((right) => ({
        supports: (name, question) => question?.activation === undefined && right.supports(name, question),
        gemm: ({ bias: _, activation: __, ...args }) => right.gemm(args),
      })),
  },
  {
    name: "adds the bias to the first matrix of a batch only",
    operation: "batchedGemm",
    defect: "edge",
    description: "Takes the bias for one that goes on from matrix to matrix, and it ends after the first.",
    killedBy: [
      "batchedGemm f32: epilogue: is exact on whole numbers",
      "batchedGemm f16: epilogue: stays within the error bound on larger shapes",
    ],
    create: () =>
      replaced("batchedGemm", (p, run) => {
        if (p.bias === undefined) return run(p);
        run({ ...p, batch: 1 });
        if (p.batch === 1) return;
        const { a, b, c, strideA, strideB, strideC, dtype } = p;
        run({
          ...{ ...p, batch: p.batch - 1, bias: undefined },
          a: skipping(a, dtype, strideA),
          b: skipping(b, dtype, strideB),
          c: skipping(c, dtype, strideC),
        });
      }),
  },
];
