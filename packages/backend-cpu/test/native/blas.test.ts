// Tags: kernels, long
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { BackendError, type ComputeBackend, type DeviceHandle } from "@backplane/core";
import { testBlas } from "@backplane/debian";
import { assert } from "chai";
import { createCpuBackend } from "#src/index.js";
import { gemmOperation } from "#src/kernels/gemm/gemm.js";
import { KernelLibrary } from "#src/kernels/library.js";
import type { BlasLibrary } from "#src/native/blas.js";
import { findBlas } from "#src/native/find-blas.js";
import { spawnWorker } from "#src/queue/workers.js";
import { check, compute, hostile, label, makeCase, type Shape } from "../gemm-cases.js";
import { runProgram } from "../programs.js";
import { Workbench } from "../workbench.js";

describe("gemm by a native library", () => {
  let path = "";
  let library: BlasLibrary;
  before(async function () {
    path = await testBlas(() => this.skip());
    library = findBlas(path).found!.library;
  });

  const computeBy = async (shape: Shape, workers = 1): Promise<Float32Array> => {
    const operation = gemmOperation("blas");
    const bench = await Workbench.create(operation.kernels, { pages: 400, workers, blas: library });
    return compute(bench, "blas", makeCase(shape));
  };

  it("is within the bound for hostile shapes, and leaves gaps alone", async () => {
    const several = { m: 530, n: 300, k: 40, transA: true, pad: 5, beta: 0.5, batch: 2 };
    for (const shape of [...hostile, several, { ...several, transA: false, transB: true, beta: 0 }])
      try {
        check(makeCase(shape), await computeBy(shape));
      } catch (error) {
        throw new Error(`${label(shape)}: ${String(error)}`);
      }
  });

  it("gives the same bits however many workers there are", async () => {
    for (const shape of [
      { m: 301, n: 203, k: 517 },
      { m: 130, n: 70, k: 3000 },
      { m: 40, n: 41, k: 42, batch: 9 },
    ]) {
      const expected = Buffer.from((await computeBy(shape)).buffer);
      for (const workers of [2, 7])
        assert.isTrue(expected.equals(Buffer.from((await computeBy(shape, workers)).buffer)), label(shape));
    }
  });

  it("is the same on 0, 1 and 3 threads, and is told", async () => {
    const results: Buffer[] = [];
    for (const threads of [0, 1, 3])
      await withBackend(threads, async (backend) => {
        const { details } = backend.capabilities.device;
        assert.include(details.blas, path);
        assert.match(details.blas!, /where faster$/);
        assert.notProperty(details, "blasUnavailable");
        results.push(await product(backend, 400, 500, 300));
      });
    for (const result of results.slice(1)) assert.isTrue(result.equals(results[0]!));
  });

  for (const threads of [0, 2])
    it(`follows the memory where growing takes it, with ${threads} threads`, async () => {
      await withBackend(threads, async (backend) => {
        const before = await product(backend, 100, 100, 100);
        const { reservedBytes } = backend.memory();
        const large = backend.alloc(300 << 20, { zero: false });
        assert.isAbove(backend.memory().reservedBytes, reservedBytes);
        assert.isTrue((await product(backend, 100, 100, 100)).equals(before));
        backend.free(large);
      });
    });

  it("reaches operands above 2 GiB", async () => {
    await withBackend(0, async (backend) => {
      const below = await product(backend, 100, 100, 100);
      const filler = backend.alloc(2 ** 31, { zero: false });
      assert.isTrue((await product(backend, 100, 100, 100)).equals(below));
      backend.free(filler);
    });
  });

  for (const threads of [0, 2])
    it(`lets a program end by itself, with ${threads} threads`, async () => {
      // The library may need others that were loaded here, and that its process would not find.
      const { code, output } = await runProgram(`
        import { testBlas } from ${JSON.stringify(import.meta.resolve("@backplane/debian"))};
        const blas = await testBlas(() => process.exit(3));
        const backend = createCpuBackend({ threads: ${threads}, blas });
        await backend.init();
        const n = 700;
        const a = backend.alloc(4 * n * n), c = backend.alloc(4 * n * n);
        backend.fill(a, 1, n * n);
        for (let i = 0; i < 5; i++) backend.gemm({ m: n, n, k: n, a, b: a, c });
        const result = new Float32Array(1);
        await backend.copyDtoH(result, c);
        for (let i = 0; i < 5; i++) backend.gemm({ m: n, n, k: n, a, b: a, c });
        console.log(result[0]);`);
      assert.deepEqual({ code, output }, { code: 0, output: "700\n" });
    });

  it("can be disposed of at any moment while workers start", async () => {
    // koffi would abort the process where one is stopped while it loads it.
    const { code, output } = await runProgram(`
      import { testBlas } from ${JSON.stringify(import.meta.resolve("@backplane/debian"))};
      const blas = await testBlas(() => process.exit(3));
      for (let i = 0; i < 40; i += 2) {
        const backend = createCpuBackend({ threads: 2, blas });
        await backend.init();
        const a = backend.alloc(4 << 18), c = backend.alloc(4 << 18);
        for (let j = 0; j < 20; j++) backend.gemm({ m: 512, n: 512, k: 512, a, b: a, c });
        await new Promise((resolve) => setTimeout(resolve, i));
        await backend.dispose();
      }
      console.log("done");`);
    assert.deepEqual({ code, output }, { code: 0, output: "done\n" });
  });

  async function withBackend(threads: number, body: (backend: ComputeBackend) => Promise<void>) {
    const backend = createCpuBackend({ threads, blas: path });
    await backend.init();
    try {
      await body(backend);
    } finally {
      await backend.dispose();
    }
  }
});

