import { assert } from "chai";
import { type AdapterTraits, familyOf, softwareFamily } from "#src/device/families.js";
import { TestDevice } from "./support.js";

const unknown: AdapterTraits = { vendor: "", architecture: "", device: "", description: "" };

describe("webgpu adapter families", () => {
  const nameOf = (traits: Partial<AdapterTraits>) => familyOf({ ...unknown, ...traits }).name;

  it("go by what adapters say of themselves, in whatever words", () => {
    assert.equal(nameOf({ vendor: "google", architecture: "swiftshader" }), "swiftshader");
    assert.equal(nameOf({ description: "SwiftShader driver 5.0.0" }), "swiftshader");
    assert.equal(nameOf({ vendor: "mesa", architecture: "software", device: "llvmpipe-256" }), "llvmpipe");
    assert.equal(nameOf({ vendor: "mesa", architecture: "software" }), "software");
    assert.equal(nameOf({ description: "Microsoft Basic Render Driver" }), "software");
    assert.equal(nameOf({ vendor: "acme", isFallbackAdapter: true }), "software");
    assert.equal(
      nameOf({ vendor: "google", architecture: "swiftshader", subgroupMaxSize: 64 }),
      "swiftshader",
    );
  });

  it("are general for GPUs, and for adapters that say nothing, unless their subgroups are too narrow", () => {
    assert.equal(nameOf({ vendor: "nvidia", architecture: "hopper", subgroupMaxSize: 32 }), "general");
    assert.equal(nameOf({ vendor: "intel", architecture: "gen-12lp", subgroupMaxSize: 16 }), "general");
    assert.equal(nameOf({}), "general");
    assert.equal(nameOf({ subgroupMaxSize: 9 }), "general");
    assert.equal(nameOf({ subgroupMaxSize: 8 }), "narrow subgroups");
    assert.equal(nameOf({ vendor: "arm", architecture: "bifrost", subgroupMaxSize: 8 }), "general");
    assert.isFalse(familyOf(unknown).isEmulated);
    for (const traits of [{ subgroupMaxSize: 4 }, { description: "warp" }, { architecture: "swiftshader" }])
      assert.isTrue(familyOf({ ...unknown, ...traits }).isEmulated);
    assert.isUndefined(softwareFamily({ ...unknown, subgroupMaxSize: 4 }), "it does not say so");
  });

  it("are told in the log of a device", async () => {
    const lines: string[] = [];
    const device = await TestDevice.open({ log: (line) => lines.push(line) });
    const { details, software } = device.description!.device;
    await device.close();
    const family = familyOf({ ...unknown, ...details });
    assert.equal(family.isEmulated, software);
    assert.include(lines[0], `, kernels as for ${family.name}, `);
  });
});
