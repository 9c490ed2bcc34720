// Tags: kernels, pure
import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import { CompareBackend, describeBackend, type Law, laws } from "@backplane/conformance";
import {
  type ComputeBackend,
  FallbackBackend,
  type OperationName,
  operationNames,
  replayTrace,
  TraceBackend,
  upload,
} from "@backplane/core";
import { assert } from "chai";
import { soonCompiled } from "./laws-support.js";

const webgpu = (): WebGpuBackend => createWebGpuBackend(soonCompiled);
const cpu = (): ComputeBackend => createCpuBackend({ threads: 0 });

/** Every other operation is only on the CPU. */
const lacking: readonly string[] = operationNames.filter((_, i) => i % 2 === 0);

/** A WebGPU backend that does not support some operations, and refuses their calls. */
function lackingWebGpu(): WebGpuBackend {
  const backend = webgpu();
  const { supports, run } = backend;
  const isLacking = (given: OperationName | { readonly name: string }): boolean =>
    lacking.includes(typeof given === "string" ? given : given.name);
  backend.supports = (operation, question) =>
    !isLacking(operation) && supports.call(backend, operation, question);
  backend.run = ((operation: never, args: never) => {
    if (isLacking(operation)) throw new Error("the call should have gone to the CPU");
    run.call(backend, operation, args);
  }) as typeof backend.run;
  return backend;
}

/** What is around the operations, and one law on each of some. */
const around: readonly string[] = ["lifecycle", "memory", "stateful", "swapping", "loss"];
const some: readonly string[] = ["gemm", "unary", "softmax", "gather", "select", "binary"];
const chosen: readonly Law[] = [
  ...laws.filter(({ topic }) => around.includes(topic)),
  ...some.map((operation) => laws.find(({ topic }) => topic === operation)!),
  ...laws.filter(({ topic, name }) => topic === "recordings" && /^(gemm|unary|[a-z ]+$)/.test(name)),
];

describe("FallbackBackend over WebGPU and the CPU", () => {
  const lost = new WeakMap<ComputeBackend, WebGpuBackend>();
  describeBackend(
    {
      name: "it",
      create() {
        const first = lackingWebGpu();
        const backend = new FallbackBackend(first, cpu(), { warn: () => {} });
        lost.set(backend, first);
        return backend;
      },
      loseDevice: (backend) => lost.get(backend)!.loseDevice(),
      options: { mode: "quick", runs: 1, laws: chosen },
    },
    globalThis,
  );

  it("moves what a chain of calls needs back and forth, and counts it", async () => {
    await using backend = new FallbackBackend(lackingWebGpu(), cpu());
    await backend.init();
    assert.include(lacking, "gemm");
    assert.notInclude(lacking, "unary");
    const [a, b] = [upload(backend, Float32Array.of(1, 2, 3, 4)), backend.alloc(16)];
    for (let i = 0; i < 3; i++) {
      backend.gemm({ m: 2, n: 2, k: 2, a, b: a, c: b });
      backend.unary({ kind: "neg", n: 4, input: b, output: a });
    }
    const result = new Float32Array(4);
    await backend.copyDtoH(result, a);
    // A <- -A A, three times.
    let [p, q, r, s] = [1, 2, 3, 4];
    for (let i = 0; i < 3; i++)
      [p, q, r, s] = [-(p * p + q * r), -(p * q + q * s), -(r * p + s * r), -(r * q + s * s)];
    assert.deepEqual([...result], [p, q, r, s]);
    const { operations } = backend.report();
    const of = (name: string) => operations.find(({ operation }) => operation === name);
    assert.deepInclude(of("gemm"), { first: 0, second: 3, moves: 3 });
    assert.deepInclude(of("unary"), { first: 3, second: 0, moves: 3 });
  });
});

describe("CompareBackend over WebGPU and the CPU, under a trace", () => {
  const compared: CompareBackend[] = [];
  const lost = new WeakMap<ComputeBackend, WebGpuBackend>();
  const wrapped = () => {
    const first = webgpu();
    const compare = new CompareBackend(first, cpu());
    const chunks: Uint8Array[] = [];
    const backend = new TraceBackend(compare, (chunk) => void chunks.push(chunk));
    compared.push(compare);
    lost.set(backend, first);
    return { backend, chunks };
  };
  // With a comparison after each call, these take long; backends that are compared on the CPU keep them.
  const long: readonly string[] = [
    "recordings give back what they held",
    "pending reads find their bytes though all they read is freed",
  ];
  describeBackend(
    {
      name: "it",
      create: () => wrapped().backend,
      loseDevice: (backend) => lost.get(backend)!.loseDevice(),
      options: { mode: "quick", runs: 1, laws: chosen.filter(({ name }) => !long.includes(name)) },
    },
    globalThis,
  );

  it("writes what the CPU then makes again within rounding", async () => {
    const { backend, chunks } = wrapped();
    await backend.init();
    const [x, y] = [upload(backend, Float32Array.of(0.1, 0.2, 0.3, 0.4)), backend.alloc(16)];
    backend.gemm({ m: 2, n: 2, k: 2, a: x, b: x, c: y });
    backend.unary({ kind: "exp", n: 4, input: y, output: y });
    await backend.copyDtoH(new Float32Array(4), y);
    await backend.dispose();
    await using other = cpu();
    await other.init();
    const report = await replayTrace(chunks, other);
    assert.deepInclude(report, { calls: 3, reads: 1, differing: [], isCut: false });
    assert.isBelow(report.largestDifference, 2 ** -18);
  });

  after(() => {
    const reports = compared.map((compare) => compare.report());
    assert.deepEqual(
      reports.flatMap(({ first }) => first?.message ?? []),
      [],
    );
    // Unless only a few of these tests were chosen.
    if (reports.length > 3)
      assert.isAbove(
        reports.reduce((sum, report) => sum + report.compared, 0),
        200,
      );
  });
});
