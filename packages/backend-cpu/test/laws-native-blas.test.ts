// Tags: kernels
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, type Law, laws } from "@backplane/conformance";
import { testBlas } from "@backplane/debian";
import { isAroundAll } from "./laws-support.js";
import { withWorkers } from "./losing-workers.js";

/** A library computes gemm in f32; the rest is as without it. */
const gemmLaws = laws.filter(
  ({ topic, name, dtype }) =>
    dtype === "f32" &&
    (topic === "gemm" ||
      topic === "batchedGemm" ||
      (topic === "numerics" && /^(gemm|batchedGemm):/.test(name))),
);

/** Of the backend as a whole, and of products: no library takes part in other operations. */
const contractTopics = [
  "supports",
  "lifecycle",
  "memory",
  "errors",
  "ordering",
  "resources",
  "stateful",
  "loss",
];
const contractLaws = laws.filter((law) => contractTopics.includes(law.topic) && isAroundAll(law));

describe("Native BLAS", () => {
  let blas = "";
  before(async function () {
    blas = await testBlas(() => this.skip());
  });

  const keeps = (name: string, threads: number, laws: readonly Law[], variants: { gemm?: string }): void => {
    const create = () => createCpuBackend({ threads, blas, variants });
    const subject = threads === 0 ? { create } : withWorkers(create);
    describeBackend({ name, ...subject, options: { laws, mode: "quick" } }, globalThis);
  };
  // Whatever the size; most problems of the laws are too small to be given to a library otherwise.
  for (const threads of [0, 1, 2])
    keeps(`the CPU with ${threads} threads and BLAS where possible`, threads, gemmLaws, { gemm: "blas" });
  keeps("the CPU with 2 threads and BLAS", 2, [...gemmLaws, ...contractLaws], {});
});
