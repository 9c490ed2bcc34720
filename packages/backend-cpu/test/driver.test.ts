import { BackendError, type ComputeBackend, type DeviceHandle, encodeFloat16 } from "@backplane/core";
import { expect } from "chai";
import { all } from "#src/all.js";
import { detectFeatures } from "#src/features.js";
import { type CpuNativeRegion, type CpuOptions, cpu, createCpuBackend } from "#src/index.js";
import { fittingGemmVariants } from "#src/kernels/gemm/variants.js";
import { resolveOptions } from "#src/options.js";

async function withBackend(
  options: CpuOptions,
  body: (backend: ComputeBackend) => Promise<void>,
): Promise<void> {
  const backend = createCpuBackend(options);
  await backend.init();
  try {
    await body(backend);
  } finally {
    await backend.dispose();
  }
}

/** A few operations of every sort on the same numbers; answers all bytes of all results. */
async function everything(backend: ComputeBackend): Promise<Buffer> {
  const floats = Float32Array.from({ length: 200 * 200 }, (_, i) => Math.sin(i * 12.9898) * 3);
  const upload = (array: Float32Array | Uint16Array): DeviceHandle => {
    const handle = backend.alloc(array.byteLength, { zero: false });
    backend.copyHtoD(handle, array);
    return handle;
  };
  const a = upload(floats);
  const half = upload(encodeFloat16(floats));
  const results: { handle: DeviceHandle; bytes: number }[] = [];
  const result = (bytes: number): DeviceHandle => {
    const handle = backend.alloc(bytes);
    results.push({ handle, bytes });
    return handle;
  };
  const n = 200;
  backend.gemm({ m: n, n, k: n, a, b: a, c: result(4 * n * n), transB: true });
  backend.gemm({ m: n, n, k: n, a: half, b: half, c: result(2 * n * n), dtype: "f16" });
  backend.batchedGemm({ batch: 25, m: 40, n: 40, k: 40, a, b: a, c: result(4 * n * n), strideA: 100 });
  const sums = result(4 * n);
  backend.reduce({ kind: "sum", shape: [n, n], axes: [0], input: a, output: sums });
  backend.reduce({ kind: "sum", shape: [n, n], input: a, output: result(4) });
  backend.unary({ kind: "tanh", n: n * n, input: a, output: result(4 * n * n) });
  backend.binary({ kind: "add", shapeA: [n, n], shapeB: [n], a, b: sums, output: result(4 * n * n) });
  const read = await Promise.all(
    results.map(async ({ handle, bytes }) => {
      const target = new Uint8Array(bytes);
      await backend.copyDtoH(target, handle);
      return target;
    }),
  );
  return Buffer.concat(read);
}