async function product(backend: ComputeBackend, m: number, n: number, k: number): Promise<Buffer> {
  const upload = (count: number, seed: number): DeviceHandle => {
    const handle = backend.alloc(4 * count, { zero: false });
    backend.copyHtoD(
      handle,
      Float32Array.from({ length: count }, (_, i) => Math.sin(i * seed)),
    );
    return handle;
  };
  const [a, b, c] = [upload(m * k, 0.7), upload(k * n, 1.3), upload(m * n, 1)];
  backend.gemm({ m, n, k, a, b, c, beta: 0.5 });
  const result = new Uint8Array(4 * m * n);
  await backend.copyDtoH(result, c);
  for (const handle of [a, b, c]) backend.free(handle);
  return Buffer.from(result);
}

describe("the option blas", () => {
  const refusal = async (options: Parameters<typeof createCpuBackend>[0]): Promise<BackendError> => {
    const backend = createCpuBackend(options);
    const error = await backend.init().then(
      () => assert.fail("it was opened"),
      (thrown: unknown) => thrown,
    );
    assert.instanceOf(error, BackendError);
    return error as BackendError;
  };

  it("is a path, auto or false", () => {
    for (const blas of [true, "", 7, null])
      assert.throws(
        () => createCpuBackend({ blas: blas as never }),
        BackendError,
        /blas is .*allowed: "auto", the path of a library, or false/,
      );
  });

  it("is off unless it is asked for", async () => {
    await using backend = createCpuBackend({ threads: 0 });
    await backend.init();
    const { details } = backend.capabilities.device;
    assert.notProperty(details, "blas");
    assert.notProperty(details, "blasUnavailable");
  });

  it("fails for a library that is not there", async () => {
    const { code, message } = await refusal({ blas: "/nowhere/libblas.so" });
    assert.equal(code, "UNSUPPORTED");
    assert.match(message, /blas is \/nowhere\/libblas\.so: .*load/);
  });

  it("fails for a library that is something else", async () => {
    const other = { linux: "libm.so.6", darwin: "/usr/lib/libSystem.B.dylib" }[process.platform as string];
    const { code, message } = await refusal({ blas: other ?? "kernel32.dll" });
    assert.equal(code, "UNSUPPORTED");
    assert.match(message, /it has no function cblas_sgemm/);
  });

  it("has to be on for the variant blas", async () => {
    const { code, message } = await refusal({ variants: { gemm: "blas" } });
    assert.equal(code, "UNSUPPORTED");
    assert.match(message, /needs a native library \(blas is off\)/);
  });

  it("auto opens with or without a library, and says which or why not", async () => {
    await using backend = createCpuBackend({ threads: 0, blas: "auto" });
    await backend.init();
    const { details } = backend.capabilities.device;
    const told = [details.blas, details.blasUnavailable].filter((text) => text !== undefined);
    assert.lengthOf(told, 1);
    assert.isNotEmpty(told[0]);
  });

  it("ends a worker that cannot load the library, and the reason is told", async () => {
    const memory = new WebAssembly.Memory({ initial: 4, maximum: 4, shared: true });
    const limits = { initialPages: 4, maximumPages: 4, shared: true };
    const library = { path: "/nowhere/libblas.so", symbol: "cblas_sgemm", integer: "int" } as const;
    const { code: kernels } = new KernelLibrary([], limits, { relaxedSimd: false }, library);
    const reason = await new Promise<string>((resolve, reject) => {
      const listeners = { message: () => reject(new Error("it is up")), ended: resolve };
      spawnWorker(0, listeners).start({ kernels, memory, scratch: 0, worker: 0 });
    });
    assert.match(reason, /load/);
  });

  describe("without koffi", () => {
    let folder = "";
    before(() => {
      folder = mkdtempSync(join(tmpdir(), "backplane-no-koffi-"));
      for (const [name, entry] of [
        ["core", import.meta.resolve("@backplane/core")],
        ["backend-cpu", import.meta.resolve("@backplane/backend-cpu")],
      ] as const) {
        const target = join(folder, "node_modules/@backplane", name);
        mkdirSync(target, { recursive: true });
        const source = fileURLToPath(new URL("..", entry));
        for (const part of ["package.json", "dist"])
          cpSync(join(source, part), join(target, part), { recursive: true });
      }
    });
    after(() => rmSync(folder, { recursive: true, force: true }));

    it("leaves auto without a library and fails a path, with the reason", async () => {
      const entry = pathToFileURL(join(folder, "node_modules/@backplane/backend-cpu/dist/index.js")).href;
      const { code, output } = await runProgram(
        `const backend = createCpuBackend({ threads: 1, blas: "auto" });
        await backend.init();
        console.log(backend.capabilities.device.details.blasUnavailable);
        await backend.dispose();
        await createCpuBackend({ blas: "/lib.so" }).init().catch(({ code, message }) => console.log(code, message));`,
        entry,
      );
      assert.equal(code, 0, output);
      const [first, second] = output.split("\n");
      assert.match(first!, /^npm koffi cannot be loaded: .*koffi/);
      assert.match(second!, /^UNSUPPORTED .*blas is \/lib\.so: npm koffi cannot be loaded/);
    });
  });
});
