import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { createWebGpuBackend, type WebGpuOptions, webgpu } from "@backplane/backend-webgpu";
import { BackendError } from "@backplane/core";
import { assert, expect } from "chai";
import { dawnFlags } from "#src/dawn.js";
import { chooseTier, defaultLimits, type TierOffer, tierNames } from "#src/device/tiers.js";
import { choiceLog, selectVariant, type Variant } from "#src/kernels/variant.js";
import type { KernelContext } from "#src/runtime/context.js";
import { driverOf, findDawn, hangMilliseconds, TestDevice, withoutLimits } from "./support.js";

const MATRIX = "chromium-experimental-subgroup-matrix";

function offer(features: readonly string[], more: Partial<TierOffer> = {}): TierOffer {
  return {
    features: new Set(features),
    limits: {
      ...{ maxBufferSize: 2 ** 31, maxStorageBuffersPerShaderStage: 16, maxComputeWorkgroupSizeZ: 64 },
      ...defaultLimits,
      ...{ maxComputeInvocationsPerWorkgroup: 1024, maxStorageBufferBindingSize: 2 ** 30 },
    },
    ...{ vendor: "acme", matrices: [] },
    ...more,
  };
}

const everything = offer(["subgroups", "shader-f16", MATRIX, "texture-compression-bc"], {
  matrices: ["16x16x16"],
});