describe("cpu backend", () => {
  it("gives the same bits with 0, 1, 2 and 5 threads", async () => {
    const results: Buffer[] = [];
    for (const threads of [0, 1, 2, 5])
      await withBackend({ threads }, async (backend) => {
        results.push(await everything(backend));
      });
    for (const result of results.slice(1)) expect(result.equals(results[0]!)).to.equal(true);
  });

  it("says which variant of gemm it has chosen and by what time, the same for all backends of a process", async () => {
    const choice = fittingGemmVariants(detectFeatures(), undefined).map(({ name }) => name);
    const details: Readonly<Record<string, string>>[] = [];
    for (const threads of [0, 2, 2])
      await withBackend({ threads }, async (backend) => {
        details.push(backend.capabilities.device.details);
      });
    for (const { gemmVariant, gemmTimed } of details) {
      expect(gemmVariant).to.be.oneOf(choice);
      if (choice.length === 1) expect(gemmTimed).to.equal(undefined);
      else expect(gemmTimed?.replaceAll(/\d+(?=,| G)/g, "N")).to.equal(`${choice.join(" N, ")} N GFLOP/s`);
    }
    expect(details[2]).to.deep.equal(details[1]);
    await withBackend({ threads: 0, variants: { gemm: "4x8" } }, async (backend) => {
      expect(backend.capabilities.device.details).to.include({ gemmVariant: "4x8" });
      expect(backend.capabilities.device.details).to.not.have.property("gemmTimed");
    });
  });

  for (const threads of [0, 2]) {
    describe(`with ${threads} threads`, () => {
      it("keeps its memory bounded through 100,000 allocations", async () => {
        await withBackend({ threads }, async (backend) => {
          const live: DeviceHandle[] = [];
          let reserved = 0;
          for (let i = 0; i < 100_000; i++) {
            live.push(backend.alloc(1 + ((i * 7919) % 5000)));
            if (live.length > 40) backend.free(live.splice((i * 31) % 40, 1)[0]!);
            if (i % 10_000 === 0) await backend.synchronize();
            if (i === 2000) reserved = backend.memory().reservedBytes;
          }
          for (const handle of live) backend.free(handle);
          await backend.synchronize();
          expect(backend.memory()).to.include({ liveAllocations: 0, liveBytes: 0 });
          // Threads may have taken the staging for writes meanwhile, nothing else.
          expect(backend.memory().reservedBytes).to.equal(reserved);
        });
      });

      it("hands out zeros, also where something was before, unless told otherwise", async () => {
        await withBackend({ threads }, async (backend) => {
          for (let i = 0; i < 50; i++) {
            const bytes = 100 + 1000 * i;
            const handle = backend.alloc(bytes);
            const contents = new Uint8Array(bytes).fill(1);
            const read = backend.copyDtoH(contents, handle);
            backend.fill(handle, 255, bytes, "u8");
            backend.free(handle);
            await read;
            expect(contents.every((byte) => byte === 0)).to.equal(true);
          }
        });
      });

      it("computes up to the end of 4 GiB, in one allocation", async () => {
        await withBackend({ threads }, async (backend) => {
          const { maxAllocationBytes } = backend.capabilities.limits;
          // What is missing is for the queue and scratch. Memory that nobody touches costs nothing.
          expect(maxAllocationBytes).to.be.greaterThan(2 ** 32 - 2 ** 20);
          const handle = backend.alloc(maxAllocationBytes);
          const [a, b, sums] = [3, 2, 1].map((place) => ({
            handle,
            byteOffset: maxAllocationBytes - 4000 * place,
          }));
          backend.copyHtoD(a!, new Float32Array(1000).fill(2));
          backend.copyHtoD(b!, new Float32Array(1000).fill(3));
          backend.binary({ kind: "add", n: 1000, a: a!, b: b!, output: sums! });
          const results = new Float32Array(1000);
          await backend.copyDtoH(results, sums!);
          expect(results.every((sum) => sum === 5)).to.equal(true);
        });
      });

      it("refuses more memory than it may have, and goes on", async () => {
        await withBackend({ threads, maxBytes: 16 << 20 }, async (backend) => {
          const { maxAllocationBytes } = backend.capabilities.limits;
          const large = backend.alloc(maxAllocationBytes);
          expect(() => backend.alloc(1000))
            .to.throw(BackendError, /1000 bytes asked for; 1 live block/)
            .with.property("code", "OUT_OF_MEMORY");
          backend.free(large);
          const whole = backend.alloc(maxAllocationBytes);
          const last = new Uint8Array([42]);
          backend.copyHtoD({ handle: whole, byteOffset: maxAllocationBytes - 1 }, last);
          const result = new Uint8Array(1);
          await backend.copyDtoH(result, { handle: whole, byteOffset: maxAllocationBytes - 1 });
          expect(result[0]).to.equal(42);
          expect(backend.memory().reservedBytes).to.be.at.most(16 << 20);
        });
      });

      it("runs out of memory for a workspace without a trace", async () => {
        await withBackend({ threads, maxBytes: 8 << 20 }, async (backend) => {
          const a = backend.alloc(1 << 20);
          const c = backend.alloc(1 << 20);
          const { maxAllocationBytes } = backend.capabilities.limits;
          const rest = backend.alloc(maxAllocationBytes - (2 << 20) - 100_000);
          const call = () => backend.gemm({ m: 512, n: 512, k: 512, a, b: a, c });
          expect(call).to.throw(BackendError).with.property("code", "OUT_OF_MEMORY");
          backend.free(rest);
          call();
          await backend.synchronize();
        });
      });

      it("copies and fills at any offset", async () => {
        await withBackend({ threads }, async (backend) => {
          const handle = backend.alloc(64);
          backend.fill({ handle, byteOffset: 4 }, 1, 3);
          backend.copyDtoD({ handle, byteOffset: 33 }, { handle, byteOffset: 5 }, 9);
          const bytes = new Uint8Array(64);
          await backend.copyDtoH(bytes, handle);
          const expected = new Uint8Array(64);
          new Float32Array(expected.buffer, 4, 3).fill(1);
          expected.set(expected.slice(5, 14), 33);
          expect([...bytes]).to.deep.equal([...expected]);
        });
      });

      it("shows the memory underneath", async () => {
        await withBackend({ threads }, async (backend) => {
          const handle = backend.alloc(16);
          backend.fill(handle, 1.5, 4);
          await backend.synchronize();
          const memory = backend.native();
          expect(memory).to.be.instanceOf(WebAssembly.Memory);
          const region = backend.native(handle) as CpuNativeRegion;
          expect(region.memory).to.equal(memory);
          const view = new Float32Array(region.memory.buffer, region.byteOffset, region.byteLength / 4);
          expect([...view]).to.deep.equal([1.5, 1.5, 1.5, 1.5]);
        });
      });

      it("can be opened many times over", async () => {
        for (let i = 0; i < 10; i++)
          await withBackend({ threads }, async (backend) => {
            backend.fill(backend.alloc(64), 1, 16);
          });
      });
    });
  }

  it("describes itself, opened or not", async () => {
    const provider = cpu({ threads: 2, variants: { gemm: "4x8" }, relaxedSimd: false });
    expect(provider.name).to.equal("cpu");
    const found = await provider.probe();
    await withBackend({ threads: 2, variants: { gemm: "4x8" }, relaxedSimd: false }, async (backend) => {
      const { device } = backend.capabilities;
      expect(found).to.deep.equal({ available: true, device });
      expect(device).to.include({ kind: "cpu", name: "WebAssembly SIMD, 2 threads", software: false });
      expect(device.details).to.include({ threads: "2", gemmVariant: "4x8" });
    });
  });

  it("works without SharedArrayBuffer, and says so", async () => {
    const { spawnSync } = await import("node:child_process");
    const script = `
      delete globalThis.SharedArrayBuffer;
      const { createCpuBackend } = await import(${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)});
      const backend = createCpuBackend({ threads: 2 });
      await backend.init();
      const { details } = backend.capabilities.device;
      const handle = backend.alloc(4);
      backend.fill(handle, 2.5, 1);
      const result = new Float32Array(1);
      await backend.copyDtoH(result, handle);
      console.log(JSON.stringify([details.threads, details.threadsUnavailable, result[0]]));`;
    const child = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(child.stderr).to.equal("");
    const [threads, reason, value] = JSON.parse(child.stdout) as [string, string, number];
    expect(threads).to.equal("0");
    expect(reason).to.match(/SharedArrayBuffer is missing/);
    expect(value).to.equal(2.5);
  });

  it("makes do with less memory where the engine does not set so much aside", async () => {
    const whole = WebAssembly.Memory;
    const tried: number[] = [];
    WebAssembly.Memory = class extends whole {
      constructor(descriptor: WebAssembly.MemoryDescriptor) {
        tried.push(descriptor.maximum!);
        if (descriptor.maximum! > 20_000) throw new RangeError("not that many");
        super(descriptor);
      }
    };
    try {
      await withBackend({ threads: 0 }, async (backend) => {
        expect(tried).to.deep.equal([65535, 32767, 16383]);
        expect(backend.capabilities.limits.maxAllocationBytes).to.be.within(2 ** 29, 2 ** 30);
      });
      const error = await createCpuBackend({ threads: 0, maxBytes: 2 ** 31 })
        .init()
        .catch((reason: unknown) => reason);
      expect(error).to.be.instanceOf(BackendError).with.property("code", "OUT_OF_MEMORY");
    } finally {
      WebAssembly.Memory = whole;
    }
  });

  it("refuses options that cannot be", () => {
    for (const [options, argument] of [
      [{ thread: 2 } as object, "thread"],
      [null as unknown as object, "options"],
      [{ threads: -1 }, "threads"],
      [{ threads: 1.5 }, "threads"],
      [{ maxBytes: 10 }, "maxBytes"],
      [{ maxBytes: 2 ** 33 }, "maxBytes"],
      [{ variants: { gemm: "9x9" } }, "variants.gemm"],
      [{ variants: { conv2d: "4x8" } as object }, "variants.conv2d"],
      [{ variants: null as unknown as object }, "variants"],
      [{ relaxedSimd: "yes" as unknown as boolean }, "relaxedSimd"],
      [{ transformedConvolutions: "3x3" as "2x2" }, "transformedConvolutions"],
    ] as const)
      expect(() => cpu(options))
        .to.throw(BackendError)
        .that.includes({ code: "INVALID_ARGUMENT", argument });
    expect(() => cpu({ threads: "2" as unknown as number })).to.throw(/threads is "2"; allowed: a whole/);
    expect(resolveOptions({}, all).threads).to.be.within(1, 8);
  });

  it("says in its numerics whether convolutions may be computed by transforms", async () => {
    for (const [options, expected] of [
      [{}, "never"],
      [{ transformedConvolutions: "2x2" }, "2x2"],
      [{ transformedConvolutions: "4x4" }, "4x4"],
    ] as const)
      await withBackend({ threads: 0, ...options }, async ({ capabilities }) => {
        expect(capabilities.numerics.transformedConvolutions).to.equal(expected);
      });
  });

  it("says why it is not available", async () => {
    const provider = cpu({ variants: { gemm: "6x8_fma" }, relaxedSimd: false });
    const found = await provider.probe();
    expect(found).to.include({ available: false });
    expect((found as { reason: string }).reason).to.match(/6x8_fma needs relaxed SIMD/);
    const error = await provider
      .create()
      .init()
      .catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(BackendError).with.property("code", "UNSUPPORTED");
  });
});
