import { createWebGpuBackend, isWebGpuBackend, type WebGpuBackend, webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry, SwitchableBackend } from "@backplane/core";
import { assert } from "chai";
import { deviceEnds, foreignDevice, rejection, withoutTime } from "./support.js";

describe("webgpu profiles", () => {
  let backend: WebGpuBackend;
  let device: GPUDevice;
  /** Of all the device was asked for: buffers and query sets that are alive, and compute passes. */
  let alive: Set<string>;
  let passes: number;

  beforeEach(async () => {
    backend = createWebGpuBackend({ dawn: { disable: ["timestamp_quantization"] } });
    await backend.init();
    device = backend.native() as GPUDevice;
    alive = new Set();
    passes = 0;
    watch(device);
  });

  afterEach(() => backend.dispose());

  function watch(target: GPUDevice): void {
    let number = 0;
    const track = <Made extends GPUBuffer | GPUQuerySet>(made: Made): Made => {
      const name = `${made.label} ${number++}`;
      alive.add(name);
      const destroy = made.destroy.bind(made);
      made.destroy = () => {
        alive.delete(name);
        destroy();
      };
      return made;
    };
    const { createBuffer, createQuerySet, createCommandEncoder } = target;
    target.createBuffer = (descriptor) => track(createBuffer.call(target, descriptor));
    target.createQuerySet = (descriptor) => track(createQuerySet.call(target, descriptor));
    target.createCommandEncoder = (descriptor) => {
      const encoder = createCommandEncoder.call(target, descriptor);
      const begin = encoder.beginComputePass.bind(encoder);
      encoder.beginComputePass = (description) => {
        passes++;
        return begin(description);
      };
      return encoder;
    };
  }

  /** Nothing is measured, nothing of the measuring is left, and the next profile works. */
  async function assertIdle(): Promise<void> {
    assert.isEmpty([...alive].filter((name) => name.startsWith("profile")));
    passes = 0;
    const handle = backend.alloc(64);
    withoutTime(() => {
      backend.fill(handle, 1, 16);
      for (let i = 0; i < 10; i++) root(handle, 16);
    });
    await backend.synchronize();
    assert.equal(passes, 1);
    passes = 0;
    const { rows } = await backend.profile(() => root(handle, 16));
    assert.deepEqual(
      rows.map(({ operation, dispatches }) => [operation, dispatches]),
      [["unary", 1]],
    );
    assert.equal(passes, 1);
    backend.free(handle);
  }

  function root(handle: ReturnType<WebGpuBackend["alloc"]>, n: number): void {
    backend.unary({ kind: "sqrt", n, input: handle, output: handle });
  }

  it("tell what each kernel took, and what the host did", async () => {
    const n = 512;
    const [a, b, c] = [backend.alloc(4 * n * n), backend.alloc(4 * n * n), backend.alloc(4 * n * n)];
    const work = async (): Promise<Float32Array> => {
      backend.copyHtoD(a, new Float32Array(n * n).fill(1));
      backend.fill(b, 0.5, n * n);
      for (let i = 0; i < 3; i++) backend.gemm({ m: n, n, k: n, a, b, c });
      for (let i = 0; i < 3; i++) root(c, 16);
      const results = new Float32Array(2);
      await backend.copyDtoH(results, c);
      return results;
    };
    assert.isAtLeast((await backend.profile(work)).compiledPipelines, 3);
    const profile = await backend.profile(work);
    assert.equal(profile.compiledPipelines, 0);
    assert.deepEqual([...profile.result], [2, 2]);
    const of = (operation: string) => profile.rows.find((row) => row.operation === operation)!;
    const [gemm, unary] = [of("gemm"), of("unary")];
    assert.match(gemm.kernel, /^gemm_/);
    assert.deepEqual([gemm.dispatches, gemm.measured], [3, 3]);
    assert.sameMembers(
      profile.rows.map(({ operation }) => operation),
      ["gemm", "fill", "unary"],
    );
    assert.isAbove(gemm.minMicroseconds, 0);
    assert.isAtMost(gemm.minMicroseconds, gemm.meanMicroseconds);
    assert.isAtMost(gemm.meanMicroseconds, gemm.maxMicroseconds);
    // Millions of times the work, so that on busy machines, too, waiting makes no difference.
    assert.isAbove(gemm.minMicroseconds, unary.minMicroseconds);
    assert.approximately(
      profile.rows.reduce((sum, { share }) => sum + share, 0),
      1,
      1e-9,
    );
    assert.deepEqual([profile.dispatches, profile.uploadedBytes, profile.downloadedBytes], [7, 4 * n * n, 8]);
    assert.isAtLeast(profile.submits, 1);
    assert.isAtMost(profile.deviceMicroseconds, profile.wallMicroseconds);
    assert.isAbove(profile.hostMicroseconds, 0);
    assert.sameMembers(
      profile.calls.map(({ operation, calls }) => `${operation} ${calls}`),
      ["copyHtoD 1", "fill 1", "gemm 3", "unary 3", "copyDtoH 1"],
    );
    const trace = profile.toChromeTrace().traceEvents.filter(({ ph }) => ph === "X");
    assert.lengthOf(trace, 7 + 9);
    assert.isTrue(trace.every(({ ts, dur }) => ts! >= 0 && dur! >= 0));
    assert.include(String(profile), gemm.kernel);
    await assertIdle();
  });

  it("measure many thousand dispatches that nobody waits for", async () => {
    const handle = backend.alloc(64);
    backend.fill(handle, 1, 16);
    const before = backend.memory().reservedBytes;
    const count = 9000;
    const profile = await backend.profile(
      () => {
        for (let i = 0; i < count; i++) root(handle, 16);
        return backend.memory().reservedBytes - before;
      },
      { maxTraceEvents: 100 },
    );
    assert.deepEqual([profile.dispatches, profile.rows[0]!.measured], [count, count]);
    assert.isAtLeast(profile.submits, count / 64);
    // Sixteen bytes each, in three buffers of 64 KiB.
    assert.equal(profile.result, 1024 + 3 * 65_536);
    assert.equal(backend.memory().reservedBytes, before);
    assert.isAtMost(profile.toChromeTrace().traceEvents.length, 200 + 10);
    await assertIdle();
  });

  it("take the same buffers again while the host waits now and then", async () => {
    const handle = backend.alloc(64);
    backend.fill(handle, 1, 16);
    const before = backend.memory().reservedBytes;
    const { result, dispatches } = await backend.profile(async () => {
      for (let i = 0; i < 12_000; i++) {
        root(handle, 16);
        if (i % 1000 === 999) await backend.synchronize();
      }
      return backend.memory().reservedBytes - before;
    });
    assert.equal(dispatches, 12_000);
    assert.isAtMost(result, 1024 + 2 * 65_536);
  });

  it("end with what the profiled function throws", async () => {
    const handle = backend.alloc(64);
    const failure = new Error("no more of this");
    const unhandled: unknown[] = [];
    const note = (reason: unknown): number => unhandled.push(reason);
    process.on("unhandledRejection", note);
    for (const work of [
      () => {
        // Some of the timestamps are on their way by then.
        for (let i = 0; i < 5000; i++) root(handle, 16);
        throw failure;
      },
      async () => {
        root(handle, 16);
        await backend.synchronize();
        throw failure;
      },
    ])
      assert.strictEqual(await backend.profile(work).catch((error: unknown) => error), failure);
    await assertIdle();
    process.off("unhandledRejection", note);
    assert.isEmpty(unhandled);
  });

  it("end with the faults of the device", async () => {
    const other = await foreignDevice();
    const foreign = backend.importBuffer(other.createBuffer({ size: 64, usage: 0x80 | 0x04 | 0x08 }));
    const error = await rejection(backend.profile(() => root(foreign, 16)));
    assert.equal(error.code, "DEVICE_ERROR");
    assert.match(error.message, /^unary: /);
    backend.free(foreign);
    other.destroy();
    await assertIdle();
  });

  it("are taken one at a time", async () => {
    const handle = backend.alloc(64);
    let nested: Promise<unknown> | undefined;
    const outer = backend.profile(async () => {
      nested = rejection(backend.profile(() => {}));
      await nested;
      root(handle, 16);
    });
    const concurrent = await rejection(backend.profile(() => {}));
    for (const error of [concurrent, (await nested) as typeof concurrent]) {
      assert.equal(error.code, "BUSY");
      assert.match(error.message, /^profile: another profile .*allowed: one at a time/);
    }
    assert.equal((await outer).dispatches, 1);
    await assertIdle();
  });

  for (const [what, code, end] of deviceEnds)
    it(`end when the device is ${what}`, async () => {
      const handle = backend.alloc(64);
      const error = await rejection(
        backend.profile(async () => {
          root(handle, 16);
          await end(backend);
        }),
      );
      assert.equal(error.code, code);
      assert.match(error.message, /^profile: /);
      assert.isEmpty([...alive].filter((name) => name.startsWith("profile")));
      if (code === "DISPOSED") return;
      await backend.init();
      watch(backend.native() as GPUDevice);
      await assertIdle();
    });

  it("refuse what they cannot do, and say why", async () => {
    const without = createWebGpuBackend({ disableFeatures: ["timestamp-query"] });
    const given = await foreignDevice();
    const guest = createWebGpuBackend({ device: given });
    for (const blind of [without, guest]) {
      assert.equal((await rejection(blind.profile(() => {}))).code, "NOT_INITIALIZED");
      await blind.init();
      const error = await rejection(blind.profile(() => assert.fail("the work was done")));
      assert.equal(error.code, "UNSUPPORTED");
      assert.match(error.message, /^profile: .*timestamp-query.*adapter lacks.*disableFeatures.*given/);
      const { features } = blind.native() as GPUDevice;
      assert.isFalse(features.has("timestamp-query"));
      await blind.dispose();
    }
    given.destroy();
    const unknown = await rejection(backend.profile(() => {}, { maxEvents: 9 } as object));
    assert.match(unknown.message, /^profile: maxEvents is unknown; allowed: maxTraceEvents/);
    for (const maxTraceEvents of [-1, 0.5, Number.NaN, "9" as unknown as number]) {
      const error = await rejection(backend.profile(() => {}, { maxTraceEvents }));
      assert.equal(error.code, "INVALID_ARGUMENT");
      assert.match(error.message, /^profile: maxTraceEvents is .*; allowed: whole numbers from 0/);
    }
    const error = await rejection(backend.profile("work" as unknown as () => void));
    assert.match(error.message, /^profile: work is work; allowed: a function/);
    await assertIdle();
  });

  it("are also those of a backend that can be exchanged for another", async () => {
    const switchable = new SwitchableBackend(new BackendRegistry([webgpu()]));
    await switchable.init();
    const { inner } = switchable;
    assert.isTrue(isWebGpuBackend(inner));
    if (!isWebGpuBackend(inner)) return;
    const handle = switchable.alloc(64);
    const { rows } = await inner.profile(() => switchable.fill(handle, 1, 16));
    assert.equal(rows[0]!.operation, "fill");
    await switchable.dispose();
  });
});