describe("webgpu tiers", () => {
  it("allow one feature more each, and matrices only where they are asked for", () => {
    const features = tierNames.map((tier) => chooseTier(everything, { tier }).features);
    assert.deepEqual(features, [
      [],
      ["subgroups"],
      ["subgroups", "shader-f16"],
      ["subgroups", "shader-f16", MATRIX],
    ]);
    for (const tier of tierNames) assert.equal(chooseTier(everything, { tier }).tier, tier);
    assert.equal(chooseTier(everything, { tier: "subgroup-matrices" }).reason, "");
    const usual = chooseTier(everything, {});
    assert.equal(usual.tier, "shader-f16");
    assert.match(usual.reason, /^no subgroup-matrices: experimental, only with .*"subgroup-matrices"$/);
  });

  it("go no higher than the adapter, and say what it lacks", () => {
    const plain = chooseTier(offer([]), {});
    assert.equal(plain.tier, "baseline");
    assert.match(plain.reason, /no subgroups: the adapter lacks.*no shader-f16: the adapter lacks/);
    const halves = chooseTier(offer(["shader-f16"]), { tier: "subgroup-matrices" });
    assert.deepEqual(halves.features, ["shader-f16"]);
    assert.match(halves.reason, /no subgroups: .*; no subgroup-matrices: the adapter lacks/);
    const hidden = chooseTier(offer(["subgroups"], { vendor: "nvidia" }), {});
    assert.match(hidden.reason, /vulkan_enable_f16_on_nvidia/);
    const tier = "subgroup-matrices";
    assert.match(chooseTier(offer([MATRIX, "subgroups"]), { tier }).reason, /matrices: needs shader-f16 too/);
    const shapeless = chooseTier({ ...everything, matrices: [] }, { tier });
    assert.equal(shapeless.tier, "shader-f16");
    assert.match(shapeless.reason, /no shape of f16/);
  });

  it("leave features alone that are switched off", () => {
    const choice = chooseTier(everything, { disableFeatures: ["subgroups"] });
    assert.deepEqual(choice.features, ["shader-f16"]);
    assert.match(choice.reason, /no subgroups: switched off by the option disableFeatures/);
  });

  it("take all that the adapter allows, but the defaults only in the baseline, and never above a cap", () => {
    const all = chooseTier(offer([]), {});
    assert.equal(all.limits.maxComputeInvocationsPerWorkgroup, 1024);
    assert.equal(all.requiredLimits.maxBufferSize, 2 ** 31);
    const least = chooseTier(everything, { tier: "baseline" });
    assert.deepEqual(least.limits, defaultLimits);
    assert.deepEqual(least.requiredLimits, {});
    const limits = { maxComputeInvocationsPerWorkgroup: 512, maxStorageBufferBindingSize: 4096 };
    const capped = chooseTier(everything, { limits });
    assert.deepEqual(capped.limits, { ...defaultLimits, ...limits });
    assert.equal(capped.requiredLimits.maxComputeInvocationsPerWorkgroup, 512);
    const both = chooseTier(everything, { limits, tier: "baseline" });
    assert.deepEqual(both.limits, { ...defaultLimits, maxStorageBufferBindingSize: 4096 });
    const beyond = chooseTier(everything, { limits: { maxComputeInvocationsPerWorkgroup: 2 ** 20 } });
    assert.equal(beyond.limits.maxComputeInvocationsPerWorkgroup, 1024);
  });

  it("bind so little that 32 bits count it, with the workgroups to spare in a folded grid", () => {
    const { limits } = offer([]);
    const large = offer([], { limits: { ...limits, maxStorageBufferBindingSize: 2 ** 32 - 4 } });
    assert.equal(chooseTier(large, {}).limits.maxStorageBufferBindingSize, 2 ** 31);
  });

  it("switch on the toggles of Dawn that matrices need, unless told otherwise", () => {
    assert.deepEqual(dawnFlags({}).join(), dawnFlags({}, "shader-f16").join());
    assert.notMatch(dawnFlags({}).join(), /enable-dawn-features/);
    const tier = "subgroup-matrices";
    assert.include(dawnFlags({}, tier), "enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia");
    const flags = dawnFlags({ enable: ["skip_validation"], disable: ["allow_unsafe_apis"] }, tier);
    assert.include(flags, "enable-dawn-features=vulkan_enable_f16_on_nvidia,skip_validation");
    assert.match(flags.join(), /disable-dawn-features=.*allow_unsafe_apis/);
  });

  it("are options, and what makes no sense is refused with what is allowed", () => {
    for (const [options, argument, allowed] of [
      [
        { powerPreferance: "low-power" },
        "powerPreferance",
        /is unknown \(is powerPreference meant\?\); allowed/,
      ],
      [
        { dawn: { enabel: [] } },
        "dawn.enabel",
        /dawn.enabel is unknown \(is enable meant\?\); allowed: enable/,
      ],
      [null, "options", /options is null; allowed: an object/],
      [{ tier: "fastest" }, "tier", /fastest.*baseline, subgroups, shader-f16, subgroup-matrices/],
      [{ limits: { maxBananas: 1 } }, "limits.maxBananas", /maxBananas.*maxComputeInvocationsPerWorkgroup/],
      [{ limits: null }, "limits", /limits is null; allowed: an object/],
      [{ disableFeatures: "subgroups" }, "disableFeatures", /is subgroups; allowed: a list of names/],
      [
        { disableFeatures: ["shader-f16", "subgroup"] },
        "disableFeatures.subgroup",
        /is unknown \(is subgroups meant\?\); allowed: subgroups, .*timestamp-query, immediate_address_space/,
      ],
      [{ limits: { maxComputeWorkgroupSizeX: 0 } }, "limits.maxComputeWorkgroupSizeX", /is 0; .*whole/],
      [{ limits: { maxComputeWorkgroupSizeX: 1.5 } }, "limits.maxComputeWorkgroupSizeX", /is 1.5/],
      [{ limits: { maxComputeWorkgroupSizeX: "1" } }, "limits.maxComputeWorkgroupSizeX", /is 1/],
      [{ poolBytes: -1 }, "poolBytes", /is -1; allowed: numbers from 0/],
      [{ log: "console" }, "log", /is console; allowed: a function/],
    ] as [WebGpuOptions, string, RegExp][])
      for (const make of [() => webgpu(options), () => driverOf(async () => undefined, options)])
        expect(make).to.throw(BackendError, allowed).that.includes({ code: "INVALID_ARGUMENT", argument });
  });
});

