import { type CpuKernel, createCpuBackend } from "@backplane/backend-cpu/bare";
import { gemm, unary } from "@backplane/backend-cpu/kernels";
import {
  BackendError,
  type ComputeBackend,
  defineOperation,
  download,
  type Operation,
  type OperationName,
  operationNames,
  operations,
  type Region,
  upload,
} from "@backplane/core";
import { assert } from "chai";
import { address, type CpuMemory, defineKernel, type OwnCpuKernel } from "#src/kernel.js";
import { allKernels } from "#src/kernels/index.js";
import * as list from "#src/kernels/list.js";
import { f32, i32 } from "#src/wasm/index.js";

const chosen: readonly OperationName[] = ["gemm", "batchedGemm", "unary"];
const absent = operationNames.filter((name) => !chosen.includes(name));

function refusalOf(call: () => unknown): BackendError {
  try {
    call();
  } catch (error) {
    if (error instanceof BackendError) return error;
    throw error;
  }
  return assert.fail("nothing was refused");
}

/** An operation and its kernel as somebody may have them: output = 2 input, for one number. */
const twice: OwnCpuKernel<{ readonly input: Region<CpuMemory>; readonly output: Region<CpuMemory> }> =
  (() => {
    const operation = defineOperation({
      name: "twice",
      arguments: {
        input: { role: "reads", shape: "1" },
        output: { role: "writes", shape: "1" },
      },
      resolve: (args, binder, read) => ({
        input: read.region(binder, "input", args.input, 1, "f32"),
        output: read.region(binder, "output", args.output, 1, "f32"),
      }),
      flops: () => 1,
    });
    const kernel = defineKernel({
      name: "twice",
      parameters: { input: "i32", output: "i32" },
      emit(f, { parameters: { input, output } }) {
        f.store(i32.add(output, 0), f32.mul(f32.load(input), 2));
      },
    });
    return {
      operation,
      supports: [{}],
      kernels: [kernel],
      plan: ({ input, output }) => [kernel.launch({ input: address(input), output: address(output) }, 1)],
    };
  })();

describe("a CPU backend of chosen kernels", () => {
  let backend: ComputeBackend;
  beforeEach(async () => {
    backend = createCpuBackend({ threads: 0, kernels: [gemm, unary, twice] });
    await backend.init();
  });
  afterEach(() => backend.dispose());

  it("computes what they do, and what kernels of the program's own operations do", async () => {
    const a = upload(backend, new Float32Array([1, -2, 3, 4]));
    const c = backend.alloc(16);
    backend.gemm({ m: 2, n: 2, k: 2, a, b: a, c });
    assert.deepEqual([...(await download(backend, c, Float32Array, 4))], [-5, -10, 15, 10]);
    backend.run("unary", { kind: "relu", n: 4, input: a, output: c });
    assert.deepEqual([...(await download(backend, c, Float32Array, 4))], [1, 0, 3, 4]);
    backend.run(twice.operation, { input: a, output: c });
    assert.deepEqual([...(await download(backend, c, Float32Array, 1))], [2]);
  });

  it("supports these and nothing else", () => {
    for (const name of operationNames) {
      assert.equal(backend.supports(name), chosen.includes(name), name);
      assert.equal(backend.supports(operations[name]), chosen.includes(name), name);
    }
    assert.isTrue(backend.supports(twice.operation));
    assert.isTrue(backend.supports("gemm", { dtype: "f16", bias: true }));
    assert.isFalse(backend.supports("gemm", { dtype: "u8" }));
  });

  it("says of all others how a program comes by them, whatever the arguments and however they are called", () => {
    for (const name of absent) {
      for (const call of [
        () => backend[name]({} as never),
        () => backend.run(name, undefined as never),
        () => backend.run(operations[name] as Operation, {}),
        () => backend.record(() => backend[name]({} as never)),
      ]) {
        const { code, operation, message } = refusalOf(call);
        assert.deepEqual([code, operation], ["UNSUPPORTED", name]);
        const advice = `import { ${name} } from "@backplane/backend-cpu/kernels" and add it to the option kernels`;
        assert.equal(message, `${name}: cpu was made without it; ${advice}`);
      }
    }
  });

  it("refuses what is wrong about the kernels it has as any backend does", () => {
    assert.equal(refusalOf(() => backend.gemm({ m: 1 } as never)).code, "INVALID_ARGUMENT");
    assert.equal(refusalOf(() => backend.run("twice" as never, {} as never)).code, "INVALID_ARGUMENT");
  });

  it("tells the state of the backend first", async () => {
    const unopened = createCpuBackend({ threads: 0, kernels: [gemm] });
    assert.equal(refusalOf(() => unopened.softmax({} as never)).code, "NOT_INITIALIZED");
    await unopened.dispose();
    assert.equal(refusalOf(() => unopened.softmax({} as never)).code, "DISPOSED");
  });

  it("takes a list that has each kernel once, and no variants of others", () => {
    for (const [kernels, complaint] of [
      [[gemm, unary, gemm], "kernels has gemm twice; allowed: once"],
      [undefined, "kernels is undefined; allowed: a list of kernels"],
      [[gemm, undefined], "kernels has undefined at place 1; allowed: kernels for this backend"],
      [[{ operations: [] }], "kernels has object at place 0; allowed: kernels for this backend"],
    ] as const) {
      const { code, message } = refusalOf(() => createCpuBackend({ kernels: kernels as never }));
      assert.deepEqual([code, message], ["INVALID_ARGUMENT", `cpu: ${complaint}`]);
    }
    assert.equal(refusalOf(() => createCpuBackend(undefined as never)).code, "INVALID_ARGUMENT");
    const { message } = refusalOf(() => createCpuBackend({ kernels: [gemm], blas: "auto" } as never));
    assert.equal(
      message,
      'cpu: blas is "auto"; allowed: false: only the entry with all kernels has native libraries',
    );
    const variants = { gemm: "4x8" };
    createCpuBackend({ kernels: [gemm], variants });
    assert.equal(refusalOf(() => createCpuBackend({ kernels: [unary], variants })).code, "INVALID_ARGUMENT");
  });

  it("can have every operation: the kernels that the advice names are those of the whole backend", async () => {
    const bare = createCpuBackend({ threads: 0, kernels: [] });
    await bare.init();
    const kernels = new Set<CpuKernel>();
    const choices: Readonly<Record<string, CpuKernel>> = { ...list };
    for (const name of operationNames) {
      const { message } = refusalOf(() => bare[name]({} as never));
      const [, exported] = /import \{ (\w+) \} from "@backplane\/backend-cpu\/kernels"/.exec(message)!;
      const kernel = choices[exported!]!;
      assert.include(kernel.operations as readonly unknown[], operations[name]);
      assert.equal(kernel.kernel as unknown, allKernels.operations[name]);
      kernels.add(kernel);
    }
    await bare.dispose();
    const names = [...kernels].flatMap(({ operations: each }) => each.map(({ name }) => name));
    assert.sameMembers(names, [...operationNames]);
  });
});
