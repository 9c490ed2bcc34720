import { BackendError } from "@backplane/core";
import { expect } from "chai";
import { detectFeatures } from "#src/features.js";
import { allKernels } from "#src/kernels/index.js";
import { KernelInstances, lateExport } from "#src/kernels/instance.js";
import { defineKernel, type Features, type Kernel, type KernelGroup } from "#src/kernels/kernel.js";
import { KernelLibrary } from "#src/kernels/library.js";
import { memoryKernels } from "#src/kernels/memory/memory.js";
import { i32, type ModuleBuilder } from "#src/wasm/index.js";

const limits = { initialPages: 1, maximumPages: 1, shared: false };
const plain: Features = { relaxedSimd: false };

/** Stores a number at address 64, and notes when it is emitted. */
function storing(name: string, value: number, emitted: string[], requires?: "relaxedSimd"): Kernel {
  return defineKernel({
    ...{ name, parameters: {}, scratchBytes: value, ...(requires === undefined ? {} : { requires }) },
    emit(f) {
      emitted.push(name);
      f.store(64, i32.const(value));
    },
  });
}

function run(library: KernelLibrary, names: readonly string[]): number[] {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  const instances = new KernelInstances(library.code, memory, {});
  return names.map((name) => {
    instances.get(library.index(name))(0, 0, 0, 0);
    return new Uint32Array(memory.buffer)[16]!;
  });
}

describe("KernelLibrary", () => {
  it("emits a kernel with its group when it is first asked for, once", () => {
    const emitted: string[] = [];
    const kernel = (name: string, value: number) => storing(name, value, emitted);
    const groups = [kernel("a", 1), [kernel("b", 2), kernel("c", 3)], kernel("d", 4)];
    const library = new KernelLibrary(groups, limits, plain);
    expect(emitted).to.deep.equal([]);
    expect(library.code.names).to.deep.equal(["a", "b", "c", "d"]);
    expect(library.largestScratch).to.equal(4);
    expect(run(library, ["c"])).to.deep.equal([3]);
    expect(emitted).to.deep.equal(["b", "c"]);
    expect(run(library, ["b", "a", "c"])).to.deep.equal([2, 1, 3]);
    expect(emitted).to.deep.equal(["b", "c", "a"]);
  });

  it("lets instances that were made before see what is emitted later", () => {
    const emitted: string[] = [];
    const library = new KernelLibrary([storing("a", 1, emitted), storing("b", 2, emitted)], limits, plain);
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
    const instances = new KernelInstances(library.code, memory, {});
    instances.get(library.index("a"))(0, 0, 0, 0);
    instances.get(library.index("b"))(0, 0, 0, 0);
    expect(new Uint32Array(memory.buffer)[16]).to.equal(2);
  });

  it("takes kernels that are made later, once for each name, and shows them to all instances", () => {
    const library = new KernelLibrary([storing("a", 1, [])], limits, plain);
    const made: string[] = [];
    const late = (name: string, value: number) =>
      library.late(name, (module) => {
        made.push(name);
        const types = { block: "i32", chunk: "i32", scratch: "i32", worker: "i32" } as const;
        module.function(lateExport, types, (f) => f.store(64, i32.const(value)), { export: true });
      });
    late("b", 2);
    expect(run(library, ["b", "a"])).to.deep.equal([2, 1]);
    late("c", 3);
    late("b", 4);
    expect(made).to.deep.equal(["b", "c"]);
    expect(run(library, ["c", "b", "a"])).to.deep.equal([3, 2, 1]);
  });

  it("says so when there are too many kernels of single expressions", () => {
    const library = new KernelLibrary([], limits, plain);
    const types = { block: "i32", chunk: "i32", scratch: "i32", worker: "i32" } as const;
    const make = (module: ModuleBuilder) =>
      void module.function(lateExport, types, () => {}, { export: true });
    for (let i = 0; i < 4096; i++) library.late(`late ${i}`, make);
    expect(() => library.late("one more", make))
      .to.throw(BackendError, /no room for one more kernel/)
      .with.property("code", "OUT_OF_MEMORY");
    library.late("late 7", make);
  });

  it("has a kernel of several groups once, and no two of one name", () => {
    const emitted: string[] = [];
    const [a, b] = [storing("a", 1, emitted), storing("b", 2, emitted)];
    const library = new KernelLibrary([[a, b], a, [b]], limits, plain);
    expect(library.code.names).to.deep.equal(["a", "b"]);
    expect(() => new KernelLibrary([a, storing("a", 2, emitted)], limits, plain)).to.throw(
      TypeError,
      "two kernels are called a",
    );
    expect(() => library.index("c")).to.throw(TypeError, "no kernel is called c");
  });

  it("leaves out what the engine lacks", () => {
    const emitted: string[] = [];
    const groups: KernelGroup[] = [[storing("a", 1, emitted), storing("b", 2, emitted, "relaxedSimd")]];
    const library = new KernelLibrary(groups, limits, plain);
    expect(library.code.names).to.deep.equal(["a"]);
    expect(library.largestScratch).to.equal(1);
    expect(run(library, ["a"])).to.deep.equal([1]);
    expect(emitted).to.deep.equal(["a"]);
  });

  for (const relaxedSimd of [false, true]) {
    const declare = relaxedSimd && !detectFeatures().relaxedSimd ? it.skip : it;
    declare(`has room for all kernels ${relaxedSimd ? "with" : "without"} relaxed SIMD`, () => {
      const features = { relaxedSimd };
      const groups = Object.values(allKernels.limited({}, features)).flatMap(({ kernels }) => kernels);
      const library = new KernelLibrary([memoryKernels, ...groups], limits, features);
      const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
      const instances = new KernelInstances(library.code, memory, {});
      for (const name of library.code.names)
        expect(instances.get(library.index(name)), name).to.be.a("function");
    });
  }
});