describe("webgpu tiers on a device", () => {
  it("open one that has no more than the baseline, which the device itself enforces", async () => {
    const device = await TestDevice.open({ tier: "baseline" });
    const gpu = device.driver.native() as GPUDevice;
    for (const feature of ["subgroups", "shader-f16", MATRIX])
      assert.isFalse(gpu.features.has(feature), feature);
    for (const [name, value] of Object.entries(defaultLimits))
      assert.equal(gpu.limits[name as keyof typeof defaultLimits], value, name);
    assert.equal(gpu.limits.maxBufferSize, 2 ** 28);
    device.driver.withContext(({ features }) => {
      assert.deepEqual(features.limits, defaultLimits);
      assert.isFalse(features.subgroups || features.shaderF16);
    });
    assert.match(device.description!.device.details.tier!, /^baseline \(no subgroups: the option tier is/);
    await device.close();
  });

  it("hold a device that is given to the same", async () => {
    const adapter = await (await findDawn()).requestAdapter();
    const features = ["subgroups"].filter((name) => adapter!.features.has(name)) as GPUFeatureName[];
    const given = await adapter!.requestDevice({ requiredFeatures: features });
    const device = await TestDevice.open({
      device: given,
      tier: "baseline",
      limits: { maxComputeWorkgroupSizeX: 32 },
    });
    device.driver.withContext(({ features }) => {
      assert.isFalse(features.subgroups);
      assert.deepEqual(features.limits, { ...defaultLimits, maxComputeWorkgroupSizeX: 32 });
    });
    await device.close();
    given.destroy();
  });

  it("open with what there is where more is asked for, quietly", async () => {
    const script = `
      const { createWebGpuBackend } = await import("@backplane/backend-webgpu");
      const backend = createWebGpuBackend({ tier: "subgroup-matrices" });
      await backend.init();
      backend.fill(backend.alloc(64), 1, 16);
      await backend.synchronize();
      console.log(backend.capabilities.device.details.tier);`;
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ["--input-type=module", "--eval", script],
      { cwd: import.meta.dirname, timeout: hangMilliseconds },
    );
    // The highest tier by that name, or why it is not.
    assert.match(stdout, /^subgroup-matrices\n$|[(; ]no subgroup-matrices: .+\)\n$/);
    assert.equal(withoutLimits(stderr), "");
  });

  it("say in the log what was opened", async () => {
    const lines: string[] = [];
    const backend = createWebGpuBackend({ tier: "baseline", log: (line) => lines.push(line) });
    await backend.init();
    assert.lengthOf(lines, 1);
    assert.include(lines[0]!, backend.capabilities.device.name);
    assert.match(lines[0]!, /tier baseline \(no subgroups: .*16 KiB of workgroup memory.*128 MiB/);
    await backend.dispose();
  });

  it("say in the log which kernel an operation takes, once for each reason", async () => {
    const lines: string[] = [];
    const device = await TestDevice.open({ log: (line) => lines.push(line) });
    const { features } = await new Promise<KernelContext>((resolve) => device.driver.withContext(resolve));
    const row = (name: string, least: number): Variant<number> => ({
      name,
      requires: () => name !== "rare",
      fits: (size) => size >= least,
      prefers: (size) => size < 100,
    });
    const table = [row("rare", 0), row("wide", 16), row("narrow", 1)];
    for (const size of [3, 4, 50, 5, 200, 300]) selectVariant("gemm", table, size, features);
    selectVariant("conv2d", table, 50, features, "narrow");
    assert.deepEqual(lines.slice(1), [
      "webgpu: gemm takes narrow (preferred for the shape; rare needs more than the device has; wide does not fit)",
      "webgpu: gemm takes wide (preferred for the shape; rare needs more than the device has)",
      "webgpu: gemm takes narrow (the last one that fits; rare needs more than the device has)",
      "webgpu: conv2d takes narrow (forced by the option variants)",
    ]);
    await device.close();
  });

  it("put a reason into words only for a line that is written", () => {
    const lines: string[] = [];
    const listener = choiceLog((line) => lines.push(line));
    let worded = 0;
    const reason = (): string => `reason ${++worded}`;
    const choice = { operation: "gemm", variant: "wide", shape: 1, reason, possible: () => [] } as const;
    for (const motive of ["last", "last", "preferred", "last"] as const) listener({ ...choice, motive });
    assert.equal(worded, 2);
    assert.deepEqual(lines, ["webgpu: gemm takes wide (reason 1)", "webgpu: gemm takes wide (reason 2)"]);
  });

  it("go on where the log throws, which surfaces as an unhandled rejection", async () => {
    const unhandled: unknown[] = [];
    const listeners = process.rawListeners("unhandledRejection");
    process.removeAllListeners("unhandledRejection");
    process.on("unhandledRejection", (error) => unhandled.push((error as Error).message));
    try {
      const log = (line: string): void => {
        throw new Error(line.split(" ", 3).join(" "));
      };
      const backend = createWebGpuBackend({ log });
      await backend.init();
      const [input, output] = [backend.alloc(64), backend.alloc(4)];
      backend.fill(input, 2, 16);
      backend.reduce({ kind: "sum", shape: [16], input, output });
      const sum = new Float32Array(1);
      await backend.copyDtoH(sum, output);
      await backend.dispose();
      assert.equal(sum[0], 32);
      await new Promise((resolve) => setImmediate(resolve));
      assert.lengthOf(unhandled, 2);
      assert.equal(unhandled[1], "webgpu: reduce takes");
    } finally {
      process.removeAllListeners("unhandledRejection");
      for (const listener of listeners) process.on("unhandledRejection", listener as never);
    }
  });
});

describe("webgpu option f32Products", () => {
  it("needs the tier, and takes no other names", () => {
    webgpu({ f32Products: "plain" });
    webgpu({ f32Products: "split-f16", tier: "subgroup-matrices" });
    for (const [options, complaint] of [
      [{ f32Products: "split-f16" }, /tier "subgroup-matrices"/],
      [{ f32Products: "split-f16", tier: "shader-f16" }, /tier "subgroup-matrices"/],
      [{ f32Products: "tf32" as "plain" }, /tf32; allowed: plain, split-f16/],
    ] as const)
      expect(() => webgpu(options))
        .to.throw(BackendError, complaint)
        .that.includes({ code: "INVALID_ARGUMENT", argument: "f32Products" });
  });

  it("leaves products plain where there are no matrix units, and says so", async () => {
    const backend = createWebGpuBackend({ f32Products: "split-f16", tier: "subgroup-matrices" });
    await backend.init();
    const { f32Products, tier } = backend.capabilities.device.details;
    if (!tier!.startsWith("subgroup-matrices")) assert.match(f32Products!, /^plain \(.*matrix units/);
    await backend.dispose();
    const plain = createWebGpuBackend();
    await plain.init();
    assert.notProperty(plain.capabilities.device.details, "f32Products");
    await plain.dispose();
  });
});

describe("webgpu option transformedConvolutions", () => {
  it("takes the names that there are", () => {
    expect(() => webgpu({ transformedConvolutions: "8x8" as "4x4" }))
      .to.throw(BackendError, /transformedConvolutions is 8x8; allowed: never, 2x2, 4x4/)
      .that.includes({ code: "INVALID_ARGUMENT", argument: "transformedConvolutions" });
  });

  it("is declared, as another bound holds", async () => {
    for (const transformedConvolutions of ["never", "4x4"] as const) {
      const backend = createWebGpuBackend({ transformedConvolutions });
      await backend.init();
      const { numerics, device } = backend.capabilities;
      assert.equal(numerics.transformedConvolutions, transformedConvolutions);
      const detail = transformedConvolutions === "never" ? undefined : transformedConvolutions;
      assert.equal(device.details.transformedConvolutions, detail);
      await backend.dispose();
    }
  });
});
